//! Codes and QR codes, as an authenticator app computes and reads them.

use sealgate_domain::time::UnixTime;
use sealgate_domain::totp::{TotpCode, TotpSecret, TotpVerdict};
use sealgate_pages::qr_code::qr_code;
use serde_json::{Value, json};

use crate::mutate::Chance;
use crate::peer::{Reply, ask};

const NAMES: [(&str, &str); 4] = [
    ("Sealgate", "anna@example.test"),
    ("Örnek Kurumu", "çağla.şahin+gate@example.test"),
    ("A/B?c=d&e#f%20", "\"quoted name\"@example.test"),
    ("日本 🔐", "a'b@xn--bcher-kva.example"),
];

fn accepted(reply: &Reply) -> &Value {
    match reply {
        Reply::Accepted(value) => value,
        Reply::Refused(why) => panic!("{why}"),
    }
}

#[test]
fn an_app_that_reads_the_uri_shows_the_codes_that_are_accepted() {
    let mut chance = Chance::new(1);
    let mut cases = Vec::new();
    for (issuer, account) in NAMES {
        for _ in 0..50 {
            let secret = TotpSecret::from_random(std::array::from_fn(|_| chance.byte()));
            cases.push((issuer, account, secret, chance.below(4_000_000_000)));
        }
    }
    let questions: Vec<Value> = cases
        .iter()
        .map(|(issuer, account, secret, seconds)| {
            json!({ "ask": "totp", "uri": secret.uri(issuer, account).expose(), "seconds": seconds })
        })
        .collect();
    for ((issuer, account, secret, seconds), reply) in cases.iter().zip(ask(&questions)) {
        let app = accepted(&reply);
        let set_up = json!({ "issuer": issuer, "label": account, "algorithm": "SHA1", "digits": 6, "period": 30,
            "code": app["code"] });
        assert_eq!(*app, set_up);
        let code = TotpCode::parse(app["code"].as_str().unwrap()).unwrap();
        let verdict = secret.judge(&code, None, UnixTime::from_seconds(*seconds));
        assert!(matches!(verdict, TotpVerdict::Accepted(_)), "{verdict:?}");
        // The previous and the next code are valid as well; older ones are not.
        let later = |steps: u64| secret.judge(&code, None, UnixTime::from_seconds(seconds + steps * 30));
        assert!(matches!(later(1), TotpVerdict::Accepted(_)) && !matches!(later(2), TotpVerdict::Accepted(_)));
    }
}

#[test]
fn a_camera_reads_the_uri_off_the_qr_code() {
    let secret = TotpSecret::from_random(*b"12345678901234567890");
    let mut texts: Vec<String> =
        NAMES.iter().map(|(issuer, account)| secret.uri(issuer, account).expose().to_owned()).collect();
    // The longest address, in letters that need six characters each.
    let long = format!("{}@example.test", "ş".repeat(120));
    texts.push(secret.uri("Örnek Kurumu", &long).expose().to_owned());
    let questions: Vec<Value> =
        texts.iter().map(|text| json!({ "ask": "qr", "svg": qr_code(text).unwrap() })).collect();
    for (text, reply) in texts.iter().zip(ask(&questions)) {
        assert_eq!(accepted(&reply), text);
    }
}
