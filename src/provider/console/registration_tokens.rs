//! `/console/registration-tokens`: initial access tokens, which register clients over HTTP (RFC 7591). A
//! new token is shown once.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::account::activity::EventNames;
use crate::console::actions::RegistrationTokenAction;
use crate::console::client::{command_context, execute, failure_of};
use crate::console::confirmation::{Question, Target};
use crate::console::{ConsoleUser, confirmation, kept_form};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect, ShownResult};
use crate::visitor;
use sealgate_admin as admin;
use sealgate_admin::answer::{RegistrationTokenAnswer, Rows, ShownSecret};
use sealgate_admin::command::{ClientCommand, Command};
use sealgate_admin::{Answer, CommandError};
use sealgate_config::RegistrationMode;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::is_line;
use sealgate_domain::registration_token::MAX_REGISTRATION_NAME_LENGTH;
use sealgate_domain::secret::Secret;
use sealgate_pages::console::{
    ConfirmDetail, ConfirmLabel, GuardedChange, RegistrationTokenFault, RegistrationTokenForm, RegistrationTokenLine,
    RegistrationTokensPage,
};
use sealgate_pages::{Done, Problem, html};

const PAGE: &str = "/console/registration-tokens";

/// Lifetimes that the form offers, in days.
const LIFETIMES: [u64; 4] = [1, 7, 30, 90];
const DEFAULT_LIFETIME: u64 = 1;

/// Numbers of clients that the form offers.
const REGISTRATIONS: [u32; 4] = [1, 5, 20, 100];

/// Shows the tokens (GET), or creates or revokes a token (POST).
pub(super) async fn tokens_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        if let Some(form) = kept_form::take(ctx, console_user, PAGE).await? {
            return match RegistrationTokenAction::read(&form)? {
                RegistrationTokenAction::Create => show(ctx, console_user, &read(&form)?, None).await,
                RegistrationTokenAction::Revoke => ask_to_revoke(ctx, console_user, &form).await,
            };
        }
        let result = submission::take_result(ctx, &console_user.visitor, PAGE).await?;
        return show(ctx, console_user, &empty(), Some(&result)).await;
    }
    let form = console_user.form(ctx)?;
    match RegistrationTokenAction::read(&form)? {
        RegistrationTokenAction::Create => create(ctx, console_user, &form).await,
        RegistrationTokenAction::Revoke if !confirmation::is_confirmed(&form) => {
            ask_to_revoke(ctx, console_user, &form).await
        }
        RegistrationTokenAction::Revoke => revoke(ctx, console_user, &form).await,
    }
}

fn empty() -> RegistrationTokenForm {
    RegistrationTokenForm { name: String::new(), days: DEFAULT_LIFETIME, registrations: REGISTRATIONS[0], fault: None }
}

fn read(form: &Params) -> Result<RegistrationTokenForm, Failure> {
    let invalid = || Failure::page(Problem::InvalidRequest);
    let name = form.one("name")?.unwrap_or_default().trim().to_owned();
    let days = form.one("days")?.and_then(|days| days.parse().ok()).filter(|days| LIFETIMES.contains(days));
    let number = form.one("registrations")?.and_then(|number| number.parse().ok());
    let registrations = number.filter(|number| REGISTRATIONS.contains(number)).ok_or_else(invalid)?;
    let fault = (!is_line(&name, MAX_REGISTRATION_NAME_LENGTH)).then_some(RegistrationTokenFault::Name);
    Ok(RegistrationTokenForm { name, days: days.ok_or_else(invalid)?, registrations, fault })
}

async fn create(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let typed = read(form)?;
    if typed.fault.is_some() {
        return show(ctx, console_user, &typed, None).await;
    }
    let lifetime = Duration::from_hours(24 * typed.days);
    if !confirmation::is_confirmed(form) {
        let target = Target { name: &typed.name, identifier: "", page: PAGE.to_owned(), section: None };
        let detail = |label, value: String| ConfirmDetail { label, values: vec![value] };
        let question = Question::new(GuardedChange::CreateRegistrationToken, target).with(vec![
            detail(ConfirmLabel::Registrations, typed.registrations.to_string()),
            detail(ConfirmLabel::ExpiresAt, ctx.now.plus(lifetime).to_string()),
        ]);
        return Ok(confirmation::page(ctx, console_user, form, &question));
    }
    let generate = ClientCommand::GenerateToken {
        name: typed.name.clone(),
        lifetime_seconds: lifetime.as_secs(),
        registrations: typed.registrations,
    };
    let work = Box::pin(async {
        match admin::execute(&command_context(ctx, console_user), Command::Client(generate)).await {
            Ok(Answer::InitialToken(created)) => {
                let ShownSecret(secret) = created.initial_access_token;
                Ok(Effect::Done { page: PAGE.to_owned(), secret: Some(secret) })
            }
            Ok(_) => Err(Failure::Internal),
            Err(CommandError::Invalid(_)) => {
                let full = RegistrationTokenForm { fault: Some(RegistrationTokenFault::TooMany), ..typed };
                Ok(Effect::Refused(show(ctx, console_user, &full, None).await?))
            }
            Err(error) => Err(failure_of(error)),
        }
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

async fn ask_to_revoke(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
) -> Result<Response, Failure> {
    let id = form.one("id")?.unwrap_or_default();
    let token = tokens(ctx, console_user).await?.into_iter().find(|token| token.id == id);
    // A token that is gone has expired or was revoked meanwhile.
    let Some(token) = token else { return Ok(Response::see_other(&ctx.path(PAGE))) };
    let (name, identifier) = if token.name.is_empty() { (&token.id, "") } else { (&token.name, token.id.as_str()) };
    let target = Target { name, identifier, page: PAGE.to_owned(), section: None };
    Ok(confirmation::page(ctx, console_user, form, &Question::new(GuardedChange::RevokeRegistrationToken, target)))
}

async fn revoke(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let id = form.one("id")?.unwrap_or_default().to_owned();
    let command = Command::Client(ClientCommand::RevokeToken { id });
    let page = match admin::execute(&command_context(ctx, console_user), command).await {
        Ok(_) => visitor::done(ctx, PAGE, Done::RegistrationTokenRevoked),
        Err(CommandError::Absent(_)) => ctx.path(PAGE),
        Err(error) => return Err(failure_of(error)),
    };
    Ok(Response::see_other(&page))
}

async fn tokens(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Vec<RegistrationTokenAnswer>, Failure> {
    let answer = execute(ctx, console_user, Command::Client(ClientCommand::ListTokens)).await?;
    let Answer::Page(page) = answer else { return Err(Failure::Internal) };
    let Rows::RegistrationTokens(tokens) = page.rows else { return Err(Failure::Internal) };
    Ok(tokens)
}

async fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &RegistrationTokenForm,
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
        lines.push(RegistrationTokenLine {
            id: token.id,
            name: token.name,
            creator,
            registrations: token.registrations,
            clients: token.clients,
            created_at: token.created_at,
            expires_at: token.expires_at,
        });
    }
    let page = RegistrationTokensPage {
        inside: submission::with_hint(console_user.inside(ctx), result),
        csrf: &console_user.csrf(ctx),
        tokens: &lines,
        form,
        lifetimes: &LIFETIMES,
        registrations: &REGISTRATIONS,
        are_accepted: ctx.sealgate.config.registration.mode == RegistrationMode::Token,
        new_token: result.and_then(ShownResult::secret).map(Secret::expose),
        address: &format!("{}/oauth/register", ctx.sealgate.config.issuer.as_str()),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
