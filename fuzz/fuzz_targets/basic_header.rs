//! Client credentials from a header and a form, and bearer credentials.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::oauth::credentials::{ClientCredentials, bearer};
use sealgate_fuzz::oauth::params::Params;

fuzz_target!(|raw: &[u8]| {
    let at = raw.iter().position(|byte| *byte == b'\n').unwrap_or(raw.len());
    let (header, form) = (&raw[..at], raw.get(at + 1..).unwrap_or_default());
    if let Some(token) = bearer(header) {
        assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
    }
    let Ok(form) = Params::parse(form) else { return };
    let _ = ClientCredentials::parse(&[], &form);
    assert!(ClientCredentials::parse(&[header, header], &form).is_err());
    let Ok(credentials) = ClientCredentials::parse(&[header], &form) else { return };
    // At most one method, and the same client id in both places.
    assert!(!matches!(form.one("client_secret"), Ok(Some(_))));
    if let (Some(id), Ok(Some(named))) = (&credentials.id, form.one("client_id")) {
        assert_eq!(id.as_str(), named);
    }
});
