//! Reads the keys of another issuer from a file or over HTTP. Blocking I/O.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use url::Url;

use sealgate_config::{KeySource, TrustedIssuer};
use sealgate_domain::oauth::jwk_set;
use sealgate_domain::oauth::jwk_set::TrustedJwk;
use sealgate_domain::oauth::strict_json;
use sealgate_domain::oauth::upstream_metadata::check_endpoint;
use sealgate_system::fetch::{Unread, Web};

/// Maximum time to fetch one document.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Well-known path of an issuer's metadata, appended to the issuer's path (OpenID Connect Discovery
/// §4.1).
const OPENID: &str = "/.well-known/openid-configuration";
/// Well-known path of an issuer's metadata, inserted before the issuer's path (RFC 8414 §3.1).
const OAUTH: &str = "/.well-known/oauth-authorization-server";

pub(super) struct Fetched {
    pub(super) jwks: Vec<TrustedJwk>,
    /// Time for which the response may be cached, according to the response.
    pub(super) max_age: Option<Duration>,
}

/// Fetches an issuer's keys from the configured source.
pub(super) fn fetch(issuer: &TrustedIssuer) -> Result<Fetched, String> {
    let web = || Web::new(MAX_WAIT, jwk_set::MAX_SET_LENGTH as u64);
    match &issuer.keys {
        KeySource::File(path) => Ok(Fetched { jwks: file(path)?, max_age: None }),
        KeySource::At(url) => key_set(&web()?, url.as_str()),
        KeySource::Discovered => {
            let web = web()?;
            let url = discovered(&web, &issuer.terms.issuer)?;
            key_set(&web, &url)
        }
    }
}

/// Reads a key set from a file.
pub(super) fn file(path: &Path) -> Result<Vec<TrustedJwk>, String> {
    let name = path.display();
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| format!("{name} cannot be read ({error})"))?;
    let read = file.take(jwk_set::MAX_SET_LENGTH as u64 + 1).read_to_end(&mut content);
    read.map_err(|error| format!("{name} cannot be read ({error})"))?;
    jwk_set::read(&content).map_err(|fault| format!("{name}: {fault}"))
}

fn key_set(web: &Web, url: &str) -> Result<Fetched, String> {
    let document = web.get(url).map_err(Unread::into_line)?;
    let jwks = jwk_set::read(&document.body).map_err(|fault| format!("{url}: {fault}"))?;
    Ok(Fetched { jwks, max_age: document.max_age })
}

/// Returns the URL of the key set that the issuer's metadata names.
fn discovered(web: &Web, issuer: &str) -> Result<String, String> {
    let trimmed = issuer.trim_end_matches('/');
    let document = match web.get(&format!("{trimmed}{OPENID}")) {
        Err(Unread::Absent(_)) => web.get(&oauth_metadata_url(issuer)?),
        read => read,
    };
    let document = document.map_err(Unread::into_line)?;
    let metadata = strict_json::object(&document.body)
        .ok_or_else(|| format!("the metadata of {issuer} is not a JSON object, or repeats a member"))?;
    let text = |name: &str| metadata.get(name).and_then(serde_json::Value::as_str);
    // The metadata must name the configured issuer (RFC 8414 §3.3). Otherwise an attacker who can
    // write files at the well-known path could impersonate the issuer.
    if text("issuer") != Some(issuer) {
        return Err(format!(
            "the metadata of {issuer} names another issuer; write the issuer exactly as in its metadata"
        ));
    }
    let jwks_uri = text("jwks_uri").ok_or_else(|| format!("the metadata of {issuer} has no jwks_uri"))?;
    check_endpoint(issuer, jwks_uri)
        .map_err(|fault| format!("the metadata of {issuer} has a jwks_uri that is not allowed: {fault}"))?;
    Ok(jwks_uri.to_owned())
}

/// Returns the metadata URL, with the well-known path between host and path (RFC 8414 §3.1).
fn oauth_metadata_url(issuer: &str) -> Result<String, String> {
    let mut url = Url::parse(issuer).map_err(|error| format!("{issuer} is not a URL ({error})"))?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{OAUTH}{path}"));
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_metadata_url_is_before_the_issuers_path() {
        for (issuer, place) in [
            ("https://a.test", "https://a.test/.well-known/oauth-authorization-server"),
            ("https://a.test/", "https://a.test/.well-known/oauth-authorization-server"),
            ("https://a.test/t/1", "https://a.test/.well-known/oauth-authorization-server/t/1"),
            ("https://a.test:8443/t/", "https://a.test:8443/.well-known/oauth-authorization-server/t"),
        ] {
            assert_eq!(oauth_metadata_url(issuer).as_deref(), Ok(place));
        }
    }
}
