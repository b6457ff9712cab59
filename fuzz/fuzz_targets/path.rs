//! The gate's reading of a path: what it lets through means the same to a server that reads it otherwise.
#![no_main]

use libfuzzer_sys::fuzz_target;
use percent_encoding::percent_decode;
use sealgate_fuzz::{canonical, readings};
use url::Url;

fuzz_target!(|raw: &str| {
    // With characters that are data no reading walks up or has an empty name, and what a server reads that decodes is one.
    if let Some(all) = readings(raw) {
        let segments = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|byte| matches!(byte, b'/' | b'\\'))
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect()
        };
        assert!(all.iter().all(|read| !segments(read).iter().any(|name| name == b"." || name == b"..")), "{raw}");
        // `%252F` has a mark in a reading where it is data; a server that decodes once reads `%2F` there.
        let once: Vec<u8> = percent_decode(raw.as_bytes()).collect();
        let written = |read: &[u8]| String::from_utf8_lossy(read).replace('\u{4}', "%2F").into_bytes();
        let upper = String::from_utf8_lossy(&once).replace("%2f", "%2F").into_bytes();
        assert!(all.iter().any(|read| segments(&written(read)) == segments(&upper)), "{raw}");
        let twice: Vec<u8> = percent_decode(&once).collect();
        assert!(all.iter().any(|read| segments(read) == segments(&twice)), "{raw}");
    }
    let Some(path) = canonical(raw) else { return };
    // A server that decodes reads what the rule was compared with, and one that decodes twice reads the same.
    let once: Vec<u8> = percent_decode(raw.as_bytes()).collect();
    assert_eq!(path, once, "{raw}");
    assert_eq!(percent_decode(&once).collect::<Vec<u8>>(), once, "{raw}");
    // One that resolves dots, merges slashes, turns backslashes round or cuts parameters off has nothing to do.
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    assert!(segments.iter().all(|segment| *segment != b"." && *segment != b".."), "{raw}");
    assert!(!path.windows(2).any(|pair| pair == b"//"), "{raw}");
    assert!(!path.iter().any(|byte| matches!(byte, b'\\' | b';' | 0..0x20 | 0x7f)), "{raw}");
    // As many slashes as before: no escape became one.
    assert_eq!(path.iter().filter(|byte| **byte == b'/').count(), raw.matches('/').count(), "{raw}");
    // And a browser's parser, which resolves dots in every spelling, leaves its segments alone.
    let url = Url::parse("http://app.test").expect("valid").join(raw).expect("a path");
    assert_eq!(url.host_str(), Some("app.test"), "{raw}");
    assert_eq!(percent_decode(url.path().as_bytes()).collect::<Vec<u8>>(), path, "{raw}");
});
