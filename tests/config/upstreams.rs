//! Upstream providers: accepted values, errors and defaults.

use std::path::Path;
use std::time::Duration;

use sealgate_config::{UpstreamArrival, UpstreamCredential, UpstreamKind, UpstreamLogout, UpstreamSettings};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::oauth::upstream_claims::{EmailProof, GroupNames};

use super::{APP, REQUIRED, fault, faults, parse};

const TENANT: &str = "5f0a4c3e-97f1-4f0b-8a3b-0d9d2c6d1e11";

fn text(more: &str) -> String {
    let line = |keys: &[&str], line: &'static str| if keys.iter().any(|key| more.contains(key)) { "" } else { line };
    format!(
        "{REQUIRED}\n[[upstream]]\nclient_id = \"c\"\n{}{}{}{more}\n{APP}",
        line(&["name = "], "name = \"op\"\n"),
        line(&["issuer = "], "issuer = \"https://op.test/tenant\"\n"),
        line(&["client_key", "client_secret_file"], "client_secret_file = \"secret\"\n"),
    )
}

fn upstream(more: &str) -> UpstreamSettings {
    parse(&text(more)).upstreams.into_iter().next().unwrap()
}

fn entra(more: &str) -> String {
    format!("kind = \"entra\"\nissuer = \"https://login.microsoftonline.com/{TENANT}/v2.0\"\n{more}")
}

#[test]
fn defaults_are_those_of_any_openid_provider() {
    let op = upstream("");
    assert_eq!(
        (op.kind, op.label.as_str(), op.issuer.as_str()),
        (UpstreamKind::OpenId, "op", "https://op.test/tenant")
    );
    assert_eq!(op.credential, UpstreamCredential::SecretFile(Path::new("/etc/sealgate/secret").to_owned()));
    assert_eq!(op.scopes, ["openid", "profile", "email"]);
    assert_eq!((op.claims.subject.as_str(), op.claims.email_proof), ("sub", EmailProof::Claim));
    assert_eq!((op.claims.username, op.claims.groups), (None, None));
    assert_eq!(op.claims.group_names, GroupNames::Prefixed("op:".into()));
    assert!(op.claims.required.is_empty() && op.claims.domains.is_empty() && op.claims.levels.is_empty());
    assert_eq!((op.arrival, op.logout), (UpstreamArrival::Create, UpstreamLogout::Upstream));
    assert_eq!([op.refresh, op.stale, op.session, op.timeout], [300, 3600, 28800, 10].map(Duration::from_secs));
}

#[test]
fn each_kind_has_its_own_defaults() {
    let entra = upstream(&entra(""));
    assert_eq!((entra.label.as_str(), entra.claims.subject.as_str()), ("Microsoft", "oid"));
    let [tid] = &entra.claims.required[..] else { panic!() };
    assert_eq!((tid.claim.as_str(), tid.value.as_str()), ("tid", TENANT));
    assert_eq!(entra.claims.email_proof, EmailProof::ClaimOrDomainOwner);
    assert!(entra.scopes.contains(&"offline_access".to_owned()));
    let google = upstream("kind = \"google\"\n# issuer = \nrequired = { hd = \"example.com\" }");
    assert_eq!((google.issuer.as_str(), google.logout), ("https://accounts.google.com", UpstreamLogout::Local));
    let github = upstream("kind = \"github\"\n# issuer = \nrequired = { orgs = \"acme\" }\ngroups_claim = \"teams\"");
    assert_eq!((github.issuer.as_str(), github.claims.subject.as_str()), ("https://github.com", "id"));
    assert_eq!(github.scopes, ["read:user", "user:email"]);
    let keycloak = upstream("kind = \"keycloak\"\nissuer = \"https://sso.test/realms/staff\"\nclient_key = \"k-1\"");
    assert_eq!((keycloak.label.as_str(), keycloak.credential), ("op", UpstreamCredential::Key("k-1".into())));
}

#[test]
fn claims_groups_and_levels_are_configured() {
    let op = upstream(
        "subject_claim = \"/ids/0\"\nrequired = { dept = \"it\", team = \"a\" }\ndomains = [\"EXAMPLE.com\", \"m\u{fc}ller.test\"]\n\
         emails_are_verified = true\nusername_claim = \"uid\"\ngroups_claim = \"/realm_access/roles\"\n\
         group_map = { \"guid-1\" = \"staff\" }\nacr = { \"phr\" = \"3\", \"urn:x:mfa\" = \"2\" }\narrival = \"linked_only\"\n\
         logout = \"local\"\nca_file = \"ca.pem\"",
    );
    assert_eq!((op.claims.subject.as_str(), op.claims.required.len()), ("/ids/0", 2));
    assert_eq!(op.claims.domains, ["example.com", "xn--mller-kva.test"]);
    assert!(op.has_domain("Example.COM") && !op.has_domain("other.com"));
    assert_eq!((op.claims.email_proof, op.claims.username.as_deref()), (EmailProof::Always, Some("uid")));
    assert_eq!(op.claims.group_names, GroupNames::Only([("guid-1".to_owned(), "staff".to_owned())].into()));
    assert_eq!(op.claims.level(Some("urn:x:mfa")), Some(AssuranceLevel::Two));
    assert_eq!((op.arrival, op.logout), (UpstreamArrival::LinkedOnly, UpstreamLogout::Local));
}

#[test]
fn issuers_of_several_tenants_are_refused() {
    for issuer in [
        "https://login.microsoftonline.com/{tenantid}/v2.0",
        "https://login.microsoftonline.com/common/v2.0",
        "https://login.microsoftonline.com/organizations/v2.0",
        "https://login.microsoftonline.com/consumers/v2.0",
        "https://op.test/{tenant}",
    ] {
        for kind in ["openid", "entra"] {
            let problem = fault(&text(&format!("kind = {kind:?}\nissuer = {issuer:?}")));
            assert!(problem.contains("several tenants"), "{kind} {issuer}: {problem}");
        }
    }
}

#[test]
fn an_issuer_is_an_exact_https_url_of_another_server() {
    for (issuer, kind, part) in [
        ("http://op.test", "openid", "is not https"),
        ("https://op.test/?x=1", "openid", "has a query"),
        ("https://a@op.test", "openid", "username"),
        ("https://id.example.com", "openid", "is this provider"),
        (" https://op.test", "openid", "without blanks"),
        ("https://login.microsoftonline.com/example.com/v2.0", "entra", "not the issuer of an Entra tenant"),
        ("https://sts.windows.net/5f0a4c3e-97f1-4f0b-8a3b-0d9d2c6d1e11/", "entra", "not the issuer of an Entra tenant"),
        ("https://accounts.google.test", "google", "not Google's issuer"),
        ("https://sso.test/auth", "keycloak", "not the issuer of a Keycloak realm"),
        ("https://github.test/acme", "github", "has a path"),
    ] {
        let more = format!("kind = {kind:?}\nissuer = {issuer:?}\narrival = \"linked_only\"");
        let problem = fault(&text(&more));
        assert!(problem.starts_with("upstream[0].issuer: ") && problem.contains(part), "{issuer}: {problem}");
    }
    assert_eq!(upstream("issuer = \"https://op.test/\"").issuer, "https://op.test/");
    assert_eq!(upstream("issuer = \"http://127.0.0.1:8080\"").issuer, "http://127.0.0.1:8080");
}

#[test]
fn claims_that_may_change_are_refused_as_ids() {
    for claim in ["email", "preferred_username", "upn", "unique_name", "name", "/email"] {
        let problem = fault(&text(&format!("subject_claim = {claim:?}")));
        assert!(problem.contains("may change"), "{claim}: {problem}");
    }
    let github = "kind = \"github\"\n# issuer = \narrival = \"linked_only\"\nsubject_claim = \"login\"";
    assert!(fault(&text(github)).contains("may change"));
}

#[test]
fn accounts_of_everyone_are_refused_for_google_and_github() {
    for kind in ["google", "github"] {
        let problem = fault(&text(&format!("kind = {kind:?}\n# issuer = \n")));
        assert!(problem.starts_with("upstream[0].required: ") && problem.contains("everyone"), "{problem}");
        upstream(&format!("kind = {kind:?}\n# issuer = \narrival = \"linked_only\""));
    }
}

#[test]
fn invalid_values_are_refused_with_a_remedy() {
    for (more, expected) in [
        ("name = \"Op\"", "upstream[0].name: \"Op\" is not a valid name"),
        ("label = \" \"", "upstream[0].label: \" \" is not a label"),
        ("kind = \"azure\"", "upstream[0].kind: \"azure\""),
        ("client_key = \"a b\"", "upstream[0].client_key: \"a b\" is not the label of a key"),
        ("client_key = \"sealgate\"", "upstream[0].client_key: \"sealgate\" is reserved"),
        ("client_key = \"k\"\nclient_secret_file = \"s\"", "upstream[0].client_key: cannot be used together"),
        ("scopes = [\"email\"]", "upstream[0].scopes: has no \"openid\""),
        ("scopes = [\"openid\", \"a b\"]", "upstream[0].scopes[1]: \"a b\" is not a scope"),
        ("required = { tid = \"\" }", "upstream[0].required.tid: is empty"),
        ("domains = [\"@example.com\"]", "upstream[0].domains[0]: \"@example.com\" is not a domain"),
        ("emails_are_verified = true", "upstream[0].emails_are_verified: requires domains"),
        ("group_prefix = \"a:\"", "upstream[0].group_prefix: requires groups_claim"),
        ("group_map = { a = \"b\" }", "upstream[0].group_map: requires groups_claim"),
        ("groups_claim = \"g\"\ngroup_map = { a = \"b,c\" }", "upstream[0].group_map.a: \"b,c\" is not a group"),
        (
            "groups_claim = \"g\"\ngroup_prefix = \"\"\ngroup_map = { a = \"b\" }",
            "upstream[0].group_prefix: has no effect with group_map",
        ),
        ("acr = { phr = \"4\" }", "upstream[0].acr.phr: \"4\" is not a level"),
        ("arrival = \"link\"", "upstream[0].arrival: \"link\""),
        ("refresh_seconds = 60\nstale_seconds = 59", "upstream[0].stale_seconds: is shorter than refresh_seconds"),
        ("session_seconds = 59", "upstream[0].session_seconds: 59 is out of range"),
        ("timeout_seconds = 31", "upstream[0].timeout_seconds: 31 is out of range"),
        ("issuer = \"http://127.0.0.1:1\"\nca_file = \"ca.pem\"", "upstream[0].ca_file: has no effect"),
        ("tenant = \"x\"", "upstream[0].tenant: unknown key"),
    ] {
        let problem = fault(&text(more));
        assert!(problem.starts_with(expected), "{more}: {problem}");
    }
    for kind in ["entra", "google", "github"] {
        let issuer =
            if kind == "entra" { format!("issuer = \"https://a.test/{TENANT}/v2.0\"") } else { "# issuer = ".into() };
        let more = format!("kind = {kind:?}\n{issuer}\nclient_key = \"k\"\narrival = \"linked_only\"");
        assert!(fault(&text(&more)).contains("write client_secret_file"), "{kind}");
    }
    for kind in ["google", "github"] {
        let more = format!("kind = {kind:?}\n# issuer = \nlogout = \"upstream\"\narrival = \"linked_only\"");
        assert!(fault(&text(&more)).contains("cannot end sessions"), "{kind}");
    }
}

#[test]
fn required_keys_are_reported_together() {
    let problems = faults(&format!("{REQUIRED}\n[[upstream]]\n{APP}"));
    let paths: Vec<_> = problems.iter().filter_map(|problem| problem.split_once(':').map(|(path, _)| path)).collect();
    assert_eq!(paths, ["name", "issuer", "client_id", "client_key"].map(|key| format!("upstream[0].{key}")));
}

#[test]
fn names_and_domains_belong_to_one_source() {
    let directory = "[[directory]]\nname = \"corp\"\nkind = \"ldap\"\nservers = [\"ldaps://ldap.test\"]\n\
                     domains = [\"corp.test\"]\nbind = { dn = \"cn=a\", password_file = \"p\" }\nusers = { base = \"dc=a\" }\n";
    let upstream = |more: &str| format!("{}{directory}", text(more));
    assert!(fault(&upstream("name = \"corp\"")).contains("another directory's or upstream's name"));
    assert!(fault(&upstream("domains = [\"CORP.test\"]")).contains("each domain belongs to one directory or upstream"));
    parse(&upstream("domains = [\"other.test\"]"));
    let two = format!(
        "{}\n[[upstream]]\nname = \"op\"\nissuer = \"https://b.test\"\nclient_id = \"c\"\nclient_key = \"k\"\n",
        text("")
    );
    assert!(fault(&two).contains("another directory's or upstream's name"));
}

#[test]
fn a_client_key_is_not_the_key_of_a_certificate() {
    let tls = "server.tls = { certificate = \"c.pem\", key = \"pkcs11:object=shared\" }\n";
    let text = text("client_key = \"shared\"").replacen("[[upstream]]", &format!("{tls}[[upstream]]"), 1);
    assert!(faults(&text).iter().any(|fault| fault.contains("is the key of a certificate in server.tls")), "{text}");
}
