//! Registration and matching of redirect URIs: a browser must only be redirected to a registered URI.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::redirect_uri::{RedirectUri, form_action};
use sealgate_fuzz::two;
use url::Url;

fuzz_target!(|text: &str| {
    let (registered, requested) = two(text);
    let Ok(uri) = RedirectUri::parse(registered) else { return };
    let url = Url::parse(registered).expect("a registered URI is a URL");
    let host = url.host_str().expect("it has a host");
    assert!(url.scheme() == "https" || ["localhost", "127.0.0.1", "[::1]"].contains(&host), "{registered}");
    assert!(registered.bytes().all(|byte| byte.is_ascii_graphic()), "{registered}");
    // A Location header with a relative URI leads to our own host.
    let base = Url::parse("https://id.test/oauth/").expect("valid");
    assert_eq!(base.join(registered).as_ref(), Ok(&url), "{registered}");
    // The URI is inserted into a Content-Security-Policy, where a semicolon or a comma is a
    // separator.
    let source = form_action(registered).expect("it has an origin");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" :/.-_".contains(&byte);
    assert!(source.bytes().all(plain), "{registered}: {source}");
    assert!(uri.matches(registered));
    let place = |url: &Url| {
        (
            url.scheme().to_owned(),
            url.host_str().map(str::to_owned),
            url.path().to_owned(),
            url.query().map(str::to_owned),
        )
    };
    if uri.matches(requested) && requested != registered {
        let asked = Url::parse(requested).expect("a URI that matches is a URL");
        assert_eq!(place(&asked), place(&url), "{requested} matches {registered}");
        assert!(["127.0.0.1", "[::1]"].contains(&host), "{requested} matches {registered}");
        assert!(asked.username().is_empty() && asked.password().is_none());
    }
});
