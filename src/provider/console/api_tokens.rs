//! `/console/api-tokens`: tokens for the admin API. A new token is shown once.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::account::activity::EventNames;
use crate::console::actions::ApiTokenAction;
use crate::console::client::{command_context, execute, failure_of};
use crate::console::confirmation::{Question, Target};
use crate::console::{ConsoleUser, confirmation, kept_form};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect, ShownResult};
use crate::visitor;
use sealgate_admin as admin;
use sealgate_admin::answer::{ApiTokenAnswer, Rows, ShownSecret};
use sealgate_admin::arguments::SecretExpiry;
use sealgate_admin::command::{ApiTokenCommand, Command, NewApiToken};
use sealgate_admin::{Answer, CommandError};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::api_token::{ApiScope, MAX_TOKEN_NAME_LENGTH};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::is_line;
use sealgate_domain::secret::Secret;
use sealgate_pages::console::{
    ApiTokenFault, ApiTokenForm, ApiTokenLine, ApiTokensPage, ConfirmDetail, ConfirmLabel, GuardedChange,
};
use sealgate_pages::{Done, Problem, html};

const PAGE: &str = "/console/api-tokens";

/// Lifetimes that the form offers, in days.
const LIFETIMES: [u64; 4] = [30, 90, 180, 365];
const DEFAULT_LIFETIME: u64 = 90;

/// Shows the tokens (GET), or creates or removes a token (POST).
pub(super) async fn api_tokens_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        if let Some(form) = kept_form::take(ctx, console_user, PAGE).await? {
            return match ApiTokenAction::read(&form)? {
                ApiTokenAction::Create => show(ctx, console_user, &read(&form)?, None).await,
                ApiTokenAction::Remove => ask_to_remove(ctx, console_user, &form).await,
            };
        }
        let result = submission::take_result(ctx, &console_user.visitor, PAGE).await?;
        return show(ctx, console_user, &empty(), Some(&result)).await;
    }
    let form = console_user.form(ctx)?;
    match ApiTokenAction::read(&form)? {
        ApiTokenAction::Create => create(ctx, console_user, &form).await,
        ApiTokenAction::Remove if !confirmation::is_confirmed(&form) => ask_to_remove(ctx, console_user, &form).await,
        ApiTokenAction::Remove => remove(ctx, console_user, &form).await,
    }
}

fn empty() -> ApiTokenForm {
    ApiTokenForm { name: String::new(), scopes: Vec::new(), days: DEFAULT_LIFETIME, faults: Vec::new() }
}

/// Reads the form. Each scope has a checkbox with its name.
fn read(form: &Params) -> Result<ApiTokenForm, Failure> {
    let name = form.one("name")?.unwrap_or_default().trim().to_owned();
    let scopes: Vec<ApiScope> = ApiScope::ALL.into_iter().filter(|scope| form.has(scope.as_str())).collect();
    let days = form.one("days")?.and_then(|days| days.parse().ok()).filter(|days| LIFETIMES.contains(days));
    let days = days.ok_or(Failure::page(Problem::InvalidRequest))?;
    let mut faults = Vec::new();
    if !is_line(&name, MAX_TOKEN_NAME_LENGTH) {
        faults.push(ApiTokenFault::Name);
    }
    if scopes.is_empty() {
        faults.push(ApiTokenFault::Scopes);
    }
    Ok(ApiTokenForm { name, scopes, days, faults })
}

async fn create(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let typed = read(form)?;
    if !typed.faults.is_empty() {
        return show(ctx, console_user, &typed, None).await;
    }
    if !confirmation::is_confirmed(form) {
        let scopes = typed.scopes.iter().map(ToString::to_string).collect();
        let until = ctx.now.plus(Duration::from_hours(24 * typed.days)).to_string();
        let target = Target { name: &typed.name, identifier: "", page: PAGE.to_owned(), section: None };
        let question = Question::new(GuardedChange::CreateApiToken, target).with(vec![
            ConfirmDetail { label: ConfirmLabel::ApiScopes, values: scopes },
            ConfirmDetail { label: ConfirmLabel::ExpiresAt, values: vec![until] },
        ]);
        return Ok(confirmation::page(ctx, console_user, form, &question));
    }
    let expires = Some(SecretExpiry::In(typed.days * 24 * 60 * 60));
    let new = NewApiToken { name: typed.name.clone(), scopes: typed.scopes.clone(), expires };
    let work = Box::pin(async {
        let command = Command::ApiToken(ApiTokenCommand::Add(Box::new(new)));
        match admin::execute(&command_context(ctx, console_user), command).await {
            Ok(Answer::ApiToken(created)) => {
                let ShownSecret(secret) = created.token.clone().ok_or(Failure::Internal)?;
                Ok(Effect::Done { page: PAGE.to_owned(), secret: Some(secret) })
            }
            Ok(_) => Err(Failure::Internal),
            Err(CommandError::Invalid(_)) => {
                let full = ApiTokenForm { faults: vec![ApiTokenFault::TooMany], ..typed };
                Ok(Effect::Refused(show(ctx, console_user, &full, None).await?))
            }
            Err(error) => Err(failure_of(error)),
        }
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

async fn ask_to_remove(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
) -> Result<Response, Failure> {
    let id = form.one("id")?.unwrap_or_default();
    let token = tokens(ctx, console_user).await?.into_iter().find(|token| token.id.to_string() == id);
    // A token that is gone has expired or was removed meanwhile.
    let Some(token) = token else { return Ok(Response::see_other(&ctx.path(PAGE))) };
    let target = Target { name: &token.name, identifier: "", page: PAGE.to_owned(), section: None };
    Ok(confirmation::page(ctx, console_user, form, &Question::new(GuardedChange::RemoveApiToken, target)))
}

async fn remove(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let id = form.one("id")?.unwrap_or_default().to_owned();
    let command = Command::ApiToken(ApiTokenCommand::Remove { id });
    let page = match admin::execute(&command_context(ctx, console_user), command).await {
        Ok(_) => visitor::done(ctx, PAGE, Done::ApiTokenRemoved),
        Err(CommandError::Absent(_)) => ctx.path(PAGE),
        Err(error) => return Err(failure_of(error)),
    };
    Ok(Response::see_other(&page))
}

async fn tokens(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Vec<ApiTokenAnswer>, Failure> {
    let answer = execute(ctx, console_user, Command::ApiToken(ApiTokenCommand::List)).await?;
    let Answer::Page(page) = answer else { return Err(Failure::Internal) };
    let Rows::ApiTokens(tokens) = page.rows else { return Err(Failure::Internal) };
    Ok(tokens)
}

async fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &ApiTokenForm,
    result: Option<&ShownResult>,
) -> Result<Response, Failure> {
    let mut names = EventNames::default();
    let mut lines = Vec::new();
    for token in tokens(ctx, console_user).await? {
        let creator = match token.creator {
            Some(subject) => {
                let creator = names.user(ctx, subject).await?;
                Some((creator.id, creator.name))
            }
            None => None,
        };
        lines.push(ApiTokenLine {
            id: token.id.to_string(),
            scopes: token.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "),
            name: token.name,
            creator,
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
        });
    }
    let page = ApiTokensPage {
        inside: submission::with_hint(console_user.inside(ctx), result),
        csrf: &console_user.csrf(ctx),
        tokens: &lines,
        form,
        lifetimes: &LIFETIMES,
        new_token: result.and_then(ShownResult::secret).map(Secret::expose),
        address: &format!("{}/api/v1/", ctx.sealgate.config.issuer.as_str()),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
