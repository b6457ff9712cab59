//! `sealgate explain`: reports the application, the rule and the claim that decide on a request.

use std::io::Read as _;
use std::net::IpAddr;

use clap::Args;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::{Output, printable};
use sealgate_admin::command::{ClientCommand, Command, UserCommand};
use sealgate_admin::{Answer, UserRef, arguments};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_gateway::{Asker, ExplainedToken, Explanation, IdentityHeader, explain, explained};
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
    if let Some(claim) = fault {
        explanation = explanation.with_invalid_token(claim);
    }
    let advice = match explanation.reason {
        "unauthenticated" if is_disabled => Some("enable the user: sealgate user enable USER".to_owned()),
        "unauthenticated" if matches!(asker, Asker::User(..)) => Some(
            "the rule accepts access tokens only, not the session of a browser: send a token, or set `access` to \
             \"signed_in\""
                .to_owned(),
        ),
        "unauthenticated" => Some(
            "sign in, or send an access token; explain the request of a user with --user, or of a token with --token"
                .to_owned(),
        ),
        "network" if from.is_none() => {
            Some("rules of this path are for some networks: name the client with --from ADDRESS".to_owned())
        }
        reason => explained::advice(reason).map(|advice| match explained::command(reason) {
            Some(command) => format!("{advice}: {command}"),
            None => advice.to_owned(),
        }),
    };
    print(&explanation, shown_user.as_ref(), advice.as_deref(), output)
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
    let token = match ExplainedToken::parse(token, access.config(), now) {
        Ok(ExplainedToken::Own(token)) => token,
        Ok(ExplainedToken::Foreign(foreign)) => return Ok(Ok(Asker::Foreign(foreign))),
        Err(claim) => return Ok(Err(claim)),
    };
    let show = Command::Client(ClientCommand::Show(token.client.clone().into()));
    let Answer::Client(client) = access.ask(&show)? else { return Err(CommandFailure::other_answer()) };
    Ok(match (token.subject, client.service.clone()) {
        (Some(subject), _) => {
            let user = find(UserRef::Sub(subject), access)?;
            token.of_user(user, client.vouched_for)
        }
        (None, Some(service)) => Ok(token.of_service(client.client_name.clone(), service.groups, client.vouched_for)),
        (None, None) => Err(Some("sub")),
    })
}

fn find(user: UserRef, access: &mut StoreAccess) -> Result<User, CommandFailure> {
    let answer = access.ask(&Command::User(UserCommand::Show(user)))?;
    // The answer has the members of a user record except the password.
    serde_json::to_value(&*answer.members())
        .and_then(serde_json::from_value)
        .map_err(|error| CommandFailure::line(format_args!("cannot read the user: {error}")))
}

fn print(
    explanation: &Explanation,
    user: Option<&User>,
    advice: Option<&str>,
    output: &Output,
) -> Result<(), CommandFailure> {
    let Explanation { app, rule, forwarded, status, reason, claim, audience, headers, login, upstream } = explanation;
    let login = login.as_ref().map(explained::login_text);
    let object = explained::members(explanation, user, advice);
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
                explained::groups(user)
                    .iter()
                    .map(|(name, from)| printable(&format!("group:     {name}  ({from})")) + "\n"),
            );
        }
        text.extend(headers.iter().map(|header| format!("header:    {}\n", line(header))));
        text
    })
}

fn line(header: &IdentityHeader) -> String {
    let IdentityHeader { name, from, sent, value } = header;
    match value {
        Some(value) => format!("{name}: {value}  ({from})"),
        None if *sent => format!("{name}: signed for each request  ({from})"),
        None => format!("{name} is not sent: the user has no such property  ({from})"),
    }
}
