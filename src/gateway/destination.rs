//! `Destination` (RFC 4918 §10.3): where a COPY or a MOVE of `WebDAV` writes. To the application it is a second path of the
//! request, so it is read like the first one, and its rule has to let the request through as well. Pure.

use http::HeaderMap;
use http::header::HeaderName;

use crate::gateway::path::CanonicalPath;
use crate::gateway::reading::Ambiguous;
use crate::gateway::route::{Routes, Rule};

pub(super) const DESTINATION: HeaderName = HeaderName::from_static("destination");

/// What a request names as its destination.
#[derive(Debug, Clone, Copy)]
pub(super) enum Destination<'a> {
    None,
    /// A path with this rule for the method.
    Ruled(&'a Rule),
    /// A path that no rule opens to the method.
    Closed,
}

/// Which rule the destination falls under. On whatever host it is: an application that takes no notice of the host takes
/// the path for its own.
///
/// # Errors
/// When it can be read in more than one way.
pub(super) fn destination<'a>(
    headers: &HeaderMap,
    method: &str,
    routes: &'a Routes,
) -> Result<Destination<'a>, Ambiguous> {
    let Some(field) = headers.get(DESTINATION) else { return Ok(Destination::None) };
    let text = field.to_str().map_err(|_| Ambiguous::Character)?;
    let path = path(text).ok_or(Ambiguous::NotAbsolute)?;
    let path = CanonicalPath::parse_with(path, routes.characters())?;
    let rule = routes.find(&path)?.and_then(|place| place.rule(method));
    Ok(rule.map_or(Destination::Closed, Destination::Ruled))
}

/// The path of a URL, or the text itself where it is a path.
fn path(text: &str) -> Option<&str> {
    let target = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http") => {
            rest.get(rest.find(['/', '?', '#'])?..)?
        }
        _ => text,
    };
    // To some `//host/path` is a host and a path, and to others a path.
    let is_path = target.starts_with('/') && !target.starts_with("//");
    // Neither has anything to do in a destination, and where one begins is where servers differ.
    (is_path && !target.contains(['?', '#'])).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_path_or_a_url_of_http() {
        for text in ["/a/b", "http://x/a/b", "HTTPS://x:8443/a/b", "http://other.test/a/b"] {
            assert_eq!(path(text), Some("/a/b"), "{text}");
        }
        for text in
            ["", "a/b", "//x/a", "http://x", "http://x//a", "ftp://x/a", "http:/a", "/a?b", "/a#b", "http://x?/a"]
        {
            assert_eq!(path(text), None, "{text}");
        }
    }
}
