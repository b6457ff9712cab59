//! Sessions, grants, consents, application passwords, signing keys, messages and the audit log.

use http::StatusCode;
use serde_json::{Value, json};

use super::problem::ApiProblem;
use super::{Call, Reply};
use sealgate_admin::answer::ListPage;
use sealgate_admin::arguments::ClientArgument;
use sealgate_admin::command::{
    AppPasswordCommand, AuditCommand, Command, ConsentCommand, EventFilter, GrantCommand, GrantsOf, KeyCommand,
    MailCommand, SessionCommand, SessionsOf, UserCommand,
};
use sealgate_admin::{CommandError, UserRef, rotate_key};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::GrantId;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;

/// Default number of audit events on a page.
const EVENTS_PER_PAGE: u64 = 100;

/// Returns the JSON form of a page: the rows under their name, and the cursor of the next page.
pub(super) fn page(page: &ListPage) -> Value {
    let mut list = serde_json::to_value(&page.rows).unwrap_or_default();
    list["next"] = json!(page.next);
    list
}

impl Call<'_> {
    fn after(&self) -> Option<String> {
        self.query.some_text("after").map(str::to_owned)
    }

    /// Returns the user that the query names.
    fn queried_user(&self) -> Result<Option<UserRef>, ApiProblem> {
        let parse = |text| UserRef::parse(text).ok_or_else(|| invalid("user", "is not an ID, address or username"));
        self.query.some_text("user").map(parse).transpose()
    }

    /// Returns the client that the query names.
    fn queried_client(&self) -> Result<Option<ClientId>, ApiProblem> {
        let parse = |text| ClientId::parse(text).ok_or_else(|| invalid("client", "is not a client ID"));
        self.query.some_text("client").map(parse).transpose()
    }

    /// Returns the client that a parameter of the path names.
    ///
    /// # Errors
    /// 404 if the text is not a client ID.
    pub(super) fn client(&self, number: usize) -> Result<ClientArgument, ApiProblem> {
        let text = self.parameter(number);
        let id =
            ClientId::parse(text).ok_or_else(|| ApiProblem::not_found(format!("no client has the ID {text:?}")))?;
        Ok(id.into())
    }
}

fn invalid(name: &str, what: &str) -> ApiProblem {
    ApiProblem::malformed(format!("The query parameter {name:?} {what}."))
}

pub(super) async fn sessions(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let of = SessionsOf { user: call.queried_user()?, client: call.queried_client()? };
    if of.user.is_some() == of.client.is_some() {
        return Err(ApiProblem::malformed("Name either a user or a client in the query."));
    }
    call.command(Command::Session(SessionCommand::List { of, after: call.after() })).await
}

pub(super) async fn end_session(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let id = SessionId::parse(call.parameter(0)).ok_or_else(|| ApiProblem::not_found("no session has this ID"))?;
    call.execute(Command::Session(SessionCommand::Revoke { sid: id })).await?;
    Ok(Reply::nothing())
}

pub(super) async fn grants(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let session = match call.query.some_text("session") {
        Some(text) => Some(SessionId::parse(text).ok_or_else(|| invalid("session", "is not a session ID"))?),
        None => None,
    };
    let of = GrantsOf { user: call.queried_user()?, client: call.queried_client()?, session };
    if of.user.is_none() && of.client.is_none() && of.session.is_none() {
        return Err(ApiProblem::malformed("Name a user, a client or a session in the query."));
    }
    call.command(Command::Grant(GrantCommand::List { of, after: call.after() })).await
}

pub(super) async fn end_grant(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let grant =
        GrantId::parse(call.parameter(0)).ok_or_else(|| ApiProblem::not_found("no active grant has this ID"))?;
    call.execute(Command::Grant(GrantCommand::Revoke { grant })).await?;
    Ok(Reply::nothing())
}

pub(super) async fn accesses(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::User(UserCommand::ListAccesses(call.user(0)?))).await
}

pub(super) async fn consents(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::Consent(ConsentCommand::List { user: call.user(0)?, after: call.after() })).await
}

pub(super) async fn end_consent(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.execute(Command::Consent(ConsentCommand::Revoke { user: call.user(0)?, client: call.client(1)? })).await?;
    Ok(Reply::nothing())
}

pub(super) async fn app_passwords(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::AppPassword(AppPasswordCommand::List(call.user(0)?))).await
}

pub(super) async fn end_app_password(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let (user, id) = (call.user(0)?, call.parameter(1).to_owned());
    call.execute(Command::AppPassword(AppPasswordCommand::Revoke { user, id, wait: false })).await?;
    Ok(Reply::nothing())
}

pub(super) async fn keys(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::Key(KeyCommand::List)).await
}

/// Rotates the signing key of an algorithm as the console does, and returns the keys.
pub(super) async fn rotate(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let algorithm = call.query.some_text("algorithm").map_or(Some(Algorithm::Rs256), Algorithm::parse);
    let context = call.context();
    let algorithm = algorithm.filter(|algorithm| context.algorithms.contains(algorithm));
    let not_configured =
        || call.failed(CommandError::Invalid(vec!["[keys] algorithms does not contain this algorithm".to_owned()]));
    rotate_key(&context, algorithm.ok_or_else(not_configured)?).await.map_err(|error| call.failed(error))?;
    keys(call).await
}

pub(super) async fn mails(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let sent = call.query.flag("sent").flatten().unwrap_or(false);
    call.command(Command::Mail(MailCommand::List { sent, after: call.after() })).await
}

pub(super) async fn retry_mail(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.execute(Command::Mail(MailCommand::Retry { id: call.parameter(0).to_owned() })).await?;
    Ok(Reply::nothing())
}

pub(super) async fn delete_mail(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.execute(Command::Mail(MailCommand::Delete { id: call.parameter(0).to_owned() })).await?;
    Ok(Reply::nothing())
}

pub(super) async fn audit(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let query = &call.query;
    let kind = |text| AuditKind::parse(text).ok_or_else(|| invalid("kind", "is not the kind of an event"));
    let address = match query.some_text("address") {
        Some(text) => Some(text.parse().map_err(|_| invalid("address", "is not an IP address"))?),
        None => None,
    };
    let filter = EventFilter {
        user: call.queried_user()?,
        client: call.queried_client()?,
        kinds: query
            .some_text("kind")
            .map(|kinds| kinds.split(',').map(kind).collect())
            .transpose()?
            .unwrap_or_default(),
        since: query.number("since").flatten().map(UnixTime::from_seconds),
        until: query.number("until").flatten().map(UnixTime::from_seconds),
        address,
    };
    let limit = query.number("limit").flatten().unwrap_or(EVENTS_PER_PAGE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    call.command(Command::Audit(Box::new(AuditCommand { filter, limit, after: call.after() }))).await
}

/// Returns a new object with this status and path.
pub(super) fn created(call: &Call<'_>, reply: Reply, path: &str) -> Reply {
    let prefix = call.ctx.sealgate.config.issuer.path_prefix();
    Reply { status: StatusCode::CREATED, location: Some(format!("{prefix}{}{path}", super::PATH)), ..reply }
}
