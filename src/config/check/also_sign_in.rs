//! Checks of an application's `also_sign_in`.

use crate::IssuerUrl;
use crate::app::split_port;
use crate::app_hosts::WILDCARD;
use crate::file::Section;

/// Maximum length of `also_sign_in`. Each application adds up to four redirects to a sign-in, and
/// browsers follow about twenty.
const MAX_ALSO_SIGN_IN: usize = 3;

/// Parses the names of the applications at which the browser is signed in too. `all` has the name and
/// host of every application.
pub(super) fn also_sign_in(
    section: &mut Section<'_, '_>,
    own: Option<&str>,
    all: &[(String, String)],
    issuer: Option<&IssuerUrl>,
) -> Vec<String> {
    let mut known = Vec::new();
    let is_on_issuer = |name: &str| {
        let host = all.iter().find(|(known, _)| known == name).map(|(_, host)| split_port(host).0);
        host.is_some_and(|host| issuer.is_some_and(|issuer| issuer.host().eq_ignore_ascii_case(host)))
    };
    let is_wildcard = |name: &str| all.iter().any(|(known, host)| known == name && host.starts_with(WILDCARD));
    let names = section.some_texts("also_sign_in", "write a list of applications' names", |text| {
        if own == Some(text) {
            return Err(format!("{text:?} is this application; write the names of other applications"));
        }
        if !all.iter().any(|(name, _)| name == text) {
            return Err(format!("{text:?} is not an application; write the name of another [[app]]"));
        }
        if known.iter().any(|name| name == text) {
            return Err(format!("{text:?} is repeated in this list; write each application once"));
        }
        if is_on_issuer(text) {
            return Err(format!("{text:?} is on the issuer's host, where users have one session anyway; leave it out"));
        }
        if is_wildcard(text) {
            return Err(format!("{text:?} has a wildcard in its host; write applications with an exact host"));
        }
        known.push(text.to_owned());
        Ok(text.to_owned())
    });
    let names = names.unwrap_or_default();
    if names.len() > MAX_ALSO_SIGN_IN {
        let problem = format!("has {} applications; write at most {MAX_ALSO_SIGN_IN}", names.len());
        section.fault("also_sign_in", &problem);
    }
    if !names.is_empty() && own.is_some_and(is_wildcard) {
        let problem = "is not supported for an application with a wildcard in its host; write an [[app]] with the exact \
                       host of the page";
        section.fault("also_sign_in", problem);
    }
    if !names.is_empty() && own.is_some_and(is_on_issuer) {
        let problem = "needs a session of the application, which it does not have on the issuer's host; give it \
                       another host";
        section.fault("also_sign_in", problem);
    }
    names
}
