//! Checks of `[[trusted_issuer]]`.

use url::Url;

use super::address;
use crate::check::address::{DAY, HOUR, MINUTE};
use crate::disk::Files;
use crate::file::Section;
use crate::{IssuerUrl, KeySource, TrustedIssuer, is_loopback_host};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::oauth::trusted_token::{ClaimNames, MAX_TOKEN_LENGTH, TrustTerms};
use sealgate_domain::service::RESERVED_ISSUER;

/// Maximum number of trusted issuers. The server fetches the keys of each periodically.
const MAX_TRUSTED_ISSUERS: usize = 32;

/// Parses all trusted issuers. `own` is this server's issuer, which must not be one of them.
pub(super) fn trusted_issuers(
    sections: Vec<Section<'_, '_>>,
    own: Option<&IssuerUrl>,
    files: &Files,
) -> Option<Vec<TrustedIssuer>> {
    let mut taken = Taken::default();
    // Parse all issuers before dropping any with errors, so that all errors are reported.
    let issuers: Vec<_> = sections.into_iter().map(|section| trusted_issuer(section, own, files, &mut taken)).collect();
    issuers.into_iter().collect()
}

#[derive(Default)]
struct Taken {
    names: Vec<String>,
    issuers: Vec<String>,
}

fn trusted_issuer(
    mut section: Section<'_, '_>,
    own: Option<&IssuerUrl>,
    files: &Files,
    taken: &mut Taken,
) -> Option<TrustedIssuer> {
    let name = section.required_text("name", "write a short name of a-z, 0-9, - and _", |text| {
        let name = short_name(text)?;
        if name == RESERVED_ISSUER {
            return Err(format!(
                "{text:?} begins the names of clients in identity headers (client:ID); use a different name"
            ));
        }
        if taken.names.contains(&name) {
            return Err(format!("{text:?} is another trusted issuer's name; use a different name"));
        }
        if taken.names.len() == MAX_TRUSTED_ISSUERS {
            return Err(format!("there are more than {MAX_TRUSTED_ISSUERS} trusted issuers; remove some"));
        }
        taken.names.push(name.clone());
        Ok(name)
    });
    let issuer = section.required_text("issuer", "write the URL in the claim iss of its tokens", |text| {
        document(text, false)?;
        if own.is_some_and(|own| own.as_str() == text) {
            return Err(format!(
                "{text:?} is this provider, whose tokens are always accepted; leave this [[trusted_issuer]] out"
            ));
        }
        if taken.issuers.iter().any(|known| known == text) {
            return Err(format!("{text:?} is another trusted issuer's URL; list each issuer once"));
        }
        taken.issuers.push(text.to_owned());
        Ok(text.to_owned())
    });
    let keys = section.text("jwks", "write the URL or the file of its key set", |text| {
        let address = text.contains("://");
        if address { document(text, true).map(KeySource::At) } else { files.key_set(text).map(KeySource::File) }
    });
    let discovered = !section.has("jwks");
    let audiences =
        section.required_texts("audiences", "write the values of the claim aud in its tokens for you", address::name);
    let algorithms = algorithms(&mut section);
    let access_tokens_only = section.flag("access_tokens_only", true);
    let client = "write a list of client IDs: the values of the claim client_id or azp in its tokens";
    let clients = section.some_texts("clients", client, address::name);
    let claims = claims(&mut section, name.as_deref());
    let skew = section.seconds("clock_skew_seconds", MINUTE, 0..=5 * MINUTE);
    let longest = section.number("token_bytes", 8192, 1024..=MAX_TOKEN_LENGTH);
    let refresh = section.seconds("refresh_seconds", HOUR, 1..=DAY);
    let throttle = section.seconds("throttle_seconds", 30, 1..=HOUR);
    let stale = section.seconds("stale_seconds", DAY, 1..=7 * DAY);
    if stale < refresh {
        let problem = format!("is shorter than refresh_seconds; set at least {}", refresh.as_secs());
        section.fault("stale_seconds", &problem);
    }
    let keys = if discovered { KeySource::Discovered } else { keys? };
    let issuer = issuer?;
    let terms =
        TrustTerms { name: name?, issuer, audiences, algorithms, access_tokens_only, clients, skew, longest, claims };
    Some(TrustedIssuer { terms, keys, refresh, throttle, stale })
}

fn algorithms(section: &mut Section<'_, '_>) -> Vec<Algorithm> {
    let names = Algorithm::ALL.map(|(name, _)| name).join(", ");
    let allowed = format!("write a list of {names}");
    let listed = section.some_texts("algorithms", &allowed, |text| {
        let algorithm = Algorithm::ALL.iter().find(|(name, _)| *name == text).map(|(_, algorithm)| *algorithm);
        algorithm.ok_or_else(|| match text {
            "none" => "\"none\" means no signature: anyone could forge such a token; leave it out".to_owned(),
            _ if text.starts_with("HS") => {
                format!("{text:?} needs a shared secret; {allowed}, which use a public key")
            }
            _ => format!("{text:?} is not known; {allowed}"),
        })
    });
    listed.unwrap_or_else(|| vec![Algorithm::Rs256])
}

fn claims(section: &mut Section<'_, '_>, name: Option<&str>) -> ClaimNames {
    let allowed = "write a claim's name, or a JSON pointer such as \"/realm_access/roles\"";
    let groups = section.text("groups_claim", allowed, address::name);
    let prefix = section.text("group_prefix", "write the prefix of its groups", prefix);
    if section.has("group_prefix") && !section.has("groups_claim") {
        section.fault("group_prefix", "requires groups_claim, the claim with the groups; set both");
    }
    let scope = section.text("scope_claim", allowed, address::name);
    let email = section.text("email_claim", allowed, address::name);
    let emails_are_verified = section.flag("emails_are_verified", false);
    if emails_are_verified && !section.has("email_claim") {
        section.fault("emails_are_verified", "requires email_claim, the claim with the e-mail address; set both");
    }
    let acr = section.text("acr_claim", allowed, address::name);
    let group_prefix = prefix.unwrap_or_else(|| format!("{}:", name.unwrap_or_default()));
    ClaimNames { groups, group_prefix, scope, email, emails_are_verified, acr }
}

fn prefix(text: &str) -> Result<String, String> {
    if text.len() > 64 || text.chars().any(char::is_control) {
        return Err(format!("{text:?} is not a valid prefix; use at most 64 bytes without control characters"));
    }
    Ok(text.to_owned())
}

/// Parses the short name of an issuer, the prefix of its users' names before a colon.
fn short_name(text: &str) -> Result<String, String> {
    let name = address::app_name(text)
        .map_err(|_| format!("{text:?} is not a valid name; write 1 to 63 of a-z, 0-9, - and _"))?;
    // `urn:uuid:…` is also a form of a UUID, so it would mean a local user.
    if name == "urn" { Err("\"urn\" is reserved; use another name".to_owned()) } else { Ok(name) }
}

/// Parses the URL of an issuer or of its key set. The URL is not normalised, because issuers are
/// compared byte for byte.
pub(super) fn document(text: &str, with_query: bool) -> Result<Url, String> {
    // The URL parser silently removes blanks and line breaks.
    address::name(text)?;
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL ({error}); write https://host/path"))?;
    match url.scheme() {
        "https" => {}
        "http" if is_loopback_host(url.host_str().unwrap_or_default()) => {}
        _ => return Err(format!("{text:?} is not https; http is only allowed on localhost, 127.0.0.1 and [::1]")),
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(format!("{text:?} has a username or a fragment; leave it out"));
    }
    if !with_query && url.query().is_some() {
        return Err(format!("{text:?} has a query, which an issuer cannot have; write the value of the claim iss"));
    }
    Ok(url)
}
