//! Clients of the configuration file: the rules of the command line, at the keys of the file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use sealgate_config::Config;
use sealgate_domain::assertion_source::{AssertionSource, Workload};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{AuthMethod, ConsentRule, GrantType};
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::secret::{Secret, base64url};

use super::{REQUIRED, fault, faults, lines, parse, starts};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn hash() -> String {
    base64url(Secret::new(SECRET).hash().as_bytes())
}

/// Returns the text of a public client with these lines.
fn client(more: &str) -> String {
    format!(
        "{REQUIRED}[[client]]\nid = \"wiki\"\nname = \"Wiki\"\ntype = \"public\"\n\
         redirect_uris = [\"https://wiki.test/cb\"]\n{more}\n"
    )
}

/// Returns the text of a confidential client with these lines.
fn confidential(more: &str) -> String {
    client(more).replace("\"public\"", "\"confidential\"")
}

#[test]
fn a_client_has_the_defaults_of_the_command_line() {
    let config = parse(&client(""));
    let client = &config.clients[0].client;
    assert_eq!((client.auth_method, client.consent, client.level), (AuthMethod::None, ConsentRule::Ask, None));
    assert_eq!(client.scope.to_string(), "openid profile email phone offline_access");
    assert_eq!(client.grant_types, [GrantType::AuthorizationCode, GrantType::RefreshToken]);
    assert!(client.from_configuration && client.is_vouched_for() && !config.clients[0].adopt);
    let config = parse(&confidential(&format!("secret_hash = \"{}\"", hash())));
    let client = &config.clients[0].client;
    assert_eq!(client.auth_method, AuthMethod::ClientSecretBasic);
    assert!(client.has_secret(&Secret::new(SECRET), client.created_at));
}

#[test]
fn every_setting_of_a_client_is_read() {
    let text = client(
        "auth_method = \"none\"\npost_logout_redirect_uris = [\"https://wiki.test/\"]\nscope = \"openid email\"\n\
         default_scope = \"openid\"\ngrant_types = [\"authorization_code\"]\nconsent = \"implied\"\n\
         description = \"What we know\"\nclient_uri = \"https://wiki.test/\"\ninitiate_login_uri = \"https://wiki.test/l\"\n\
         tos_uri = \"https://wiki.test/t\"\npolicy_uri = \"https://wiki.test/p\"\ndefault_max_age_seconds = 60\n\
         refresh_retry_seconds = 10\ntoken_limit = \"none\"\nlevel = \"2\"\nadopt = true\n\
         backchannel_logout_uri = \"http://127.0.0.1:81/out\"\nbackchannel_logout_session_required = true",
    );
    let config = parse(&text);
    let client = &config.clients[0].client;
    assert_eq!((client.consent, client.level), (ConsentRule::Implied, Some(AssuranceLevel::Two)));
    assert_eq!(client.token_limit, Some(RateLimit::Unlimited));
    assert_eq!((client.refresh_retry_seconds, client.details.default_max_age), (Some(10), Some(60)));
    assert_eq!(client.grant_types, [GrantType::AuthorizationCode]);
    assert_eq!(client.default_scope().unwrap().to_string(), "openid");
    assert_eq!(client.details.policy_uri.as_deref(), Some("https://wiki.test/p"));
    assert!(config.clients[0].adopt);
    let logout = client.backchannel_logout.as_ref().unwrap();
    assert_eq!((logout.uri.as_str(), logout.session_required), ("http://127.0.0.1:81/out", true));
}

#[test]
fn faults_of_a_client_name_the_key_and_the_remedy() {
    for (text, expected) in [
        (
            client("").replace("\"wiki\"", "\"a b\""),
            "client[0].id: \"a b\" is not a client ID; a client ID has 1 to 100",
        ),
        (
            client("").replace("\"wiki\"", "\"sealgate-app-x\""),
            "client[0].id: IDs that start with sealgate-app- are res",
        ),
        (client("").replace("\"Wiki\"", "\"\""), "client[0].name: a client's name has 1 to 200 visible characters"),
        (client("").replace("https://wiki.test/cb", "http://wiki.test/cb"), "client[0].redirect_uris[0]: the redirect"),
        (client("").replace("[\"https://wiki.test/cb\"]", "[]"), "client[0].redirect_uris: is empty; write a list"),
        (
            client("").replace("redirect_uris", "redirect_uri"),
            "client[0].redirect_uri: unknown key; did you mean redirect_uris?",
        ),
        (
            client("post_logout_redirect_uris = [\"x\"]"),
            "client[0].post_logout_redirect_uris[0]: the post-logout redire",
        ),
        (client("scope = \"openid root\""), "client[0].scope: the scope \"openid root\" is invalid: the scopes are"),
        (
            client("default_scope = \"email\""),
            "client[0].default_scope: the default scope \"email\" is invalid: it must",
        ),
        (client("grant_types = [\"refresh_token\"]"), "client[0].grant_types: a client needs the grant type authoriz"),
        (client("auth_method = \"client_secret_basic\""), "client[0].auth_method: a public client has no secret, so"),
        (
            confidential(&format!("secret_hash = \"{}\"\nauth_method = \"none\"", hash())),
            "client[0].auth_method: a conf",
        ),
        (
            client("tos_uri = \"http://wiki.test/\""),
            "client[0].tos_uri: the URL of the terms of use \"http://wiki.test/\"",
        ),
        (client("refresh_retry_seconds = 301"), "client[0].refresh_retry_seconds: 301 is out of range"),
        (
            client("token_limit = 0"),
            "client[0].token_limit: 0 is out of range; write a whole number from 1 to 1000000, or",
        ),
        (
            client("backchannel_logout_uri = \"http://wiki.test/out\""),
            "client[0].backchannel_logout_uri: the back-channel logout URI \"http://wiki.test/out\" is invalid",
        ),
        (
            client("backchannel_logout_uri = \"https://wiki.test/out#x\""),
            "client[0].backchannel_logout_uri: the back-channel logout URI \"https://wiki.test/out#x\" is invalid",
        ),
        (
            client("backchannel_logout_session_required = true"),
            "client[0].backchannel_logout_session_required: has no effect without backchannel_logout_uri; set both",
        ),
        (client("visible_groups = [\"*\"]"), "client[0].visible_groups: \"*\" is not a group; write a name such as"),
        (client("introspection = true"), "client[0].introspection: only a confidential client can introspect tokens"),
        (
            client("introspection_apps = [\"wiki\"]"),
            "client[0].introspection_apps: has no effect without introspection",
        ),
        (
            confidential(&format!("secret_hash = \"{}\"\nintrospection = true\nintrospection_apps = [\"x\"]", hash())),
            "client[0].introspection_apps: \"x\" is not an application; write the name of an [[app]]",
        ),
        (client("level = \"4\""), "client[0].level: \"4\" is not a level; write"),
        (
            client(&format!("secret_hash = \"{}\"", hash())),
            "client[0].secret_hash: a public client has no secret; leave",
        ),
        (client("secret_file = \"s\""), "client[0].secret_file: a public client has no secret; leave it out, or make"),
        (
            confidential(""),
            "client[0].secret_file: a confidential client needs a secret, or make the client public; write",
        ),
        (confidential("secret_hash = []"), "client[0].secret_hash: is empty"),
    ] {
        // A wrong key leaves the right one missing.
        let found = faults(&text).into_iter().find(|fault| fault.starts_with(expected));
        assert!(found.is_some(), "{expected}: {:?}", faults(&text));
    }
}

#[test]
fn a_secret_in_place_of_its_hash_is_refused_and_not_printed() {
    let found = fault(&confidential(&format!("secret_hash = \"{SECRET}\"")));
    assert!(found.starts_with("client[0].secret_hash: is not a hash of a secret; write what"), "{found}");
    assert!(!found.contains(SECRET), "{found}");
}

#[test]
fn two_clients_have_different_ids() {
    let one = client("");
    let text = format!("{one}{}", one.strip_prefix(REQUIRED).unwrap());
    assert!(fault(&text).starts_with("client[1].id: \"wiki\" is the ID of another [[client]]; use a different ID"));
}

#[test]
fn a_client_has_at_most_two_secrets() {
    let hash = |number: u8| format!("\"{}\"", base64url(&[number; 32]));
    let secrets = |most| format!("secret_hash = [{}]", (0..most).map(hash).collect::<Vec<_>>().join(", "));
    assert_eq!(parse(&confidential(&secrets(2))).clients[0].client.secrets.len(), 2);
    assert!(fault(&confidential(&secrets(3))).contains("at most 2 valid secrets; remove old ones"));
    // A repeated secret counts once.
    let twice = format!("secret_hash = [{0}, {0}]", hash(1));
    assert_eq!(parse(&confidential(&twice)).clients[0].client.secrets.len(), 1);
}

const CLUSTER: &str = "[[trusted_issuer]]\nname = \"k8s\"\nissuer = \"https://k8s.test\"\naudiences = [\"x\"]\n";

#[test]
fn a_client_with_keys_has_no_secret() {
    let uri = "jwks_uri = \"https://wiki.test/jwks\"";
    for text in [confidential(uri), confidential(&format!("{uri}\nauth_method = \"private_key_jwt\""))] {
        let config = parse(&text);
        let client = &config.clients[0].client;
        assert_eq!((client.auth_method, client.secrets.len()), (AuthMethod::PrivateKeyJwt, 0));
        assert_eq!(client.assertion_source, Some(AssertionSource::JwksUri("https://wiki.test/jwks".into())));
    }
    let workload = "workload = { issuer = \"k8s\", subject = \"system:serviceaccount:jobs:backup\" }";
    let config = parse(&format!("{}{CLUSTER}", confidential(workload)));
    let expected = Workload::new("k8s", "system:serviceaccount:jobs:backup").unwrap();
    assert_eq!(config.clients[0].client.assertion_source, Some(AssertionSource::Workload(expected)));
    let moved = confidential("jwks_uri = \"https://wiki.test/other\"");
    let found = parse(&confidential(uri)).difference(&parse(&moved));
    assert_eq!((found.reloadable, found.restart), (vec!["client wiki: assertion_keys".to_owned()], Vec::new()));
    for (text, expected) in [
        (confidential(workload), "client[0].workload.issuer: \"k8s\" is not the name of a [[trusted_issuer]]"),
        (
            format!("{}{CLUSTER}", confidential("workload = { issuer = \"k8s\", subject = \"a b\" }")),
            "client[0].workload.subject: the subject \"a b\" is invalid",
        ),
        (format!("{}{CLUSTER}", confidential("workload = { issuer = \"k8s\" }")), "client[0].workload.subject: "),
        (confidential("jwks_uri = \"http://wiki.test/jwks\""), "client[0].jwks_uri: the jwks_uri"),
        (client(uri), "client[0].auth_method: a public client has no secret"),
        (
            confidential(&format!("{uri}\nsecret_hash = \"{}\"", hash())),
            "client[0].secret_hash: a client with the method private_key_jwt has no secret",
        ),
        (
            confidential(&format!("{uri}\nsecret_hash = \"{}\"\nauth_method = \"client_secret_post\"", hash())),
            "client[0].jwks_uri: needs auth_method = \"private_key_jwt\", not \"client_secret_post\"; remove one",
        ),
        (confidential("auth_method = \"private_key_jwt\""), "client[0].auth_method: private_key_jwt needs keys; write"),
        (
            confidential(&format!("{uri}\njwks_file = \"wiki.pub\"")),
            "client[0].jwks_uri: cannot be used together with jwks_file; remove one",
        ),
    ] {
        let found = fault(&text);
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn public_keys_of_a_client_are_read_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("sealgate.toml"), confidential("jwks_file = \"wiki.jwks\"")).unwrap();
    let load = || Config::load(&path("sealgate.toml"));
    let x = "PIYLWvoxN-xSnJq6PDL3XhR6j0RL2tVlo41ASRqVPtw";
    for (content, expected) in [
        (String::new(), "write a JWK set"),
        (format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}","d":"x"}}"#), "key 1 is private"),
        (" ".repeat(40_000), "has 40000 bytes"),
    ] {
        fs::write(path("wiki.jwks"), content).unwrap();
        let found = load().unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(found.contains("client[0].jwks_file: ") && found.contains(expected), "{found}");
    }
    fs::write(path("wiki.jwks"), format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#)).unwrap();
    let found = load().err().into_iter().flatten().map(|fault| fault.to_string()).collect::<Vec<_>>().join("\n");
    assert!(!found.contains("client[0]"), "{found}");
}

#[test]
fn client_secret_files_have_the_rules_of_other_secret_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, content: &str, mode| {
        fs::write(path(name), content).unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
    };
    write("module.so", "a library", 0o644);
    write("pin", "123456\n", 0o600);
    fs::write(path("sealgate.toml"), confidential("secret_file = [\"new\", \"old\"]")).unwrap();
    write("old", &format!("{SECRET}\n"), 0o600);
    let load = || Config::load(&path("sealgate.toml")).map_err(|faults| lines(&faults).concat());
    for (content, mode, expected) in [
        (SECRET, 0o640, "new can be accessed by other users (mode 0640); run: chmod 600"),
        ("", 0o600, "new is empty; write the client's secret into it"),
        ("short", 0o600, "new contains no usable secret: a client secret has at least 32 visible"),
        ("spaces are not what a client secret has", 0o600, "new contains no usable secret"),
    ] {
        write("new", content, mode);
        let found = load().unwrap_err();
        assert!(found.starts_with("client[0].secret_file[0]: ") && found.contains(expected), "{found}");
        assert!(content.is_empty() || !found.contains(content), "{found}");
    }
    write("new", &SECRET.replace('0', "x"), 0o600);
    let config = load().unwrap();
    let client = &config.clients[0].client;
    for secret in [SECRET.to_owned(), SECRET.replace('0', "x")] {
        assert!(client.has_secret(&Secret::new(secret), client.created_at));
    }
    assert!(!format!("{config:?}").contains(SECRET));
}

#[test]
fn a_reload_names_each_changed_key_of_a_client() {
    let hashed = confidential(&format!("secret_hash = \"{}\"", base64url(&[1; 32])));
    let live = |old: &str, new: &str| {
        let found = parse(old).difference(&parse(new));
        assert_eq!(found.restart, Vec::<String>::new());
        found.reloadable
    };
    for (line, key) in [
        ("name = \"Other\"", "name"),
        ("type = \"public\"", "type, auth_method, secret"),
        ("redirect_uris = [\"https://other.test/cb\"]", "redirect_uris"),
        (&format!("secret_hash = \"{}\"", base64url(&[2; 32])), "secret"),
        ("post_logout_redirect_uris = [\"https://wiki.test/\"]", "post_logout_redirect_uris"),
        ("scope = \"openid\"", "scope"),
        ("default_scope = \"openid\"", "default_scope"),
        ("grant_types = [\"authorization_code\"]", "grant_types"),
        ("auth_method = \"client_secret_post\"", "auth_method"),
        ("consent = \"implied\"", "consent"),
        ("description = \"x\"", "description"),
        ("client_uri = \"https://wiki.test/\"", "client_uri"),
        ("initiate_login_uri = \"https://wiki.test/\"", "initiate_login_uri"),
        ("tos_uri = \"https://wiki.test/\"", "tos_uri"),
        ("policy_uri = \"https://wiki.test/\"", "policy_uri"),
        ("default_max_age_seconds = 7", "default_max_age"),
        ("refresh_retry_seconds = 7", "refresh_retry_seconds"),
        ("token_limit = 7", "token_limit"),
        ("level = \"3\"", "level"),
        ("introspection = true", "introspection"),
        ("visible_groups = [\"staff\"]", "visible_groups"),
        ("backchannel_logout_uri = \"https://wiki.test/out\"", "backchannel_logout_uri"),
        ("adopt = true", "adopt"),
    ] {
        let name = line.split(' ').next().unwrap();
        let mut new: Vec<_> =
            hashed.lines().filter(|old| old.split(' ').next() != Some(name)).map(ToOwned::to_owned).collect();
        if line.starts_with("type") {
            new.retain(|line| !line.starts_with("secret_hash"));
        }
        new.push(line.to_owned());
        assert_eq!(live(&hashed, &new.join("\n")), [format!("client wiki: {key}")]);
    }
    assert_eq!(live(REQUIRED, &hashed), ["client wiki: added"]);
    assert_eq!(live(&hashed, REQUIRED), ["client wiki: removed"]);
    assert!(live(&hashed, &hashed).is_empty());
}

#[test]
fn access_without_a_user_is_for_confidential_clients_and_resources() {
    let wiki = "[[app]]\nname = \"wiki\"\nhost = \"wiki.example.com\"\nupstreams = [\"http://127.0.0.1:8081\"]\n";
    let scopes = "scopes = { read = \"Read\", write = \"Change\" }\n";
    let text = |service: &str, app: &str| {
        let client = format!(
            "[[client]]\nid = \"backup\"\nname = \"Backup\"\ntype = \"confidential\"\nsecret_hash = \"{}\"\n{service}\n",
            hash()
        );
        format!("{REQUIRED}{client}{app}")
    };
    let resource = format!("{wiki}{scopes}");
    let service = "service = { app = \"wiki\", scopes = [\"read\"] }";
    let config = parse(&text(&format!("{service}\nservice_groups = [\"jobs\"]"), &resource));
    let client = &config.clients[0].client;
    let access = client.service.as_ref().unwrap();
    assert_eq!((&access.apps["wiki"], &access.groups), (&["read".to_owned()].into(), &["jobs".to_owned()].into()));
    assert!(client.grant_types.is_empty() && client.redirect_uris.is_empty());
    for (service, app, problem) in [
        ("", &*resource, "client[0].redirect_uris: is missing"),
        (service, "", "client[0].service: \"wiki\" is not an application"),
        (service, wiki, "client[0].service: the application wiki is not a resource"),
        (
            "service = { app = \"wiki\", scopes = [\"x\"] }",
            &resource,
            "client[0].service: the application wiki does not declare",
        ),
        ("service = { scopes = [] }", &resource, "client[0].service.app: is missing"),
        (
            "service = [{ app = \"wiki\" }, { app = \"wiki\" }]",
            &resource,
            "client[0].service[1].app: \"wiki\" is repeated",
        ),
        (
            "redirect_uris = [\"https://a.test/cb\"]\nservice_groups = [\"a\"]",
            &resource,
            "client[0].service_groups: has no effect",
        ),
    ] {
        starts(&fault(&text(service, app)), problem);
    }
    let public =
        text(service, &resource).replace("\"confidential\"", "\"public\"").replace("secret_hash", "#secret_hash");
    starts(&fault(&public), "client[0].service: only a confidential client");
    let uuid = text(service, &resource).replace("\"backup\"", "\"01010101-0101-4101-8101-010101010101\"");
    starts(&fault(&uuid), "client[0].service: a client whose ID is a UUID");
    let issuer =
        "[[trusted_issuer]]\nname = \"client\"\nissuer = \"https://login.example.net/\"\naudiences = [\"a\"]\n";
    starts(&fault(&format!("{REQUIRED}{issuer}")), "trusted_issuer[0].name: \"client\" begins the names of clients");
}
