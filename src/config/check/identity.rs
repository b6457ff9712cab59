//! Checks of an application's identity headers, and of the headers with identities that clients are
//! allowed to send.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderName;

use crate::file::Section;
use crate::preset;
use crate::preset::PRESETS;
use crate::request_fields;
use crate::{AuthorizationHeader, GroupsDelimiter, IdentityHeaders, IdentityValue, Names};

/// Maximum number of identity headers of an application, because servers limit the number of
/// headers.
const MAX_HEADERS: usize = 16;
/// Suffixes of `X-Forwarded-` headers that describe how the request was received. The gateway sets
/// these headers itself.
const ORIGIN_SUFFIXES: [&str; 12] =
    ["for", "host", "proto", "protocol", "port", "scheme", "ssl", "server", "uri", "path", "prefix", "by"];

const VALUES: &str = "write, for example, { Remote-User = \"username\", Remote-Email = \"email\" }; a value \
    is \"sub\", \"email\", \"username\", \"name\" or \"groups\"";

/// Parses the identity headers of an application.
pub(super) fn identity(app: &mut Section<'_, '_>) -> IdentityHeaders {
    let chosen = app.text("preset", "write the name of an application", |text| {
        preset::by_name(text).ok_or_else(|| {
            let presets: Vec<_> = PRESETS.iter().map(|preset| format!("{:?}", preset.name)).collect();
            format!("{text:?} is not a preset; write one of {}, or identity_headers", presets.join(", "))
        })
    });
    let defaults = chosen.unwrap_or_default();
    let assertion = app.flag("assertion", defaults.assertion);
    let authorizations = [
        ("pass", AuthorizationHeader::Pass),
        ("strip", AuthorizationHeader::Strip),
        ("replace", AuthorizationHeader::Replace),
    ];
    let authorization = app.choice("authorization", &authorizations).unwrap_or(defaults.authorization);
    if authorization == AuthorizationHeader::Replace && !assertion {
        app.fault("authorization", "\"replace\" sends the signed assertion; write assertion = true, or another value");
    }
    let names = [
        ("ascii-percent", Names::AsciiPercent),
        ("utf8", Names::Utf8),
        ("iso-8859-9", Names::Iso8859_9),
        ("base64url", Names::Base64url),
    ];
    let delimiters = [
        (",", GroupsDelimiter::Comma),
        (";", GroupsDelimiter::Semicolon),
        ("|", GroupsDelimiter::Bar),
        (" ", GroupsDelimiter::Space),
    ];
    let headers = headers(app).unwrap_or(defaults.headers);
    let pass = pass(app, &headers);
    let app_password_header = app_password_header(app, &headers, &pass);
    IdentityHeaders {
        headers,
        pass,
        app_password_header,
        fixed: Vec::new(),
        assertion,
        authorization,
        names: app.choice("names", &names).unwrap_or(defaults.names),
        groups_delimiter: app.choice("groups_delimiter", &delimiters).unwrap_or(defaults.groups_delimiter),
    }
}

fn headers(app: &mut Section<'_, '_>) -> Option<Vec<(HeaderName, IdentityValue)>> {
    let mut taken: Vec<HeaderName> = Vec::new();
    let headers = app.named_texts("identity_headers", VALUES, |name, value| {
        let value = match value {
            "sub" => IdentityValue::Sub,
            "email" => IdentityValue::Email,
            "username" => IdentityValue::Username,
            "name" => IdentityValue::Name,
            "groups" => IdentityValue::Groups,
            other => return Err(format!("{other:?} is not a property of a user; {VALUES}")),
        };
        let header = header_name(name)?;
        if request_fields::is_standard(header.as_str()) || is_taken(header.as_str()) {
            return Err(format!("{name:?} has another meaning in HTTP; write another header"));
        }
        if taken.contains(&header) {
            return Err(format!("{name:?} is repeated with other capital letters; write each header once"));
        }
        taken.push(header.clone());
        Ok((header, value))
    });
    if taken.len() > MAX_HEADERS {
        app.fault("identity_headers", &format!("has {} headers; set at most {MAX_HEADERS}", taken.len()));
    }
    // The TOML table is unordered. Sort it, so that equal configurations compare as equal.
    headers.map(|mut headers| {
        headers.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        headers
    })
}

fn pass(app: &mut Section<'_, '_>, own: &[(HeaderName, IdentityValue)]) -> Vec<HeaderName> {
    let passed = app.texts("pass_headers", "write a list of headers such as [\"X-User-Token\"]", |name| {
        let header = header_name(name)?;
        if request_fields::describes_origin(header.as_str()) {
            return Err(format!("{name:?} describes the request's origin, which a client could forge; leave it out"));
        }
        if own.iter().any(|(own, _)| *own == header) {
            return Err(format!(
                "{name:?} is an identity header of this application; leave it out here, or rename the identity header"
            ));
        }
        Ok(header)
    });
    passed.unwrap_or_default()
}

fn app_password_header(
    app: &mut Section<'_, '_>,
    own: &[(HeaderName, IdentityValue)],
    passed: &[HeaderName],
) -> Option<HeaderName> {
    app.text("app_password_header", "write a header such as \"X-App-Password\"", |name| {
        let header = header_name(name)?;
        if request_fields::is_standard(header.as_str()) || is_taken(header.as_str()) {
            return Err(format!("{name:?} has another meaning in HTTP; write another header"));
        }
        if own.iter().any(|(own, _)| *own == header) || passed.contains(&header) {
            return Err(format!("{name:?} is in identity_headers or pass_headers too; write another header"));
        }
        Ok(header)
    })
}

/// Parses a header name. Rejects names that some servers confuse with another name.
pub(super) fn header_name(text: &str) -> Result<HeaderName, String> {
    let problem = || format!("{text:?} is not a header name; write letters, digits and single dashes");
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| problem())?;
    let is_usable = request_fields::is_plain(name.as_str()) && !text.contains("--");
    if is_usable { Ok(without_counter(&name)) } else { Err(problem()) }
}

/// Returns the same name without a counter of references. Requests of all threads copy the names of the
/// configuration, and each copy would write to the counter.
///
/// The text is never freed. Names of earlier configurations are used again.
fn without_counter(name: &HeaderName) -> HeaderName {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let text = names.get(name.as_str()).copied().unwrap_or_else(|| {
        let text: &'static str = Box::leak(Box::from(name.as_str()));
        names.insert(text);
        text
    });
    HeaderName::from_static(text)
}

/// Returns whether a header name cannot be used for an identity, because the gateway sets or
/// removes the header. `X-Forwarded-User` can be used.
fn is_taken(name: &str) -> bool {
    match name.strip_prefix("x-forwarded-") {
        Some(rest) => ORIGIN_SUFFIXES
            .iter()
            .any(|word| rest.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))),
        None => request_fields::describes_origin(name) || name.starts_with("trace"),
    }
}
