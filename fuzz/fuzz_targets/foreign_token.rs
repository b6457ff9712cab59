//! Tokens of other issuers, before and after their claims are checked; other code verifies signatures.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::secret::base64url;
use sealgate_fuzz::domain::time::UnixTime;
use sealgate_fuzz::domain::user::Subject;
use sealgate_fuzz::oauth::jwk_set::Algorithm;
use sealgate_fuzz::oauth::trusted_token::{ClaimNames, Signed, TrustTerms, claimed_issuer};
use sealgate_fuzz::two;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fuzz_target!(|text: &str| {
    check(text);
    // The fuzzer does not discover base64 by itself, so also encode a plain header and claims.
    let (header, claims) = two(text);
    check(&format!("{}.{}.c2ln", base64url(header.as_bytes()), base64url(claims.as_bytes())));
});

fn check(token: &str) {
    let terms = TrustTerms {
        name: "corp".into(),
        issuer: "https://corp.test".into(),
        audiences: vec!["https://api.test".into()],
        algorithms: vec![Algorithm::Rs256, Algorithm::Es256],
        access_tokens_only: false,
        clients: None,
        skew: Duration::from_secs(60),
        longest: 8192,
        claims: ClaimNames {
            groups: Some("/a/groups".into()),
            group_prefix: "corp:".into(),
            scope: Some("scope".into()),
            email: Some("email".into()),
            emails_are_verified: false,
            acr: Some("acr".into()),
        },
    };
    let claimed = claimed_issuer(token);
    let Ok(signed) = Signed::parse(token, &terms) else { return };
    let (input, signature) = token.rsplit_once('.').expect("three parts");
    let jws = signed.jws();
    assert_eq!((jws.signing_input(), base64url(jws.signature()).as_str()), (input, signature));
    assert!(terms.algorithms.contains(&jws.algorithm()));
    let Ok(foreign) = signed.judged(&terms, NOW) else { return };
    assert_eq!(claimed.as_deref(), Some("https://corp.test"));
    assert!(foreign.audiences.contains(&terms.audiences[0]) && foreign.ends_at > NOW);
    let name = foreign.name();
    assert!(
        name.starts_with("corp:")
            && name.bytes().all(|byte| byte.is_ascii_graphic())
            && Subject::parse(&name).is_none()
    );
    assert!(foreign.groups.iter().all(|group| group.starts_with("corp:") && !group.chars().any(char::is_control)));
}
