//! Depth of a `WebDAV` request (RFC 4918): a collection is deleted, moved, copied, locked or listed
//! with all its members. Pure.

use http::HeaderMap;
use http::header::{CONNECTION, HeaderName};

use sealgate_config::request_fields;

const DEPTH: HeaderName = HeaderName::from_static("depth");

/// Depth to which a request acts below its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestDepth {
    /// On the path, or at most the names and properties of the collection's members.
    Zero,
    /// On everything below the path.
    Infinity,
}

impl RequestDepth {
    /// Returns how far a request with this method and these headers acts.
    ///
    /// `Depth` counts only with values that the method allows. Without it, a request acts on
    /// everything (RFC 4918 §9): no server may act deeper than the check.
    pub(super) fn of(method: &str, headers: &HeaderMap) -> Self {
        match (method, field(headers)) {
            // `Depth: 1` shows a closed member's name and properties, never its content. Refusing
            // it would make every collection with a closed member impossible to browse.
            ("LOCK", Some(b"0")) | ("PROPFIND", Some(b"0" | b"1")) => Self::Zero,
            // DELETE has no other depth (§9.6.1), nor has the MOVE of a collection (§9.9.2). COPY
            // has, but `WsgiDAV` 4.4 copies all members even with `Depth: 0`.
            ("LOCK" | "PROPFIND" | "DELETE" | "MOVE" | "COPY", _) => Self::Infinity,
            _ => Self::Zero,
        }
    }

    /// As [`RequestDepth::of`], for applications that receive headers that override the method,
    /// such as `X-HTTP-Method-Override`.
    pub(super) fn of_any_method(method: &str, headers: &HeaderMap) -> Self {
        if request_fields::override_method(headers) { Self::Infinity } else { Self::of(method, headers) }
    }
}

/// Returns the only value of `Depth`, if it is forwarded: a field that `Connection` names is not
/// (RFC 9110 §7.6.1).
fn field(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(DEPTH).iter();
    let (Some(only), None) = (values.next(), values.next()) else { return None };
    let mut named = headers.get_all(CONNECTION).iter().flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    let is_removed = named.any(|name| name.trim_ascii().eq_ignore_ascii_case(DEPTH.as_str().as_bytes()));
    (!is_removed).then_some(only.as_bytes())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn depth(method: &str, fields: &[(&'static str, &'static str)]) -> RequestDepth {
        let fields = fields.iter();
        let headers: HeaderMap =
            fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
        RequestDepth::of_any_method(method, &headers)
    }

    #[test]
    fn the_depth_of_each_method_is_read_as_servers_agree_on_it() {
        for (method, without, zero, one) in [
            ("COPY", RequestDepth::Infinity, RequestDepth::Infinity, RequestDepth::Infinity),
            ("LOCK", RequestDepth::Infinity, RequestDepth::Zero, RequestDepth::Infinity),
            ("PROPFIND", RequestDepth::Infinity, RequestDepth::Zero, RequestDepth::Zero),
            ("DELETE", RequestDepth::Infinity, RequestDepth::Infinity, RequestDepth::Infinity),
            ("MOVE", RequestDepth::Infinity, RequestDepth::Infinity, RequestDepth::Infinity),
            ("PUT", RequestDepth::Zero, RequestDepth::Zero, RequestDepth::Zero),
            ("PROPPATCH", RequestDepth::Zero, RequestDepth::Zero, RequestDepth::Zero),
        ] {
            assert_eq!(depth(method, &[]), without, "{method}");
            assert_eq!(depth(method, &[("depth", "0")]), zero, "{method}");
            assert_eq!(depth(method, &[("depth", "1")]), one, "{method}");
            for other in ["infinity", "", "2", "00", "0,0", "1,noroot", "+0", "0x0", "0;x"] {
                assert_eq!(depth(method, &[("depth", other)]), without, "{method} {other}");
            }
            assert_eq!(depth(method, &[("depth", "0"), ("depth", "0")]), without, "{method}");
            assert_eq!(depth(method, &[("depth", "0"), ("connection", "close, Depth")]), without, "{method}");
            assert_eq!(depth(method, &[("depth", "0"), ("connection", "depths")]), zero, "{method}");
            assert_eq!(depth(method, &[("depth", "0"), ("x-http-method-override", "GET")]), RequestDepth::Infinity);
        }
    }
}
