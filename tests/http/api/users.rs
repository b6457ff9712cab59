//! Users and groups: creation, replacement, conditions, and users with a console role.

use super::*;
use crate::meddler::At;
use sealgate_domain::user::{Email, UserState};

const PASSWORD: &str = "a long and unusual phrase";

async fn writer(provider: &Provider) -> Program<'_> {
    let scopes = [ApiScope::UsersRead, ApiScope::UsersWrite, ApiScope::GroupsRead, ApiScope::GroupsWrite];
    Program::with(provider, &scopes).await
}

#[tokio::test]
async fn a_put_creates_a_user_once_and_then_replaces_the_profile() {
    let provider = provider().await;
    let program = writer(&provider).await;
    let body = json!({
        "name": "Cem", "phone_number": "+905551112233", "groups": ["staff"], "email_verified": true,
        "password": PASSWORD,
    });
    let created = program.call("PUT", "users/cem@example.test", &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    let cem = created.json();
    assert_eq!(
        (&cem["email"], &cem["name"], &cem["email_verified"]),
        (&json!("cem@example.test"), &json!("Cem"), &json!(true))
    );
    assert_eq!(created.location(), format!("/api/v1/users/{}", cem["sub"].as_str().unwrap()));
    assert!(!created.text().contains(PASSWORD));
    // The address is compared without case, as at a sign-in.
    let shown = program.get("users/Cem@example.test").await;
    assert_eq!((shown.json(), shown.header("etag")), (cem.clone(), created.header("etag")));
    let stored =
        provider.sealgate.store.user_by_email(&Email::parse("cem@example.test").unwrap()).await.unwrap().unwrap();
    let hash = stored.password.clone().unwrap();
    // Absent groups stay, and an absent phone number is removed. The password is only for a new user.
    let body = json!({ "name": "Cem B.", "username": "cem", "password": "another long phrase" });
    let changed = program.call("PUT", "users/cem@example.test", &body).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let cem = changed.json();
    assert_eq!((&cem["name"], &cem["username"], &cem["groups"]), (&json!("Cem B."), &json!("cem"), &json!(["staff"])));
    assert!(cem.get("phone_number").is_none() && cem["email_verified"] == true, "{cem}");
    assert_eq!(user(&provider, stored.sub).await.password, Some(hash));
    for path in ["users/cem".to_owned(), format!("users/{}", stored.sub)] {
        assert_eq!(program.get(&path).await.json(), cem);
    }
    let other = json!({ "name": "Cem", "email": "other@example.test" });
    assert_eq!(code(&program.call("PUT", "users/cem@example.test", &other).await, 422), "invalid");
    let taken = json!({ "name": "Cem", "username": "cem" });
    assert_eq!(code(&program.call("PUT", &format!("users/{BEN}"), &taken).await, 409), "exists");
    assert_eq!(program.send("DELETE", "users/cem", &[], "").await.status, 204);
    assert_eq!(code(&program.get("users/cem").await, 404), "not_found");
    let by_id = program.call("PUT", &format!("users/{}", stored.sub), &json!({ "name": "Cem" })).await;
    assert_eq!(code(&by_id, 404), "not_found");
}

#[tokio::test]
async fn a_repeated_put_makes_no_commit_and_no_event() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    let program = writer(&provider).await;
    let body = json!({ "name": "Cem", "groups": ["staff"], "username": "cem", "password": PASSWORD });
    assert_eq!(program.call("PUT", "users/cem@example.test", &body).await.status, 201);
    let before = meddler.commits();
    let mut tags = Vec::new();
    for _ in 0..3 {
        let reply = program.call("PUT", "users/cem@example.test", &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        tags.push(reply.header("etag").map(str::to_owned));
        assert_eq!(program.call("PATCH", "users/cem", &json!({ "name": "Cem" })).await.status, 200);
        assert_eq!(program.send("PUT", "groups/staff/members/cem", &[], "").await.status, 204);
    }
    assert_eq!(meddler.commits(), before);
    assert!(tags[0].is_some() && tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");
}

#[tokio::test]
async fn conditions_protect_a_user_from_lost_updates() {
    let provider = provider().await;
    let program = writer(&provider).await;
    let path = format!("users/{BEN}");
    let tag = program.get(&path).await.header("etag").unwrap().to_owned();
    let known = program.send("GET", &path, &[("if-none-match", &tag)], "").await;
    assert_eq!((known.status, known.text()), (304, ""));
    let body = json!({ "name": "B." });
    let changed = program.call_if("PATCH", &path, ("if-match", &tag), &body).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    let weak = format!("W/{}", changed.header("etag").unwrap());
    for old in [tag.as_str(), "\"x\"", &weak] {
        for method in ["PATCH", "PUT"] {
            let late = program.call_if(method, &path, ("if-match", old), &json!({ "name": "C." })).await;
            assert_eq!(code(&late, 412), "precondition_failed", "{method} {old}");
        }
        let late = program.send("DELETE", &path, &[("if-match", old)], "").await;
        assert_eq!(code(&late, 412), "precondition_failed", "{old}");
    }
    let absent = program.call_if("PUT", "users/cem@example.test", ("if-match", "*"), &body).await;
    assert_eq!(code(&absent, 412), "precondition_failed");
    let exists = program.call_if("PUT", &path, ("if-none-match", "*"), &body).await;
    assert_eq!(code(&exists, 412), "precondition_failed");
    assert_eq!(user(&provider, provider.ben.sub).await.name, "B.");
    assert_eq!(program.call_if("PATCH", &path, ("if-match", "*"), &json!({ "name": "D." })).await.status, 200);
    assert_eq!(code(&program.call_if("PATCH", &path, ("if-match", "x"), &body).await, 400), "malformed");
    let new = json!({ "name": "Cem", "password": PASSWORD });
    assert_eq!(program.call_if("PUT", "users/cem@example.test", ("if-none-match", "*"), &new).await.status, 201);
}

#[tokio::test]
async fn a_change_during_a_conditional_request_makes_it_fail() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    let program = writer(&provider).await;
    let path = format!("users/{BEN}");
    for method in ["PATCH", "PUT", "DELETE"] {
        let tag = program.get(&path).await.header("etag").unwrap().to_owned();
        let body = if method == "DELETE" { String::new() } else { json!({ "name": "Mine" }).to_string() };
        let headers = [JSON, ("if-match", tag.as_str())];
        let headers = if method == "DELETE" { &headers[1..] } else { &headers[..] };
        let stop = meddler.stop(At::BeforeCommit, b'u');
        let other = provider.change_user(provider.ben.sub, |user| user.name = format!("Theirs {method}"));
        let (late, ()) = tokio::join!(program.send(method, &path, headers, &body), stop.meanwhile(other));
        assert_eq!(code(&late, 412), "precondition_failed", "{method}");
        assert_eq!(user(&provider, provider.ben.sub).await.name, format!("Theirs {method}"));
    }
    // Without a condition, the request applies its change to the new version.
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let other = provider.change_user(provider.ben.sub, |user| user.phone_number = Some("+905551112233".to_owned()));
    let body = json!({ "name": "Mine" });
    let (merged, ()) = tokio::join!(program.call("PATCH", &path, &body), stop.meanwhile(other));
    assert_eq!(merged.status, 200, "{merged:?}");
    let ben = user(&provider, provider.ben.sub).await;
    assert_eq!((ben.name.as_str(), ben.phone_number.as_deref()), ("Mine", Some("+905551112233")));
}

#[tokio::test]
async fn only_admins_write_changes_users_with_a_console_role() {
    let provider = provider().await;
    let program = writer(&provider).await;
    let (anna, ben) = (format!("users/{ANNA}"), format!("users/{BEN}"));
    let lacks = |reply: &Reply| {
        assert_eq!(code(reply, 403), "insufficient_scope", "{reply:?}");
        assert!(reply.header("www-authenticate").unwrap().contains("scope=\"admins:write\""), "{reply:?}");
    };
    for body in [json!({ "email": "mine@example.test" }), json!({ "roles": [] }), json!({ "groups": ["staff"] })] {
        lacks(&program.call("PATCH", &anna, &body).await);
    }
    lacks(&program.call("PUT", &anna, &json!({ "name": "Mine" })).await);
    for body in [json!({ "roles": ["admin"] }), json!({ "roles": ["developer"] }), json!({ "groups": ["admins"] })] {
        lacks(&program.call("PATCH", &ben, &body).await);
    }
    lacks(&program.send("PUT", &format!("groups/admins/members/{BEN}"), &[], "").await);
    let new = json!({ "name": "Cem", "roles": ["admin"], "password": PASSWORD });
    lacks(&program.call("PUT", "users/cem@example.test", &new).await);
    assert_eq!(program.get("users/cem@example.test").await.status, 404);
    lacks(&program.send("DELETE", &anna, &[], "").await);
    for action in ["disable", "enable", "revoke", "factors/reset", "factors/unblock", "invitation", "reset-link"] {
        lacks(&program.send("POST", &format!("{anna}/{action}"), &[], "").await);
    }
    lacks(&program.send("DELETE", &format!("{anna}/invitation"), &[], "").await);
    provider.change_user(provider.anna.sub, |user| user.groups = ["staff".to_owned()].into()).await;
    provider.change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned()].into()).await;
    lacks(&program.call("PATCH", "groups/staff", &json!({ "name": "people" })).await);
    lacks(&program.send("DELETE", "groups/staff", &[], "").await);
    let stored = user(&provider, provider.anna.sub).await;
    assert_eq!((stored.roles.clone(), stored.state), ([Role::Admin].into(), UserState::Enabled));
    let power = Program::with(&provider, &[ApiScope::UsersWrite, ApiScope::AdminsWrite]).await;
    assert_eq!(power.call("PATCH", &anna, &json!({ "phone_number": "+905551112233" })).await.status, 204);
    assert_eq!(power.call("PATCH", &ben, &json!({ "roles": ["admin"] })).await.status, 204);
    // The token would remain without its creator.
    for body in [json!({ "roles": [] }), json!({ "roles": ["developer"] })] {
        assert_eq!(code(&power.call("PATCH", &anna, &body).await, 403), "forbidden");
    }
    assert_eq!(code(&power.send("DELETE", &anna, &[], "").await, 403), "forbidden");
    assert_eq!(code(&power.send("POST", &format!("{anna}/disable"), &[], "").await, 403), "forbidden");
    assert_eq!(user(&provider, provider.anna.sub).await.roles, [Role::Admin].into());
}

#[tokio::test]
async fn a_user_who_gets_a_console_role_meanwhile_is_not_changed() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    let program = writer(&provider).await;
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let body = json!({ "email": "mine@example.test" });
    let promotion = give(&provider, provider.ben.sub, &[Role::Admin]);
    let path = format!("users/{BEN}");
    let (late, ()) = tokio::join!(program.call("PATCH", &path, &body), stop.meanwhile(promotion));
    assert_eq!(code(&late, 403), "insufficient_scope");
    assert!(user(&provider, provider.ben.sub).await.has_email(&Email::parse(BEN).unwrap()));
}

#[tokio::test]
async fn users_are_listed_by_filter_and_cursor() {
    let provider = provider().await;
    let program = writer(&provider).await;
    for number in 0..120_u8 {
        let id = Subject::from_bytes([number; 16]);
        let email = Email::parse(&format!("user{number}@example.test"));
        let groups = if number % 2 == 0 { ["even".to_owned()].into() } else { std::collections::BTreeSet::default() };
        let new =
            User { sub: id, email, username: None, groups, name: format!("Üye {number}"), ..provider.ben.clone() };
        assert_eq!(provider.sealgate.store.add_user(&new).await.unwrap(), sealgate_store::AddOutcome::Added);
    }
    let all = async |query: &str| {
        let (mut found, mut after, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = program.get(&format!("users?{query}{after}")).await;
            assert_eq!(page.status, 200, "{page:?}");
            let page = page.json();
            let rows = page["users"].as_array().unwrap();
            assert!(rows.len() <= 100);
            found.extend(rows.iter().map(|user| user["email"].as_str().unwrap().to_owned()));
            pages += 1;
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        found.sort();
        found.dedup();
        (found.len(), pages)
    };
    assert_eq!(all("").await, (122, 2));
    assert_eq!(all("group=even").await, (60, 1));
    assert_eq!(all("search=uye+11").await, (11, 1));
    assert_eq!(all("search=uye+11&group=even").await, (5, 1));
    assert_eq!(all("state=disabled").await, (0, 1));
    let members = program.get("groups/even/members").await.json();
    assert_eq!(members["users"].as_array().unwrap().len(), 60);
    let groups = program.get("groups").await.json();
    assert_eq!(groups["groups"], json!([{ "name": "even", "members": 60 }]));
}

#[tokio::test]
async fn groups_have_members_and_can_be_renamed() {
    let provider = provider().await;
    let program = writer(&provider).await;
    let group = "groups/a%20%2F%20%C5%9F/members";
    let ben = format!("{group}/{BEN}");
    assert_eq!(program.get(&ben).await.status, 404);
    assert_eq!(program.send("PUT", &ben, &[], "").await.status, 204);
    assert_eq!(user(&provider, provider.ben.sub).await.groups, ["a / ş".to_owned()].into());
    assert_eq!(program.get(&ben).await.json()["email"], BEN);
    let renamed = program.call("PATCH", "groups/a%20%2F%20%C5%9F", &json!({ "name": "staff" })).await;
    assert_eq!(renamed.json(), json!({ "users_changed": 1 }));
    assert_eq!(program.call("PATCH", "groups/staff", &json!({ "name": "a,b" })).await.status, 422);
    assert_eq!(program.send("DELETE", &format!("groups/staff/members/{BEN}"), &[], "").await.status, 204);
    assert_eq!(program.send("DELETE", &format!("groups/staff/members/{BEN}"), &[], "").await.status, 404);
    assert_eq!(code(&program.send("PUT", "groups/staff/members/nobody", &[], "").await, 404), "not_found");
    assert_eq!(code(&program.send("PUT", &format!("groups/a,b/members/{BEN}"), &[], "").await, 404), "not_found");
}

#[tokio::test]
async fn actions_of_a_user_have_the_effect_of_the_commands() {
    let provider = provider().await;
    let program = writer(&provider).await;
    let ben = format!("users/{BEN}");
    let disabled = program.send("POST", &format!("{ben}/disable"), &[], "").await;
    assert_eq!((disabled.status, &disabled.json()["state"]), (200, &json!("disabled")), "{disabled:?}");
    assert_eq!(user(&provider, provider.ben.sub).await.state, UserState::Disabled);
    assert_eq!(program.send("POST", &format!("{ben}/enable"), &[], "").await.json()["state"], "enabled");
    assert_eq!(program.send("POST", &format!("{ben}/revoke"), &[], "").await.json()["sessions_ended"], 0);
    assert_eq!(program.get(&format!("{ben}/factors")).await.json(), json!({ "factors": [], "next": null }));
    let reset = program.send("POST", &format!("{ben}/factors/reset"), &[], "").await.json();
    assert!(reset["enrolment_link"].as_str().unwrap().starts_with("https://id.test/"), "{reset}");
    let new = json!({ "name": "Cem", "invitation": "link" });
    let invited = program.call("PUT", "users/cem@example.test", &new).await;
    assert_eq!(invited.status, 201, "{invited:?}");
    let link = invited.json()["invitation_link"].as_str().unwrap().to_owned();
    assert!(link.starts_with("https://id.test/oauth/invitation?token="), "{link}");
    assert!(!program.get("users/cem@example.test").await.text().contains("token="));
    let again = program.call("POST", "users/cem@example.test/invitation", &json!({ "invitation": "link" })).await;
    assert_ne!(again.json()["invitation_link"], link);
    assert_eq!(program.send("DELETE", "users/cem@example.test/invitation", &[], "").await.status, 204);
    // The server sends no mail.
    let mailed = program.call("PUT", "users/can@example.test", &json!({ "name": "Can" })).await;
    assert_eq!(code(&mailed, 422), "invalid");
    assert_eq!(code(&program.send("POST", &format!("{ben}/reset-link"), &[], "").await, 422), "invalid");
    let nameless = program.call("PUT", "users/can", &json!({ "name": "Can" })).await;
    assert_eq!(code(&nameless, 422), "invalid");
}
