//! Queries and form bodies: decoding, and all accessors of the result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::oauth::params::Params;

/// The reference parser's replacement for bytes that are not UTF-8. Our parser ignores or refuses them.
const REPLACEMENT: char = '\u{fffd}';

fuzz_target!(|raw: &[u8]| {
    let Ok(params) = Params::parse(raw) else { return };
    // The reference parser returns the same list for UTF-8 input.
    let reference: Vec<(String, String)> = url::form_urlencoded::parse(raw).into_owned().collect();
    for (name, value) in reference.iter().filter(|(name, _)| !name.contains(REPLACEMENT)) {
        let times = reference.iter().filter(|(other, _)| other == name).count();
        assert!(params.has(name));
        assert_eq!(params.repeats_any(&[name]), times > 1);
        match params.one(name) {
            Ok(found) => {
                assert_eq!(times, 1);
                assert_eq!(found.unwrap_or_default(), value);
            }
            Err(_) => assert!(times > 1 || value.contains(REPLACEMENT)),
        }
    }
});
