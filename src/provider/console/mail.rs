//! `/console/mail` and `/console/mail/templates`: the mail queue, a test message, and previews of
//! all messages.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::account::activity::EventNames;
use crate::console::actions::MailAction;
use crate::console::client::{command_context, execute};
use crate::console::confirmation::{Question, Target};
use crate::console::{ConsoleUser, confirmation, kept_form};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect};
use crate::visitor;
use sealgate_admin as admin;
use sealgate_admin::answer::{MailAnswer, Rows};
use sealgate_admin::command::{Command, MailCommand};
use sealgate_admin::{Answer, CommandError};
use sealgate_config::{Language, MailConfig};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::mail::{CodePurpose, Mail, MailId, MailMessage, Notice};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::Email;
use sealgate_pages::console::{GuardedChange, MailLine, MailPage, MailTemplatesPage};
use sealgate_pages::mailer::{SendError, Sender, Transport, compose};
use sealgate_pages::{Done, Problem, html, language_from_tag, language_tag};

const PAGE: &str = "/console/mail";

/// Maximum number of messages in each list.
const MAX_SHOWN: usize = 50;

/// Maximum duration of a test, in addition to the timeout of the mail server.
const TEST_MARGIN: Duration = Duration::from_secs(5);

/// Example values of the previews.
const TOKEN: &str = "example";
const CODE: &str = "123456";

/// Shows the queue (GET), or retries or deletes a message, or sends a test message (POST).
pub(super) async fn mail_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        if let Some(form) = kept_form::take(ctx, console_user, PAGE).await?
            && MailAction::read(&form)? == MailAction::Delete
        {
            return ask_to_delete(ctx, console_user, &form).await;
        }
        let result = submission::take_result(ctx, &console_user.visitor, PAGE).await?;
        let answer = result.secret().map(Secret::expose);
        return show(ctx, console_user, &TestNotes { answer, ..TestNotes::default() }).await;
    }
    let form = console_user.form(ctx)?;
    let id = || form.one("id").map(|id| id.unwrap_or_default().to_owned());
    match MailAction::read(&form)? {
        MailAction::Retry => change(ctx, console_user, MailCommand::Retry { id: id()? }, Done::MailRetried).await,
        MailAction::Delete if !confirmation::is_confirmed(&form) => ask_to_delete(ctx, console_user, &form).await,
        MailAction::Delete => change(ctx, console_user, MailCommand::Delete { id: id()? }, Done::MailDeleted).await,
        MailAction::Test => test(ctx, console_user, &form).await,
    }
}

/// Asks to confirm the deletion of a message. A message that is gone was sent or deleted meanwhile.
async fn ask_to_delete(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
) -> Result<Response, Failure> {
    let id = form.one("id")?.unwrap_or_default();
    let (dead, waiting) = lists(ctx, console_user).await?;
    let mail = dead.into_iter().chain(waiting).find(|mail| mail.id.to_string() == id);
    let Some(mail) = mail else { return Ok(Response::see_other(&ctx.path(PAGE))) };
    let user = match mail.sub {
        Some(subject) => ctx.sealgate.store.user(subject).await?,
        None => None,
    };
    let (name, identifier) = user.as_ref().map_or(("", ""), |user| (user.name.as_str(), user.sign_in_name()));
    let target = Target { name, identifier, page: PAGE.to_owned(), section: None };
    Ok(confirmation::page(ctx, console_user, form, &Question::new(GuardedChange::DeleteMail(mail.kind), target)))
}

/// Executes a command about one message. A message that is gone was sent or deleted meanwhile.
async fn change(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    command: MailCommand,
    done: Done,
) -> Result<Response, Failure> {
    let command = Command::Mail(command);
    let page = match admin::execute(&command_context(ctx, console_user), command).await {
        Ok(_) => visitor::done(ctx, PAGE, done),
        Err(CommandError::Absent(_)) => ctx.path(PAGE),
        Err(error) => return Err(crate::console::client::failure_of(error)),
    };
    Ok(Response::see_other(&page))
}

/// Result of a test message.
#[derive(Default)]
struct TestNotes<'a> {
    to: Option<&'a str>,
    answer: Option<&'a str>,
    fault: Option<&'a str>,
}

async fn test(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let mail = ctx.sealgate.config.mail.as_ref().ok_or(Failure::page(Problem::InvalidRequest))?;
    let typed = form.one("to")?.unwrap_or_default().trim();
    let Some(to) = Email::parse(typed) else {
        let typed = if typed.len() <= 320 { typed } else { "" };
        return show(ctx, console_user, &TestNotes { to: Some(typed), fault: Some(""), ..TestNotes::default() }).await;
    };
    let work = Box::pin(async {
        let sent = tokio::time::timeout(mail.timeout + TEST_MARGIN, send_test(ctx, mail, &to)).await;
        let event = console_user.event(ctx, AuditKind::MailChanged);
        ctx.sealgate.audit.note(event.with_detail("test message"));
        let fault = match sent {
            Ok(Ok(answer)) => {
                return Ok(Effect::Done { page: PAGE.to_owned(), secret: Some(Secret::new(&answer)) });
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("{} did not answer in time", mail.host),
        };
        let notes = TestNotes { to: Some(to.as_str()), fault: Some(&fault), ..TestNotes::default() };
        Ok(Effect::Refused(show(ctx, console_user, &notes).await?))
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

/// Sends a test message, as `sealgate mail test` does. Returns the answer of the mail server.
async fn send_test(ctx: &RequestContext<'_>, mail: &MailConfig, to: &Email) -> Result<String, SendError> {
    let composed = compose(&message(ctx, ctx.language(), Mail::Test), &sender(ctx), MailId::from_bytes(ctx.random()))
        .map_err(|_| SendError::Failed)?;
    let transport = Transport::new(mail)?;
    transport.probe().await?;
    transport.send(&composed, to).await
}

fn sender<'a>(ctx: &'a RequestContext<'_>) -> Sender<'a> {
    let config = &ctx.sealgate.config;
    Sender { issuer: &config.issuer, operator: &config.pages.operator, accent: config.pages.accent }
}

fn message(ctx: &RequestContext<'_>, language: Language, mail: Mail) -> MailMessage {
    MailMessage { to: None, language, at: ctx.now, origin: None, mail }
}

async fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    notes: &TestNotes<'_>,
) -> Result<Response, Failure> {
    let (dead, waiting) = lists(ctx, console_user).await?;
    let has_more = dead.len() > MAX_SHOWN || waiting.len() > MAX_SHOWN;
    let mut names = EventNames::default();
    let own = console_user.visitor.user.email.as_ref().map(Email::as_str).unwrap_or_default();
    let page = MailPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.csrf(ctx),
        server: ctx.sealgate.config.mail.as_ref().map(|mail| mail.host.as_str()),
        to: notes.to.unwrap_or(own),
        answer: notes.answer,
        test_fault: notes.fault,
        dead: &lines(ctx, &mut names, dead).await?,
        waiting: &lines(ctx, &mut names, waiting).await?,
        has_more,
        most: MAX_SHOWN as u64,
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns the first undeliverable messages and the first queued ones.
async fn lists(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
) -> Result<(Vec<MailAnswer>, Vec<MailAnswer>), Failure> {
    let (mut dead, mut waiting, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let list = MailCommand::List { sent: false, after: after.take() };
        let Answer::Page(page) = execute(ctx, console_user, Command::Mail(list)).await? else {
            return Err(Failure::Internal);
        };
        let Rows::Mails(mails) = page.rows else { return Err(Failure::Internal) };
        for mail in mails {
            if mail.state == "waiting" { waiting.push(mail) } else { dead.push(mail) }
        }
        // The number of undeliverable messages is limited.
        after = page.next;
        if after.is_none() || waiting.len() > MAX_SHOWN {
            return Ok((dead, waiting));
        }
    }
}

async fn lines(
    ctx: &RequestContext<'_>,
    names: &mut EventNames,
    mails: Vec<MailAnswer>,
) -> Result<Vec<MailLine>, Failure> {
    let mut lines = Vec::new();
    for mail in mails.into_iter().take(MAX_SHOWN) {
        let user = match mail.sub {
            Some(subject) => {
                let user = names.user(ctx, subject).await?;
                user.name.map(|name| (user.id, name))
            }
            None => None,
        };
        lines.push(MailLine {
            id: mail.id.to_string(),
            kind: mail.kind,
            user,
            created_at: mail.created_at,
            due_at: mail.due_at,
            attempts: mail.attempts.unwrap_or_default().into(),
            answer: mail.answer,
        });
    }
    Ok(lines)
}

/// Shows all messages with example values. The query parameter `of` is their language.
pub(super) fn templates_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let chosen = ctx.query()?.one("of")?.and_then(language_from_tag);
    let language = chosen.unwrap_or_else(|| ctx.language());
    let sender = sender(ctx);
    let composed = examples()
        .into_iter()
        .filter_map(|mail| compose(&message(ctx, language, mail), &sender, MailId::from_bytes([0; 16])).ok());
    let mails: Vec<(String, String)> = composed.map(|composed| (composed.subject, composed.text)).collect();
    let page = MailTemplatesPage { inside: console_user.inside(ctx), tag: language_tag(language), mails: &mails };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

fn examples() -> Vec<Mail> {
    let (token, code) = (TOKEN.to_owned(), CODE.to_owned());
    let purpose = CodePurpose::default();
    let mut mails = vec![
        Mail::Invitation { token: token.clone(), inviter: None, app: None },
        Mail::Reset { token: token.clone() },
        Mail::PasskeysOnly,
        Mail::PasswordElsewhere,
        Mail::VerificationCode { code, purpose },
        Mail::AccountExists { purpose },
        Mail::AddressChanged { token, new_address: "n…@example.com".to_owned() },
        Mail::Test,
    ];
    mails.extend(Notice::ALL.map(|notice| Mail::Notice { notice, count: 1 }));
    mails
}
