//! The gateway's interpretation of a path: an accepted path means the same to servers that interpret paths
//! differently.
#![no_main]

use libfuzzer_sys::fuzz_target;
use percent_encoding::percent_decode;
use sealgate_fuzz::{canonical, readings};
use url::Url;

fuzz_target!(|raw: &str| {
    // With characters as data, no interpretation has `..` or an empty segment, and the interpretation of a
    // server that decodes is among them.
    if let Some(all) = readings(raw) {
        let segments = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|byte| matches!(byte, b'/' | b'\\'))
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect()
        };
        assert!(all.iter().all(|read| !segments(read).iter().any(|name| name == b"." || name == b"..")), "{raw}");
        // Interpretations contain a placeholder for `%252F` where it is data. A server that decodes
        // once reads `%2F` there.
        let once: Vec<u8> = percent_decode(raw.as_bytes()).collect();
        let written = |read: &[u8]| String::from_utf8_lossy(read).replace('\u{4}', "%2F").into_bytes();
        let upper = String::from_utf8_lossy(&once).replace("%2f", "%2F").into_bytes();
        assert!(all.iter().any(|read| segments(&written(read)) == segments(&upper)), "{raw}");
        let twice: Vec<u8> = percent_decode(&once).collect();
        assert!(all.iter().any(|read| segments(read) == segments(&twice)), "{raw}");
    }
    let Some(path) = canonical(raw) else { return };
    // A server that decodes once or twice sees the path that was compared with the rules.
    let once: Vec<u8> = percent_decode(raw.as_bytes()).collect();
    assert_eq!(path, once, "{raw}");
    assert_eq!(percent_decode(&once).collect::<Vec<u8>>(), once, "{raw}");
    // A server that resolves dots, merges slashes, converts backslashes or removes parameters changes nothing.
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    assert!(segments.iter().all(|segment| *segment != b"." && *segment != b".."), "{raw}");
    assert!(!path.windows(2).any(|pair| pair == b"//"), "{raw}");
    assert!(!path.iter().any(|byte| matches!(byte, b'\\' | b';' | 0..0x20 | 0x7f)), "{raw}");
    // The number of slashes is unchanged: no escape became one.
    assert_eq!(path.iter().filter(|byte| **byte == b'/').count(), raw.matches('/').count(), "{raw}");
    // A browser's parser, which resolves dots in every spelling, does not change the segments.
    let url = Url::parse("http://app.test").expect("valid").join(raw).expect("a path");
    assert_eq!(url.host_str(), Some("app.test"), "{raw}");
    assert_eq!(percent_decode(url.path().as_bytes()).collect::<Vec<u8>>(), path, "{raw}");
});
