//! Trusted issuers: accepted values, errors and defaults.

use std::fs;
use std::time::Duration;

use sealgate_config::{Config, KeySource, RuleUser};
use sealgate_domain::oauth::jwk_set::Algorithm;

use super::{APP, REQUIRED, fault, faults, lines, parse, starts};

const ISSUER: &str = r#"
    [[trusted_issuer]]
    name = "corp"
    issuer = "https://login.corp.test/"
    audiences = ["https://wiki.example.com"]
"#;

fn text(further: &str) -> String {
    format!("{REQUIRED}{ISSUER}{further}")
}

#[test]
fn defaults_of_a_trusted_issuer_are_strict() {
    let config = parse(&format!("{}{APP}", text("")));
    let issuer = &config.trusted_issuers[0];
    let terms = &issuer.terms;
    assert_eq!((terms.name.as_str(), terms.issuer.as_str()), ("corp", "https://login.corp.test/"));
    assert_eq!((&issuer.keys, &terms.algorithms), (&KeySource::Discovered, &vec![Algorithm::Rs256]));
    assert!(terms.access_tokens_only && terms.clients.is_none());
    let claims = &terms.claims;
    assert!([&claims.groups, &claims.scope, &claims.email, &claims.acr].iter().all(|claim| claim.is_none()));
    assert!(!claims.emails_are_verified);
    assert_eq!(claims.group_prefix, "corp:");
    assert_eq!((terms.skew, terms.longest), (Duration::from_mins(1), 8192));
    let times = [issuer.refresh, issuer.throttle, issuer.stale].map(|time| time.as_secs());
    assert_eq!(times, [3600, 30, 86_400]);
    assert!(config.apps[0].trusted_issuers.is_empty(), "an application takes no issuer that it does not name");
}

#[test]
fn keys_of_an_issuer_are_at_a_url_or_in_a_file() {
    let keys = |value: &str| parse(&text(&format!("jwks = \"{value}\""))).trusted_issuers[0].keys.clone();
    assert!(
        matches!(keys("https://keys.corp.test/a?b=c"), KeySource::At(url) if url.as_str() == "https://keys.corp.test/a?b=c")
    );
    assert!(matches!(keys("http://127.0.0.1:9/k"), KeySource::At(_)));
    assert_eq!(keys("corp.json"), KeySource::File("/etc/sealgate/corp.json".into()));
}

#[test]
fn unsafe_settings_of_a_trusted_issuer_are_refused() {
    for (line, start) in [
        ("jwks = \"http://keys.corp.test/\"", "trusted_issuer[0].jwks: \"http://keys.corp.test/\" is not https; "),
        ("jwks = \"ftp://keys.corp.test/\"", "trusted_issuer[0].jwks: \"ftp://keys.corp.test/\" is not https; "),
        ("jwks = \"https://a:b@corp.test/\"", "trusted_issuer[0].jwks: \"https://a:b@corp.test/\" has a username"),
        ("algorithms = [\"none\"]", "trusted_issuer[0].algorithms[0]: \"none\" means no signature"),
        ("algorithms = [\"HS256\"]", "trusted_issuer[0].algorithms[0]: \"HS256\" needs a shared secret; "),
        (
            "algorithms = [\"RS512\"]",
            "trusted_issuer[0].algorithms[0]: \"RS512\" is not known; write a list of RS256, ",
        ),
        ("algorithms = []", "trusted_issuer[0].algorithms: is empty; "),
        ("clients = []", "trusted_issuer[0].clients: is empty; "),
        ("group_prefix = \"\"", "trusted_issuer[0].group_prefix: requires groups_claim"),
        ("emails_are_verified = true", "trusted_issuer[0].emails_are_verified: requires email_claim"),
        ("clock_skew_seconds = 301", "trusted_issuer[0].clock_skew_seconds: 301 is out of range; "),
        ("token_bytes = 16385", "trusted_issuer[0].token_bytes: 16385 is out of range; "),
        ("stale_seconds = 3599", "trusted_issuer[0].stale_seconds: is shorter than refresh_seconds; set at least 3600"),
        ("jwk = \"x\"", "trusted_issuer[0].jwk: unknown key; "),
    ] {
        starts(&fault(&text(line)), start);
    }
    for (from, to, start) in [
        ("\"corp\"", "\"Corp\"", "trusted_issuer[0].name: \"Corp\" is not a valid name; "),
        ("\"corp\"", "\"a:b\"", "trusted_issuer[0].name: \"a:b\" is not a valid name; "),
        ("\"corp\"", "\"urn\"", "trusted_issuer[0].name: \"urn\" is reserved; "),
        ("https://login", "http://login", "trusted_issuer[0].issuer: \"http://login.corp.test/\" is not https; "),
        ("https://login", " https://login", "trusted_issuer[0].issuer: \" https://login.corp.test/\" is not a name; "),
        ("corp.test/", "corp.test/?a", "trusted_issuer[0].issuer: \"https://login.corp.test/?a\" has a query"),
        (
            "https://login.corp.test/",
            "https://id.example.com",
            "trusted_issuer[0].issuer: \"https://id.example.com\" is this ",
        ),
        ("[\"https://wiki.example.com\"]", "[]", "trusted_issuer[0].audiences: is empty; "),
    ] {
        starts(&fault(&text("").replacen(from, to, 1)), start);
    }
    let twice = faults(&format!("{}{ISSUER}", text("")));
    starts(&twice[0], "trusted_issuer[1].name: \"corp\" is another trusted issuer's name; ");
    starts(&twice[1], "trusted_issuer[1].issuer: \"https://login.corp.test/\" is another trusted issuer's URL; ");
}

#[test]
fn an_application_with_a_trusted_issuer_may_use_its_scopes_and_users() {
    let app = |trusted: &str, rule: &str| {
        let app = APP.replacen("[[app.route]]", &format!("{trusted}\n[[app.route]]"), 1);
        format!("{}{app}{rule}", text(""))
    };
    let corp = "trusted_issuers = [\"corp\"]";
    let rule = "scopes = [\"reports.read\"]\nusers = [\"corp:auth0|17\", \"anna@example.com\"]";
    let route = &parse(&app(corp, rule)).apps[0].routes[0];
    assert_eq!(route.scopes, ["reports.read"]);
    assert_eq!(route.users[0], RuleUser::Foreign("corp:auth0|17".into()));
    assert!(matches!(route.users[1], RuleUser::Email(_)));
    let none = faults(&app("", rule));
    starts(&none[0], "app[0].route[0].scopes[0]: \"reports.read\" is not a scope; ");
    starts(&none[1], "app[0].route[0].users[0]: \"corp:auth0|17\" is neither an e-mail address nor a sub; ");
    starts(&fault(&app(corp, "scopes = [\"a b\"]")), "app[0].route[0].scopes[0]: \"a b\" is not a scope; ");
    starts(
        &fault(&app("trusted_issuers = [\"other\"]", "")),
        "app[0].trusted_issuers[0]: \"other\" is not a trusted issuer; ",
    );
}

#[test]
fn a_key_file_of_an_issuer_is_checked_before_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sealgate.toml");
    let problems = |content: Option<&str>| {
        let keys = directory.path().join("keys.json");
        match content {
            Some(content) => fs::write(&keys, content).unwrap(),
            None => _ = fs::remove_file(&keys),
        }
        fs::write(&file, text("jwks = \"keys.json\"")).unwrap();
        let faults = lines(&Config::load(&file).unwrap_err());
        faults.into_iter().filter(|fault| fault.starts_with("trusted_issuer")).collect::<Vec<_>>()
    };
    let one = |problems: Vec<String>, what: &str| {
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(what), "{problems:?}");
    };
    one(problems(None), "cannot be read");
    one(problems(Some("{")), "is not a JWK set");
    one(problems(Some("{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}")), "contains no usable key");
    one(problems(Some(&" ".repeat(300_000))), "at most 262144");
    let x = "A".repeat(43);
    let sound = format!("{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{x}\"}}]}}");
    assert_eq!(problems(Some(&sound)), [""; 0]);
}
