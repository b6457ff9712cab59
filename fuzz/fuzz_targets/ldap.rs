//! Messages of a directory, and searches with filters of the configuration and typed values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::{check_response, check_search};

fuzz_target!(|input: &[u8]| {
    check_response(input);
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (filter, typed) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    if let Ok(filter) = std::str::from_utf8(filter) {
        check_search(filter, typed);
    }
});
