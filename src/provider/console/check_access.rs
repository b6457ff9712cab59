//! `/console/check`: explains whether a request to an application is admitted, with the code of
//! `sealgate explain`.

use std::net::IpAddr;

use http::{Method, StatusCode};

use crate::console::{ConsoleUser, kept_form, user_list};
use sealgate_admin::UserRef;
use sealgate_config::{App, LoginAccount};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::user::{User, plain_letters};
use sealgate_domain::user_list::{UserList, UserQuery};
use sealgate_gateway::{Asker, ClientToken, ExplainedToken, Explanation, explain};
use sealgate_pages::console::{
    AccessOutcome, CheckAccessPage, CheckChoice, CheckField, CheckForm, CheckNote, CheckedHeader, CheckedLogin,
    UserLine,
};
use sealgate_pages::html;
use sealgate_store::StoreError;

/// Path of the page. The query parameters `url`, `user` and `client` fill in the form.
pub(super) const PAGE: &str = "/console/check";

/// Maximum number of users or clients that a search shows.
const MAX_CHOICES: usize = 10;

/// Number of clients per read of a search, and maximum number of reads.
const CLIENTS_PER_READ: usize = 200;
const MAX_READS: usize = 25;

/// Maximum length of a search text, in characters.
const MAX_SEARCH_LENGTH: usize = 200;

/// Maximum length of a URL, in bytes.
const MAX_URL_LENGTH: usize = 2000;

/// Maximum length of an access token, in bytes.
const MAX_TOKEN_LENGTH: usize = 16 * 1024;

/// Shows the form (GET), or the result of a check (POST). A check changes nothing.
pub(super) async fn check_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method == Method::POST {
        let form = console_user.form(ctx)?;
        let mut input = Input::read(&form)?;
        if let Some(chosen) = form.one("choose")? {
            chosen.clone_into(&mut input.user);
            return Ok(show(ctx, console_user, &input, None, None));
        }
        if let Some(chosen) = form.one("choose-client")? {
            chosen.clone_into(&mut input.client);
            return Ok(show(ctx, console_user, &input, None, None));
        }
        if form.has("find-client") {
            let (choices, total) = find_clients(ctx, &input.client).await?;
            let form = CheckForm { found_clients: Some((&choices, total)), ..input.form(None) };
            return Ok(show_form(ctx, console_user, &form, None));
        }
        if form.has("find") {
            let (choices, total) = find_users(ctx, &input.user).await?;
            let form = CheckForm { found: Some((&choices, total)), ..input.form(None) };
            return Ok(show_form(ctx, console_user, &form, None));
        }
        return Ok(match check(ctx, &input).await? {
            Ok(outcome) => show(ctx, console_user, &input, None, Some(&outcome)),
            Err(fault) => show(ctx, console_user, &input, Some(fault), None),
        });
    }
    let input = match kept_form::take(ctx, console_user, PAGE).await? {
        Some(form) => Input::read(&form)?,
        None => Input::read(&ctx.query()?)?,
    };
    Ok(show(ctx, console_user, &input, None, None))
}

/// Input of the form.
struct Input {
    url: String,
    method: String,
    user: String,
    client: String,
    level: String,
    address: String,
    /// Access token of the request. Its signature is not checked, and no page shows it.
    token: String,
}

impl Input {
    fn read(form: &Params) -> Result<Self, Failure> {
        let text = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim().to_owned()) };
        let method = text("method")?;
        Ok(Self {
            url: text("url")?,
            method: if method.is_empty() { "GET".to_owned() } else { method },
            user: text("user")?,
            client: text("client")?,
            level: text("level")?,
            address: text("address")?,
            token: text("token")?,
        })
    }

    fn form(&self, fault: Option<CheckField>) -> CheckForm<'_> {
        let Self { url, method, user, client, level, address, .. } = self;
        CheckForm { url, method, user, client, level, address, fault, found: None, found_clients: None }
    }
}

fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    input: &Input,
    fault: Option<CheckField>,
    outcome: Option<&AccessOutcome>,
) -> Response {
    show_form(ctx, console_user, &input.form(fault), outcome)
}

fn show_form(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &CheckForm<'_>,
    outcome: Option<&AccessOutcome>,
) -> Response {
    let page = CheckAccessPage { inside: console_user.inside(ctx), csrf: &console_user.csrf(ctx), form, outcome };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Returns the first users that match the text, and the number of all.
async fn find_users(ctx: &RequestContext<'_>, text: &str) -> Result<(Vec<CheckChoice>, usize), Failure> {
    let search: String = text.chars().take(MAX_SEARCH_LENGTH).collect();
    let query = UserQuery { search, limit: MAX_CHOICES, ..UserQuery::default() };
    let list = ctx.sealgate.user_lists.current(&ctx.sealgate.store, ctx.now).await?;
    let now = ctx.now;
    let selection = list.with(move |list: &UserList| list.select(&query, now)).await?;
    let lines = user_list::lines(ctx, &selection.users).await?;
    let choice = |line: UserLine| CheckChoice { value: line.user.sign_in_name().to_owned(), name: line.user.name };
    Ok((lines.into_iter().map(choice).collect(), selection.total))
}

/// Returns the first clients whose name or identifier contains each word of the text, and the number
/// of all.
async fn find_clients(ctx: &RequestContext<'_>, text: &str) -> Result<(Vec<CheckChoice>, usize), Failure> {
    let search = plain_letters(&text.chars().take(MAX_SEARCH_LENGTH).collect::<String>());
    let matches = |client: &Client| {
        let names = [plain_letters(&client.name), plain_letters(client.id.as_str())];
        !client.is_of_gateway() && search.split_whitespace().all(|word| names.iter().any(|name| name.contains(word)))
    };
    let (mut choices, mut total, mut after) = (Vec::new(), 0, None::<ClientId>);
    for _ in 0..MAX_READS {
        let step = ctx.sealgate.store.clients(after.as_ref(), CLIENTS_PER_READ).await?;
        let is_last = step.len() < CLIENTS_PER_READ;
        after = step.last().map(|client| client.id.clone());
        for client in step.into_iter().filter(matches) {
            total += 1;
            if choices.len() < MAX_CHOICES {
                choices.push(CheckChoice { value: client.id.to_string(), name: client.name });
            }
        }
        if is_last {
            break;
        }
    }
    Ok((choices, total))
}

/// Explains the request, or returns the field with an error.
async fn check(ctx: &RequestContext<'_>, input: &Input) -> Result<Result<AccessOutcome, CheckField>, Failure> {
    if input.url.len() > MAX_URL_LENGTH || !is_absolute(&input.url) {
        return Ok(Err(CheckField::Url));
    }
    if Method::from_bytes(input.method.as_bytes()).is_err() {
        return Ok(Err(CheckField::Method));
    }
    let address = match input.address.as_str() {
        "" => None,
        text => match text.parse::<IpAddr>() {
            Ok(address) => Some(address),
            Err(_) => return Ok(Err(CheckField::Address)),
        },
    };
    let user = match input.user.as_str() {
        "" => None,
        text => match UserRef::parse(text) {
            None => return Ok(Err(CheckField::User)),
            Some(user_ref) => match find(ctx, &user_ref).await? {
                None => return Ok(Err(CheckField::NoUser)),
                Some(user) => Some(user),
            },
        },
    };
    let client = match input.client.as_str() {
        "" => None,
        text => match client_of(ctx, text).await? {
            Some(client) => Some(client),
            None => return Ok(Err(CheckField::Client)),
        },
    };
    let is_other = user.is_some() || client.is_some();
    if !input.token.is_empty() && (is_other || input.token.len() > MAX_TOKEN_LENGTH) {
        return Ok(Err(CheckField::Token));
    }
    let level = AssuranceLevel::parse(&input.level);
    let (asker, invalid) = match (&user, &client) {
        (user, Some(client)) => {
            let user = user.as_ref().map(|user| (user, level));
            match ClientToken::of_client(&ctx.sealgate.config, client, user, &input.url, ctx.now) {
                ClientToken::Widest(asker) => (asker, None),
                ClientToken::Refused(claim) => (Asker::Anonymous, Some(Some(claim))),
                ClientToken::NotInItsOwnName => return Ok(Err(CheckField::ClientAlone)),
            }
        }
        // A disabled user has no session.
        (Some(user), None) if user.is_enabled() => (Asker::User(Box::new(user.clone()), level), None),
        (None, None) if !input.token.is_empty() => match by_token(ctx, &input.token).await? {
            Ok(asker) => (asker, None),
            Err(claim) => (Asker::Anonymous, Some(claim)),
        },
        _ => (Asker::Anonymous, None),
    };
    let explained = explain(&ctx.sealgate.config, &input.method, &input.url, &asker, address, ctx.now);
    // The method and the form of the URL are valid, so an error is about characters of the path.
    let Ok(mut explanation) = explained else { return Ok(Err(CheckField::UrlCharacters)) };
    if let Some(claim) = invalid {
        explanation = explanation.with_invalid_token(claim);
    }
    Ok(Ok(outcome(ctx, explanation, user.as_ref(), client.as_ref(), address.is_none())))
}

/// Returns the client with this identifier. The clients of the gateway's applications count as unknown.
async fn client_of(ctx: &RequestContext<'_>, id: &str) -> Result<Option<Client>, StoreError> {
    match ClientId::parse(id) {
        Some(id) => ctx.sealgate.store.client(&id).await,
        None => Ok(None),
    }
}

/// Returns the holder of a token, or the claim that makes the token invalid.
async fn by_token(ctx: &RequestContext<'_>, token: &str) -> Result<Result<Asker, Option<&'static str>>, StoreError> {
    let token = match ExplainedToken::parse(token, &ctx.sealgate.config, ctx.now) {
        Ok(ExplainedToken::Own(token)) => token,
        Ok(ExplainedToken::Foreign(foreign)) => return Ok(Ok(Asker::Foreign(foreign))),
        Err(claim) => return Ok(Err(claim)),
    };
    let Some(client) = ctx.sealgate.client(&token.client).await? else { return Ok(Err(Some("client_id"))) };
    let vouched_for = client.is_vouched_for();
    Ok(match (token.subject, client.service) {
        (Some(subject), _) => match ctx.sealgate.store.user(subject).await? {
            Some(user) => token.of_user(user, vouched_for),
            None => Err(Some("sub")),
        },
        (None, Some(service)) => Ok(token.of_service(client.name, service.groups, vouched_for)),
        (None, None) => Err(Some("sub")),
    })
}

/// Returns whether the URL has a scheme and a host, as [`explain`] requires.
fn is_absolute(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#']))
}

pub(super) async fn find(ctx: &RequestContext<'_>, user_ref: &UserRef) -> Result<Option<User>, StoreError> {
    let store = &ctx.sealgate.store;
    match user_ref {
        UserRef::Sub(sub) => store.user(*sub).await,
        UserRef::Email(email) => store.user_by_email(email).await,
        UserRef::Username(username) => store.user_by_username(username).await,
    }
}

fn outcome(
    ctx: &RequestContext<'_>,
    explanation: Explanation,
    user: Option<&User>,
    client: Option<&Client>,
    has_no_address: bool,
) -> AccessOutcome {
    let Explanation { app, rule, forwarded, status, reason, claim, audience, headers, login, upstream } = explanation;
    let title = |name: &str| ctx.sealgate.config.apps.iter().find(|app| app.name == name).map(App::called);
    let note = match (reason, user) {
        ("unauthenticated" | "invalid_token", Some(user)) if !user.is_enabled() => Some(CheckNote::UserDisabled),
        ("unauthenticated", Some(_)) if client.is_none() => Some(CheckNote::TokensOnly),
        ("network", _) if has_no_address => Some(CheckNote::AddressMissing),
        _ => None,
    };
    AccessOutcome {
        is_forwarded: forwarded,
        status,
        reason,
        app: app.map(|name| (name.clone(), title(&name).unwrap_or_default().to_owned())),
        rule,
        claim,
        audience,
        note,
        headers: headers
            .into_iter()
            .map(|header| CheckedHeader {
                name: header.name,
                from: header.from,
                is_sent: header.sent,
                value: header.value,
            })
            .collect(),
        login: login.map(|account| match account {
            LoginAccount::OfUser => CheckedLogin::OfUser,
            LoginAccount::Service { username, .. } => CheckedLogin::Service(username),
        }),
        upstream: upstream.map(|upstream| (upstream.servers.join(" "), upstream.path)),
        client: client.map(|client| (client.name.clone(), client.id.path_segment())),
        user: user.map(|user| (user.sign_in_name().to_owned(), user.sub.to_string())),
        groups: user.map(|user| user.all_groups().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default(),
    }
}
