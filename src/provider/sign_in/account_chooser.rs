//! `/oauth/select-account`: the user selects one of the accounts that are signed in in this browser
//! (`prompt=select_account`).

use http::{Method, StatusCode};

use crate::request::ProviderRequest as _;
use crate::sign_in::interaction::{RESUME, Waiting};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::next_step::{Interaction, Progress};
use sealgate_domain::session::Session;
use sealgate_domain::user::{Subject, User};
use sealgate_pages::{AccountChooserPage, html};
use sealgate_store::Loaded;

const PAGE: &str = "select-account";

pub(crate) async fn account_chooser_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find(ctx).await?;
    let Some(session) = ctx.session().await? else {
        return Ok(Response::see_other(&waiting.address(ctx, "login")));
    };
    if ctx.head.method != Method::POST {
        return show(ctx, &waiting, &session.value).await;
    }
    let form = waiting.form(ctx, PAGE)?;
    let chosen = form.one("account")?.and_then(Subject::parse);
    match chosen.filter(|subject| session.value.sign_in_of(*subject).is_some()) {
        Some(subject) => choose(ctx, &waiting, &session, subject).await,
        // The user chose "Another account", or has signed out of the chosen account in another tab.
        None => Ok(Response::see_other(&waiting.address(ctx, "login"))),
    }
}

async fn show(ctx: &RequestContext<'_>, waiting: &Waiting, session: &Session) -> Result<Response, Failure> {
    let mut accounts = Vec::new();
    for sign_in in &session.sign_ins {
        if let Some(user) = ctx.sealgate.store.user(sign_in.subject).await?.filter(User::is_enabled) {
            accounts.push(user);
        }
    }
    let page = AccountChooserPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(PAGE),
        client: waiting.client_name(),
        accounts: &accounts,
    };
    Ok(Response::page(StatusCode::OK, html(&page), waiting.then().as_deref()))
}

async fn choose(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    session: &Loaded<Session>,
    subject: Subject,
) -> Result<Response, Failure> {
    let mut next = session.value.clone();
    next.choose(subject);
    // On a conflict, the session changed in another tab. The choice still applies to this request.
    let _ = ctx.sealgate.store.update_session(session, &next).await?;
    let interaction = waiting.interaction();
    let progress = Progress { account: Some(subject), ..Progress::default() };
    let next = Interaction { progress, ..interaction.clone() };
    let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    Ok(Response::see_other(&waiting.address(ctx, RESUME)))
}
