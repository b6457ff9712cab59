//! JSON form of an explanation, as `sealgate explain` and the admin API show it, and advice about
//! refusals.

use serde_json::{Value, json};

use crate::explain::Explanation;
use sealgate_config::LoginAccount;
use sealgate_domain::user::User;

/// Returns the explanation as a JSON object.
pub fn members(explanation: &Explanation, user: Option<&User>, advice: Option<&str>) -> Value {
    let Explanation { app, rule, forwarded, status, reason, claim, audience, headers, login, upstream } = explanation;
    let identity: Vec<_> = headers
        .iter()
        .map(|header| json!({ "name": header.name, "from": header.from, "sent": header.sent, "value": header.value }))
        .collect();
    let mut object = json!({
        "app": app, "rule": rule, "forwarded": forwarded, "status": status, "reason": reason, "claim": claim,
        "advice": advice, "identity_headers": identity,
        "upstreams": upstream.as_ref().map(|upstream| &upstream.servers),
        "upstream_protocol": upstream.as_ref().map(|upstream| upstream.protocol.as_str()),
        "upstream_path": upstream.as_ref().map(|upstream| &upstream.path),
    });
    if let Some(account) = login {
        object["login"] = json!(login_text(account));
    }
    if let Some(user) = user {
        let groups = groups(user).into_iter().map(|(name, from)| json!({ "name": name, "from": from }));
        object["groups"] = groups.collect();
        object["source"] = json!(user.source.as_ref().map(|source| {
            let (name, state) = (&source.link.source, source.state);
            json!({
                "name": name, "state": state, "changed_at": source.changed_at, "confirmed_at": source.confirmed_at,
            })
        }));
    }
    if let Some(audience) = audience {
        object["audience"] = json!(audience);
    }
    object
}

/// Returns the account with which the gateway signs in to the application.
pub fn login_text(account: &LoginAccount) -> String {
    match account {
        LoginAccount::OfUser => "as the user, with the name and password that are stored for the user".to_owned(),
        LoginAccount::Service { username, .. } => format!("as {username}, the service account"),
    }
}

/// Returns the groups of a user, each with the source that reports it.
pub fn groups(user: &User) -> Vec<(&str, &str)> {
    let local = user.groups.iter().map(|group| (group.as_str(), "local"));
    let of_source = user.source.iter().flat_map(|source| {
        let name = source.link.source.as_str();
        source.groups.iter().map(move |group| (group.as_str(), name))
    });
    local.chain(of_source).collect()
}

/// Returns the command that does what [`advice`] says, if there is one.
pub fn command(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "unapproved_client" => "sealgate client approve CLIENT",
        "scope" => "sealgate client set CLIENT --scope",
        "group" => "sealgate user set USER --add-group GROUP",
        "too_many_groups" => "sealgate user set USER --remove-group GROUP",
        _ => return None,
    })
}

/// Returns advice about a refusal, without commands.
pub fn advice(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "forwarded" => return None,
        "own" => "Sealgate answers this path itself; choose another path for the application",
        "no_application" => "no [[app]] has this host; check `host` in the configuration, or the host of the URL",
        "unauthenticated" => "sign in, or send an access token; name a user to explain the request of the user",
        "invalid_token" => "get a new access token from this issuer, or from an issuer that the application trusts",
        "audience" => {
            "request the token for this application with the parameter `resource`, and set `scopes` or \
             `issuer_audience` of the application"
        }
        "client" => "add the token's client to `clients` of the application",
        "unapproved_client" => "approve the client",
        "read_only" => "list the method in `methods` of the rule, or set `resource = true` for an MCP endpoint",
        "scope" => "request the scope of the rule, or allow it for the client",
        "user" => "add the user to `users` of the rule",
        "group" => "add the user to a group of the rule",
        "acr" => "sign in with a second factor of the level that the rule requires",
        "max_age" => "sign in again: the rule allows only recent sign-ins",
        "too_many_groups" => "remove the user from some groups",
        "unwritable_group" => "rename the group, or set `names` of the application to \"utf8\"",
        "destination" => "allow the request in the rule of the destination too",
        "below" => "allow the request in every rule below the path, because the request acts on all of them",
        "maintenance" => {
            "remove `maintenance` of the application and reload, or add a group of the user to `maintenance.groups`"
        }
        "network" => "add the client's network to `networks` of a rule, or add a rule without networks",
        "unopened" => "add an [[app.route]] whose path contains this one",
        "method" => "add the method to `methods` of the rule",
        "method_case" => "write the method in upper case",
        _ => "write the path in its normal form: no empty or dot segments, no ambiguous characters or escapes",
    })
}
