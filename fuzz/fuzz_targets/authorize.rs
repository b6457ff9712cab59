//! Authorization requests of a known client: the answer always goes to a registered URI.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::client::ClientType;
use sealgate_fuzz::oauth::authorize::{AuthorizationRedirect, AuthorizationRequest, ReturnTo};
use sealgate_fuzz::oauth::params::Params;
use sealgate_fuzz::{REDIRECT_URIS, client};
use url::Url;

const CODE: &str = "the-code";
const ISSUER: &str = "https://id.test";

fuzz_target!(|raw: &[u8]| {
    let Some((&first, query)) = raw.split_first() else { return };
    let client = client(if first & 1 == 0 { ClientType::Public } else { ClientType::Confidential });
    // Most inputs begin with a registered URI. Otherwise the code behind that check would not be reached.
    let registered = REDIRECT_URIS.get(usize::from(first >> 1 & 3));
    let known = registered
        .map(|uri| url::form_urlencoded::Serializer::new(String::new()).append_pair("redirect_uri", uri).finish());
    let Ok(params) = Params::parse(&[known.unwrap_or_default().as_bytes(), b"&", query].concat()) else { return };
    let _ = ReturnTo::client_id(&params);
    let form_post = first & 8 != 0;
    let Ok(way) = ReturnTo::resolve(&params, &client, form_post) else { return };
    assert!(client.redirects_to(way.redirect_uri()));
    check(&way, &way.with_code(CODE, ISSUER), ("code", CODE), &params);
    match AuthorizationRequest::parse(&params, &client, way, &()) {
        Ok(request) => {
            assert!(request.challenge.is_some() || !client.is_public());
            assert!(request.scope.is_subset_of(client.scope));
            // The request is stored while the user signs in.
            let kept = serde_json::to_vec(&request).expect("a request can be written");
            assert_eq!(serde_json::from_slice::<AuthorizationRequest>(&kept).ok(), Some(request));
        }
        Err(refusal) => {
            let way = ReturnTo::resolve(&params, &client, form_post).expect("it was there before");
            let location = way.with_refusal(&refusal, ISSUER);
            check(&way, &location, ("error", refusal.code.as_str()), &params);
        }
    }
});

/// Checks that the location is the registered URI followed by our answer, with `state` as it was sent.
fn check(way: &ReturnTo, back: &AuthorizationRedirect, (name, value): (&str, &str), params: &Params) {
    let location = match back {
        AuthorizationRedirect::Redirect(location) => location,
        AuthorizationRedirect::Form { action, fields } => {
            assert_eq!(action, way.redirect_uri());
            assert!(
                fields.iter().any(|(field, text)| (*field, text.as_str()) == (name, value))
                    && fields.contains(&("iss", ISSUER.to_owned()))
            );
            return;
        }
    };
    assert!(location.starts_with(way.redirect_uri()) && location.bytes().all(|byte| byte.is_ascii_graphic()));
    let registered =
        REDIRECT_URIS.iter().any(|uri| location.starts_with(uri)) || location.starts_with("http://127.0.0.1:");
    assert!(registered, "{location}");
    let url = Url::parse(location).expect("a URL");
    assert!(
        ["rp.test", "127.0.0.1"].contains(&url.host_str().unwrap_or_default()) && url.path() == "/cb",
        "{location}"
    );
    let answer = url.fragment().or(url.query()).unwrap_or_default();
    let all = |name: &str| -> Vec<String> {
        url::form_urlencoded::parse(answer.as_bytes())
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
            .collect()
    };
    assert_eq!(all(name), [value], "{location}");
    assert_eq!(all("iss"), [ISSUER], "{location}");
    let sent = params.one("state").ok().flatten().filter(|state| state.len() <= 2048);
    assert_eq!(all("state"), sent.into_iter().collect::<Vec<_>>(), "{location}");
}
