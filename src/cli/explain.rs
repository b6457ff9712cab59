//! `sealgate explain`: reports the application, the rule and the claim that decide on a request.

use std::io::Read as _;
use std::net::IpAddr;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::{Output, printable};
use sealgate_admin::command::{ClientCommand, Command, UserCommand};
use sealgate_admin::{Answer, UserRef, arguments};
use sealgate_config::LoginAccount;
use sealgate_core::tokens::bearer::BearerHolder;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::claims::AccessTokenClaims;
use sealgate_domain::oauth::jwt;
use sealgate_domain::oauth::jwt::Unverified;
use sealgate_domain::oauth::trusted_token::{ForeignFault, Signed, claimed_issuer};
use sealgate_domain::service::ServiceClient;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};
use sealgate_gateway::{Asker, Explanation, IdentityHeader, explain};
use sealgate_system::clock::{Clock as _, SystemClock};

/// Maximum length of a token on standard input, in bytes.
const MAX_INPUT_LENGTH: u64 = 64 * 1024;

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// Full URL of the request; the path is used unchanged
    url: String,
    /// HTTP method
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// Access token of the request, or - for standard input; its signature is not checked
    #[arg(long, value_name = "TOKEN", conflicts_with = "user", allow_hyphen_values = true)]
    token: Option<String>,
    /// User who has just signed in with the browser
    #[arg(long, value_name = "USER", value_parser = arguments::user)]
    user: Option<UserRef>,
    /// Address of the client, for paths whose rules have networks
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Authentication level: 1 password, 2 two-factor method, 3 passkey or security key [default: the level that
    /// `[factors]` requires of the user]
    #[arg(long, value_name = "LEVEL", value_parser = arguments::level, requires = "user")]
    level: Option<AssuranceLevel>,
}

pub(super) fn run(
    arguments: ExplainArguments,
    access: &mut StoreAccess,
    output: &Output,
) -> Result<(), CommandFailure> {
    let ExplainArguments { method, url, token, user, from, level } = arguments;
    let now = SystemClock.now();
    let mut is_disabled = false;
    let mut shown_user = None;
    let (asker, fault) = match (token, user) {
        (Some(token), _) => match by_token(&read(token)?, access, now)? {
            Ok(asker) => (asker, None),
            Err(claim) => (Asker::Anonymous, Some(claim)),
        },
        (None, Some(user)) => {
            let user = find(user, access)?;
            // A disabled user has no session.
            is_disabled = !user.is_enabled();
            shown_user = Some(user.clone());
            (if user.is_enabled() { Asker::User(Box::new(user), level) } else { Asker::Anonymous }, None)
        }
        (None, None) => (Asker::Anonymous, None),
    };
    let mut explanation = explain(access.config(), &method, &url, &asker, from, now).map_err(CommandFailure::line)?;
    // On a public route the gateway ignores the token. On any other route it refuses an invalid
    // token before it checks the route's other conditions.
    if let Some(claim) = fault
        && !explanation.forwarded
        && explanation.reason == "unauthenticated"
    {
        (explanation.reason, explanation.claim) = ("invalid_token", claim);
        explanation.status = explanation.status(false);
    }
    let advice = match explanation.reason {
        "unauthenticated" if is_disabled => Some("enable the user: sealgate user enable USER"),
        "unauthenticated" if matches!(asker, Asker::User(..)) => Some(
            "the rule accepts access tokens only, not the session of a browser: send a token, or set `access` to \
             \"signed_in\"",
        ),
        "network" if from.is_none() => {
            Some("rules of this path are for some networks: name the client with --from ADDRESS")
        }
        reason => advice(reason),
    };
    print(&explanation, shown_user.as_ref(), advice, output)
}

fn read(token: String) -> Result<String, CommandFailure> {
    if token != "-" {
        return Ok(token);
    }
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_INPUT_LENGTH).read_to_string(&mut text);
    read.map_err(|error| CommandFailure::line(format_args!("cannot read the token: {error}")))?;
    Ok(text.trim().to_owned())
}

/// Returns the holder of a token, or the claim that makes the token invalid. The signature is not
/// checked.
fn by_token(
    token: &str,
    access: &mut StoreAccess,
    now: UnixTime,
) -> Result<Result<Asker, Option<&'static str>>, CommandFailure> {
    if let Some(asker) = by_foreign_token(token, access, now) {
        return Ok(asker);
    }
    let Some(token) = Unverified::parse(token) else { return Ok(Err(None)) };
    if !token.is(jwt::ACCESS_TOKEN) {
        return Ok(Err(Some("typ")));
    }
    let Some(claims) = token.claims::<AccessTokenClaims>() else { return Ok(Err(None)) };
    if claims.iss != access.config().issuer.as_str() {
        return Ok(Err(Some("iss")));
    }
    if now >= claims.exp {
        return Ok(Err(Some("exp")));
    }
    let Some(client) = ClientId::parse(&claims.client_id) else { return Ok(Err(None)) };
    let mut show = |client: &ClientId| match access.ask(&Command::Client(ClientCommand::Show(client.clone().into())))? {
        Answer::Client(client) => Ok(client),
        _ => Err(CommandFailure::other_answer()),
    };
    let (holder, vouched_for) = if claims.is_of_service() {
        let shown = show(&client)?;
        let Some(service) = shown.service.clone() else { return Ok(Err(Some("sub"))) };
        let (name, groups) = (shown.client_name.clone(), service.groups);
        (BearerHolder::Client(Arc::new(ServiceClient { id: client, name, groups })), shown.vouched_for)
    } else {
        let Some(subject) = Subject::parse(&claims.sub) else { return Ok(Err(None)) };
        let vouched_for = show(&client)?.vouched_for;
        let user = find(UserRef::Sub(subject), access)?;
        if !user.is_enabled() {
            return Ok(Err(Some("sub")));
        }
        (BearerHolder::User(Arc::new(user)), vouched_for)
    };
    Ok(Ok(Asker::Token { claims: Box::new(claims), holder, vouched_for }))
}

/// Returns the holder of another issuer's token, like [`by_token`], if an application accepts the
/// issuer. Returns `None` for every other token.
fn by_foreign_token(token: &str, access: &StoreAccess, now: UnixTime) -> Option<Result<Asker, Option<&'static str>>> {
    let claimed = claimed_issuer(token)?;
    let mut trusted = access.config().trusted_issuers.iter().map(|issuer| &issuer.terms);
    let terms = trusted.find(|terms| terms.issuer == claimed)?;
    let judged = Signed::parse(token, terms).and_then(|signed| signed.judged(terms, now));
    Some(judged.map(|foreign| Asker::Foreign(Box::new(foreign))).map_err(ForeignFault::claim))
}

fn find(user: UserRef, access: &mut StoreAccess) -> Result<User, CommandFailure> {
    let answer = access.ask(&Command::User(UserCommand::Show(user)))?;
    // The answer has the members of a user record except the password.
    serde_json::to_value(&*answer.members())
        .and_then(serde_json::from_value)
        .map_err(|error| CommandFailure::line(format_args!("cannot read the user: {error}")))
}

/// Returns the groups of a user, each with the source that reports it.
fn groups(user: &User) -> Vec<(&str, &str)> {
    let local = user.groups.iter().map(|group| (group.as_str(), "local"));
    let of_source = user.source.iter().flat_map(|source| {
        let name = source.link.source.as_str();
        source.groups.iter().map(move |group| (group.as_str(), name))
    });
    local.chain(of_source).collect()
}

fn print(
    explanation: &Explanation,
    user: Option<&User>,
    advice: Option<&str>,
    output: &Output,
) -> Result<(), CommandFailure> {
    let Explanation { app, rule, forwarded, status, reason, claim, audience, headers, login, upstream } = explanation;
    let login = login.as_ref().map(|account| match account {
        LoginAccount::OfUser => "as the user, with the name and password in `sealgate app-login list`".to_owned(),
        LoginAccount::Service { username, .. } => format!("as {username}, the service account"),
    });
    let identity: Vec<_> = headers.iter().map(member).collect();
    let mut object = json!({
        "app": app, "rule": rule, "forwarded": forwarded, "status": status, "reason": reason, "claim": claim,
        "advice": advice, "identity_headers": identity,
        "upstreams": upstream.as_ref().map(|upstream| &upstream.servers),
        "upstream_protocol": upstream.as_ref().map(|upstream| upstream.protocol.as_str()),
        "upstream_path": upstream.as_ref().map(|upstream| &upstream.path),
    });
    if let Some(login) = &login {
        object["login"] = json!(login);
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
    output.result(&object, || {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let decision = if *forwarded { "forwarded" } else { "refused" };
        let mut text = format!(
            "app:       {}\nrule:      {}\ndecision:  {decision}\nstatus:    {}\nreason:    {reason}\nclaim:     {}\n",
            or_none(app),
            or_none(rule),
            status.map_or_else(
                || if *forwarded { "from the application" } else { "from Sealgate" }.to_owned(),
                |status| status.to_string()
            ),
            claim.unwrap_or("none")
        );
        text.extend(audience.iter().map(|audience| format!("audience:  {audience}\n")));
        text.extend(advice.map(|advice| format!("advice:    {advice}\n")));
        text.extend(login.iter().map(|login| printable(&format!("login:     {login}")) + "\n"));
        text.extend(upstream.iter().map(|upstream| {
            let (servers, protocol) = (upstream.servers.join(" "), upstream.protocol.as_str());
            format!("upstream:  {servers} {}\nprotocol:  {protocol}\n", upstream.path)
        }));
        if let Some(user) = user {
            text.extend(
                user.source
                    .iter()
                    .map(|source| format!("source:    {} ({})\n", source.link.source, source.state.as_str())),
            );
            text.extend(
                groups(user).iter().map(|(name, from)| printable(&format!("group:     {name}  ({from})")) + "\n"),
            );
        }
        text.extend(headers.iter().map(|header| format!("header:    {}\n", line(header))));
        text
    })
}

/// Returns advice about a refusal.
fn advice(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "forwarded" => return None,
        "own" => "Sealgate answers this path itself; choose another path for the application",
        "no_application" => "no [[app]] has this host; check `host` in the configuration, or the host of the URL",
        "unauthenticated" => {
            "sign in, or send an access token; explain the request of a user with --user, or of a token with --token"
        }
        "invalid_token" => "get a new access token from this issuer, or from an issuer that the application trusts",
        "audience" => {
            "request the token for this application with the parameter `resource`, and set `scopes` or \
             `issuer_audience` of the application"
        }
        "client" => "add the token's client to `clients` of the application",
        "unapproved_client" => "approve the client: sealgate client approve CLIENT",
        "read_only" => "list the method in `methods` of the rule, or set `resource = true` for an MCP endpoint",
        "scope" => "request the scope of the rule, or allow it for the client: sealgate client set CLIENT --scope",
        "user" => "add the user to `users` of the rule",
        "group" => "add the user to a group of the rule: sealgate user set USER --add-group GROUP",
        "acr" => "sign in with a second factor of the level that the rule requires",
        "max_age" => "sign in again: the rule allows only recent sign-ins",
        "too_many_groups" => "remove the user from some groups: sealgate user set USER --remove-group GROUP",
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

fn member(header: &IdentityHeader) -> Value {
    json!({ "name": header.name, "from": header.from, "sent": header.sent, "value": header.value })
}

fn line(header: &IdentityHeader) -> String {
    let IdentityHeader { name, from, sent, value } = header;
    match value {
        Some(value) => format!("{name}: {value}  ({from})"),
        None if *sent => format!("{name}: signed for each request  ({from})"),
        None => format!("{name} is not sent: the user has no such property  ({from})"),
    }
}
