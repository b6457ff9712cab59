//! Grants, consents and the audit log, listed and revoked through a running server.

use std::collections::BTreeMap;

use sealgate_domain::client::ClientId;
use sealgate_domain::code::{Code, CodeState};
use sealgate_domain::consent::Consent;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::{SessionId, SignIn};
use sealgate_domain::user::Subject;
use sealgate_store::Store;
use sealgate_system::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::server::Served;
use crate::site::{OTHER_PASSWORD, stderr};

async fn listed(served: &Served, arguments: &'static [&'static str], name: &str, member: &str) -> Vec<String> {
    let list = served.run(move |site| site.json(arguments)).await;
    let rows = list[name].as_array().unwrap();
    let mut found: Vec<_> = rows.iter().map(|row| row[member].as_str().unwrap().to_owned()).collect();
    found.sort();
    found
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

#[tokio::test]
async fn grants_are_listed_and_ended_by_user_client_and_session() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    let ben = served.add_user("ben@example.test").await;
    let session = served.sign_in(anna, 1).await;
    let anna_wiki = served.grant(anna, "wiki").await;
    let anna_mail = served.grant(anna, "mail").await;
    let ben_wiki = served.grant(ben, "wiki").await;
    let grants = async |arguments| listed(&served, arguments, "grants", "grant").await;
    assert_eq!(
        grants(&["grant", "list", "--user", "anna@example.test"]).await,
        sorted(vec![anna_wiki.to_string(), anna_mail.to_string()])
    );
    assert_eq!(
        grants(&["grant", "list", "--client", "wiki"]).await,
        sorted(vec![anna_wiki.to_string(), ben_wiki.to_string()])
    );
    assert_eq!(
        grants(&["grant", "list", "--client", "wiki", "--user", "ben@example.test"]).await,
        [ben_wiki.to_string()]
    );
    assert_eq!(
        listed(&served, &["session", "list", "--client", "mail"], "sessions", "sid").await,
        [session.to_string()]
    );
    // All three grants belong to the same session.
    let argument = format!("--session={session}");
    let of_session = served.run(move |site| site.json(&["grant", "list", &argument])).await;
    assert_eq!(of_session["grants"].as_array().unwrap().len(), 3);

    let argument = anna_mail.to_string();
    let ended = served.run(move |site| site.json(&["grant", "revoke", &argument])).await;
    assert_eq!(ended, json!({ "grant": anna_mail, "grants_ended": 1 }));
    let argument = anna_mail.to_string();
    let errors = served.run(move |site| site.errors(&["grant", "revoke", &argument], "")).await;
    assert_eq!(errors, [format!("no active grant has the ID {anna_mail}")]);
    let ended = served.run(|site| site.json(&["grant", "revoke-all", "--client", "wiki"])).await;
    assert_eq!(ended["grants_ended"], 2);
    for grant in [anna_wiki, anna_mail, ben_wiki] {
        assert!(!served.stands(grant).await);
    }
    let again = served.grant(ben, "calendar").await;
    let ended = served.run(|site| site.json(&["session", "revoke-all", "--client", "calendar"])).await;
    assert_eq!((ended["sessions_ended"].as_u64(), served.lives(session).await), (Some(1), false));
    assert!(served.stands(again).await, "ending a session leaves the tokens");
    let output = served.run(|site| site.run(&["grant", "revoke"], "")).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = served.run(|site| site.run(&["grant", "revoke-all"], "")).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

pub(crate) async fn allow(store: &Store, subject: Subject, client: &str) {
    let (client, now) = (ClientId::parse(client).unwrap(), SystemClock.now());
    let consent = Consent {
        subject,
        client: client.clone(),
        scope: Scope::all(),
        at: now,
        incarnation: Some(7),
        resources: BTreeMap::new(),
    };
    let code = Code {
        client,
        redirect_uri: "https://rp.test/cb".to_owned(),
        challenge: None,
        scope: Scope::all(),
        resource: None,
        nonce: None,
        sign_in: SignIn::by_password(subject, now),
        typed: false,
        session: SessionId::from_bytes([1; 16]),
        expires_at: now,
        state: CodeState::Issued,
    };
    let hash = SecretHash::for_secret(format!("consent {subject} {}", code.client).as_bytes());
    store.issue_code(&hash, &code, Some(&consent)).await.unwrap();
}

#[tokio::test]
async fn a_consent_is_listed_and_withdrawn_with_its_grants() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    for client in ["wiki", "mail"] {
        allow(&served.store, anna, client).await;
    }
    let (wiki, mail) = (served.grant(anna, "wiki").await, served.grant(anna, "mail").await);
    let consents = async || listed(&served, &["consent", "list", "anna@example.test"], "consents", "client_id").await;
    assert_eq!(consents().await, ["mail", "wiki"]);
    let withdraw = ["consent", "revoke", "anna@example.test", "wiki"];
    let ended = served.run(move |site| site.json(&withdraw)).await;
    assert_eq!(ended, json!({ "sub": anna, "client_id": "wiki", "withdrawn": true, "grants_ended": 1 }));
    assert_eq!(consents().await, ["mail"]);
    assert!(!served.stands(wiki).await && served.stands(mail).await);
    let errors = served.run(move |site| site.errors(&withdraw, "")).await;
    assert_eq!(errors, ["anna@example.test has given the client wiki no consent and no grant"]);
}

#[tokio::test]
async fn commands_are_audited_before_they_return() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    served.add_user("ben@example.test").await;
    served.sign_in(anna, 1).await;
    served.grant(anna, "wiki").await;
    let set = ["user", "set-password", "anna@example.test", "--password-stdin"];
    served.run(move |site| site.json_with(&set, OTHER_PASSWORD)).await;
    served.run(|site| site.json(&["user", "disable", "anna@example.test"])).await;
    let kinds = |list: &Value| -> Vec<String> {
        list["events"].as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
    };
    let all = served.run(|site| site.json(&["audit", "list"])).await;
    assert_eq!(kinds(&all), ["user_disabled", "password_changed", "user_created", "user_created"]);
    assert_eq!(all["events"][1]["detail"], "sessions 1 grants 1");
    assert!(all["events"].as_array().unwrap().iter().all(|row| row["actor"] == "operator"));
    assert!(!all.to_string().contains(OTHER_PASSWORD));
    let of_anna = served.run(|site| site.json(&["audit", "list", "--user", "anna@example.test", "--limit", "2"])).await;
    assert_eq!(kinds(&of_anna), ["user_disabled", "password_changed"]);
    let created = served.run(|site| site.json(&["audit", "list", "--kind", "user_created"])).await;
    assert_eq!(kinds(&created).len(), 2);
    let later = served.run(|site| site.json(&["audit", "list", "--since", "2100-01-01"])).await;
    assert_eq!(later, json!({ "events": [] }));
    let earlier = served.run(|site| site.json(&["audit", "list", "--until", "2001-01-01"])).await;
    assert_eq!(earlier, later);
    let table = served.run(|site| site.text(&["audit", "list", "--client", "wiki"])).await;
    assert_eq!(table.split_whitespace().take(3).collect::<Vec<_>>(), ["HAPPENED_AT", "KIND", "ACTOR"]);
    let output = served.run(|site| site.run(&["audit", "list", "--kind", "nothing"], "")).await;
    assert!(stderr(&output).contains("the kinds are signed_in, sign_in_failed"), "{}", stderr(&output));
}
