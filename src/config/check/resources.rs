//! Checks of an application's `scopes`, `issuer_audience` and `agents`, and of a route's `resource`.

use std::collections::BTreeSet;

use crate::file::Section;
use crate::{Access, AppScope, IssuerUrl};
use sealgate_domain::profile::is_line;
use sealgate_domain::scope::ScopeValue;

const SCOPES: &str = "write a table such as { \"wiki:read\" = { en = \"Read pages\", tr = \"Sayfaları okuma\" } }";

/// Maximum number of scopes of an application.
const MAX_SCOPES: usize = 50;
/// Maximum length of a scope in bytes. A token contains all its scopes.
const MAX_SCOPE_LENGTH: usize = 64;
/// Maximum length of a scope's text in characters.
const MAX_TEXT_LENGTH: usize = 120;

/// Parses `scopes` of an application, sorted by name.
pub(super) fn app_scopes(app: &mut Section<'_, '_>) -> Vec<AppScope> {
    let Some(sections) = app.named_sections("scopes", &["en", "tr"], SCOPES) else { return Vec::new() };
    if sections.len() > MAX_SCOPES {
        app.fault("scopes", &format!("has {} scopes; declare at most {MAX_SCOPES}", sections.len()));
    }
    let mut scopes: Vec<_> = sections.into_iter().filter_map(|(name, section)| scope(name, section)).collect();
    scopes.sort_by(|one, other| one.name.cmp(&other.name));
    scopes
}

fn scope(name: String, mut section: Section<'_, '_>) -> Option<AppScope> {
    let mut text = |key| {
        section.required_text(key, "write a description of the scope, in one line", |text| {
            let problem = || format!("{text:?} is not one line of 1 to {MAX_TEXT_LENGTH} visible characters");
            is_line(text, MAX_TEXT_LENGTH).then(|| text.to_owned()).ok_or_else(problem)
        })
    };
    let (english, turkish) = (text("en"), text("tr"));
    if let Some(problem) = name_problem(&name) {
        section.fault_here(&problem);
        return None;
    }
    Some(AppScope { name, english: english?, turkish: turkish? })
}

fn name_problem(name: &str) -> Option<String> {
    if ScopeValue::ALL.iter().any(|own| own.as_str() == name) {
        return Some("is a scope of Sealgate itself; write another name, such as \"wiki:read\"".to_owned());
    }
    let is_valid = is_scope(name) && name.len() <= MAX_SCOPE_LENGTH;
    (!is_valid).then(|| {
        format!(
            "is not a scope; write 1 to {MAX_SCOPE_LENGTH} ASCII characters without spaces, quotation marks and \
             backslashes"
        )
    })
}

/// Returns whether the text is a scope (RFC 6749 §3.3).
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

/// Parses `issuer_audience`, and reports contradictions with `agents` and `audience`.
pub(super) fn issuer_audience(
    app: &mut Section<'_, '_>,
    agents: bool,
    audiences: &BTreeSet<&str>,
    issuer: Option<&IssuerUrl>,
) -> bool {
    let accepted = app.flag("issuer_audience", !agents);
    if agents && accepted {
        let problem = "is true, but agents = true accepts only tokens for this application; leave one of them out";
        app.fault("issuer_audience", problem);
    }
    if !accepted && issuer.is_some_and(|issuer| audiences.contains(issuer.as_str())) {
        let problem = "is false, but an audience of the application is the issuer; leave one of them out";
        app.fault("issuer_audience", problem);
    }
    accepted
}

/// Parses `resource` of a route.
pub(super) fn route_resource(
    route: &mut Section<'_, '_>,
    agents: bool,
    path: Option<&str>,
    access: Option<Access>,
) -> bool {
    if !route.flag("resource", false) {
        return false;
    }
    // The identifier is part of challenges and URLs without escaping.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_' | b'~');
    let problem = if !agents {
        Some("has an effect only with agents = true of the application; set that, or leave it out")
    } else if access == Some(Access::Public) {
        Some("on a public route no token is checked; leave it out, or change access")
    } else if route.has("audience") {
        Some("is the audience of the route's tokens; leave audience out")
    } else if path == Some("/") {
        Some("is the application itself, which is a resource already; leave it out")
    } else if path.is_some_and(|path| !path.bytes().all(is_plain)) {
        Some("requires a path of ASCII letters, digits, /, -, ., _ and ~")
    } else {
        None
    };
    if let Some(problem) = problem {
        route.fault("resource", problem);
    }
    true
}
