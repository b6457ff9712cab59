//! Cookie with the number of the server that a browser uses (`sticky = "cookie"`).
//!
//! The edge chooses the number. Each list of upstreams of an application has a cookie of its own. The
//! value may be forged: it only selects a server of the list.

use http::{HeaderMap, HeaderValue};

use super::cookie;

/// Name of the cookie of an application's first list, without the `__Host-` prefix. The number of
/// another list follows after a hyphen.
const NAME: &str = "sealgate-server";

/// Returns the number in the request's cookie for a list of upstreams.
pub fn find(headers: &HeaderMap, list: usize, secure: bool) -> Option<u64> {
    let value = cookie::find(headers, &name(list, secure))?;
    let is_valid = value.len() == 16 && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_valid.then(|| u64::from_str_radix(value, 16).ok()).flatten()
}

/// Returns the cookie for a list of upstreams. The browser keeps it until it is closed.
pub fn set(list: usize, number: u64, secure: bool) -> HeaderValue {
    cookie::set(&name(list, secure), &format!("{number:016x}"), secure)
}

/// Returns whether this is the name of such a cookie, without the `__Host-` prefix.
pub(super) fn is_name(bare: &[u8]) -> bool {
    bare.strip_prefix(NAME.as_bytes()).is_some_and(|rest| match rest {
        [] => true,
        [b'-', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    })
}

fn name(list: usize, secure: bool) -> String {
    let prefix = if secure { "__Host-" } else { "" };
    if list == 0 { format!("{prefix}{NAME}") } else { format!("{prefix}{NAME}-{list}") }
}

#[cfg(test)]
mod tests {
    use http::header::COOKIE;

    use super::*;

    #[test]
    fn each_list_has_its_cookie() {
        for secure in [false, true] {
            for list in [0, 1, 12] {
                let line = set(list, 0xab, secure);
                let line = line.to_str().unwrap();
                assert!(line.contains("; HttpOnly; SameSite=Lax") && line.contains("; Secure") == secure, "{line}");
                let pair = HeaderValue::from_str(line.split(';').next().unwrap()).unwrap();
                let headers = HeaderMap::from_iter([(COOKIE, pair)]);
                let found: Vec<_> =
                    [0, 1, 12].map(|other| find(&headers, other, secure)).into_iter().flatten().collect();
                assert_eq!((found, find(&headers, list, secure)), (vec![0xab], Some(0xab)));
                assert_eq!((find(&headers, list, !secure), cookie::without_ours(&headers)), (None, None));
                assert!(cookie::sets_ours(line.as_bytes()));
            }
        }
        for other in ["sealgate-servers", "sealgate-server-", "sealgate-server-a", "server"] {
            assert!(!is_name(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn other_values_are_ignored() {
        for value in ["", "1", "00000000000000AB", "00000000000000ag", "00000000000000000", "+000000000000000"] {
            let pair = HeaderValue::from_str(&format!("sealgate-server={value}")).unwrap();
            assert_eq!(find(&HeaderMap::from_iter([(COOKIE, pair)]), 0, false), None, "{value}");
        }
    }
}
