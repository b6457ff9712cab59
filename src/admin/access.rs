//! Commands that list and revoke access to accounts: browser sessions, grants, consents and
//! application passwords.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::{
    Answer, AppPasswordAnswer, ConsentAnswer, EndedAnswer, GrantAnswer, ListPage, Rows, SessionAnswer,
};
use crate::command::{AppPasswordCommand, ConsentCommand, GrantCommand, GrantsOf, SessionCommand, SessionsOf};
use crate::context::{CommandContext, CommandError, PAGE, cursor};
use crate::open_accesses;
use crate::users;
use crate::users::UserRef;
use sealgate_domain::audit::{AuditEvent, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::{EndReason, GrantId};
use sealgate_domain::session::{AppSession, Session, SessionId};
use sealgate_domain::user::Subject;
use sealgate_store::{GrantFilter, Store, StoreError};

/// Error for a request without a filter, which the command line does not send.
const NO_FILTER: &str = "name a user or a client";

/// Users all of whose access is being revoked. Lists do not show their access, although some records
/// remain until the revocation is complete.
struct Ending<'s> {
    store: &'s Store,
    known: BTreeMap<Subject, bool>,
}

impl<'s> Ending<'s> {
    fn new(store: &'s Store) -> Self {
        Self { store, known: BTreeMap::new() }
    }

    async fn has_user(&mut self, subject: Subject) -> Result<bool, StoreError> {
        if let Some(known) = self.known.get(&subject) {
            return Ok(*known);
        }
        let is_ending = self.store.has_open_revocation(subject).await?;
        self.known.insert(subject, is_ending);
        Ok(is_ending)
    }

    /// Returns whether the session ends: the revocation of one signed-in user ends it for all.
    async fn has_session(&mut self, session: &Session) -> Result<bool, StoreError> {
        for sign_in in &session.sign_ins {
            if self.has_user(sign_in.subject).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

pub(super) async fn sessions(context: &CommandContext<'_>, command: SessionCommand) -> Result<Answer, CommandError> {
    match command {
        SessionCommand::List { of: SessionsOf { user, client }, after } => match (user, client) {
            (Some(user), _) => list_sessions(context, &user, cursor(after.as_deref(), SessionId::parse)?).await,
            (None, Some(client)) => list_of_client(context, &client, cursor(after.as_deref(), GrantId::parse)?).await,
            (None, None) => Err(CommandError::invalid(NO_FILTER)),
        },
        SessionCommand::Revoke { sid } => revoke_session(context, sid).await,
        SessionCommand::RevokeSignIn { sid, user } => revoke_sign_in(context, sid, user).await,
        SessionCommand::RevokeAll(SessionsOf { user, client }) => match (user, client) {
            (Some(user), _) => revoke_of_user(context, &user).await,
            (None, Some(client)) => revoke_of_client(context, client).await,
            (None, None) => Err(CommandError::invalid(NO_FILTER)),
        },
    }
}

async fn list_sessions(
    context: &CommandContext<'_>,
    user: &UserRef,
    after: Option<SessionId>,
) -> Result<Answer, CommandError> {
    let sub = users::find(context, user).await?.sub;
    let page = context.store.sessions_of_user(sub, after, PAGE).await?;
    let mut ending = Ending::new(context.store);
    let (now, keep) = (context.clock.now(), context.keep_signed_in);
    let mut live = Vec::new();
    for session in page.sessions.into_iter().filter_map(|session| session.in_effect(now, keep)) {
        live.extend((!ending.has_session(&session).await?).then(|| SessionAnswer::from(session)));
    }
    Ok(ListPage::answer(Rows::Sessions(live), page.next))
}

/// Lists the sessions that the grants of a client belong to.
async fn list_of_client(
    context: &CommandContext<'_>,
    client: &ClientId,
    after: Option<GrantId>,
) -> Result<Answer, CommandError> {
    let (sessions, next) = page_of_client(context, client, after).await?;
    let (mut rows, mut ending) = (Vec::new(), Ending::new(context.store));
    let (now, keep) = (context.clock.now(), context.keep_signed_in);
    for id in sessions {
        let session = context.store.session(id).await?.and_then(|session| session.value.in_effect(now, keep));
        if let Some(session) = session
            && !ending.has_session(&session).await?
        {
            rows.push(SessionAnswer::from(session));
        }
    }
    Ok(ListPage::answer(Rows::Sessions(rows), next))
}

async fn revoke_of_client(context: &CommandContext<'_>, client: ClientId) -> Result<Answer, CommandError> {
    let (mut ended, mut after) = (0_usize, None);
    loop {
        let (sessions, next) = page_of_client(context, &client, after).await?;
        for id in sessions {
            ended += usize::from(context.store.end_session(id).await?);
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    let event = context.event(AuditKind::SessionsEnded).with_client(&client);
    context.record(event.with_detail(format!("sessions {ended}"))).await;
    Ok(EndedAnswer { client_id: Some(client), sessions_ended: Some(ended), ..EndedAnswer::from(()) }.into())
}

/// Returns the sessions of one page of a client's active grants, each once.
async fn page_of_client(
    context: &CommandContext<'_>,
    client: &ClientId,
    after: Option<GrantId>,
) -> Result<(BTreeSet<SessionId>, Option<GrantId>), CommandError> {
    let filter = GrantFilter { client: Some(client.clone()), ..GrantFilter::default() };
    let page = context.store.grants(&filter, after, PAGE).await?;
    let of_users = page.grants.iter().filter(|grant| !grant.is_service);
    Ok((of_users.map(|grant| grant.session).collect(), page.next))
}

async fn revoke_of_user(context: &CommandContext<'_>, user: &UserRef) -> Result<Answer, CommandError> {
    let sub = users::find(context, user).await?.sub;
    let ended = context.store.end_sessions_of_user(sub).await?;
    context
        .record(context.event(AuditKind::SessionsEnded).for_subject(sub).with_detail(format!("sessions {ended}")))
        .await;
    Ok(EndedAnswer { sub: Some(sub), sessions_ended: Some(ended), ..EndedAnswer::from(()) }.into())
}

async fn revoke_session(context: &CommandContext<'_>, id: SessionId) -> Result<Answer, CommandError> {
    if let Some(session) = context.store.app_session(id).await?.map(|loaded| loaded.value) {
        return revoke_app_session(context, &session).await;
    }
    let subject = context.store.session(id).await?.and_then(|loaded| loaded.value.current().map(|one| one.subject));
    if !context.store.end_session(id).await? {
        return Err(CommandError::Absent(format!("no session has the ID {id}")));
    }
    let event = context.event(AuditKind::SessionsEnded).in_session(id);
    context.record(subject.into_iter().fold(event, AuditEvent::for_subject)).await;
    Ok(EndedAnswer { sid: Some(id), sessions_ended: Some(1), ..EndedAnswer::from(()) }.into())
}

async fn revoke_sign_in(context: &CommandContext<'_>, id: SessionId, user: Subject) -> Result<Answer, CommandError> {
    if context.store.end_sign_ins_in(id, |sign_in| sign_in.subject == user).await?.is_empty() {
        return Err(CommandError::Absent(format!("the user {user} is not signed in in the session {id}")));
    }
    context.record(context.event(AuditKind::SessionsEnded).in_session(id).for_subject(user)).await;
    Ok(EndedAnswer { sid: Some(id), sessions_ended: Some(1), ..EndedAnswer::from(()) }.into())
}

async fn revoke_app_session(context: &CommandContext<'_>, session: &AppSession) -> Result<Answer, CommandError> {
    open_accesses::end_app_session(context.store, session.subject, session.id).await?;
    let event = context.event(AuditKind::SessionsEnded).for_subject(session.subject).in_app(&session.app);
    context.record(event.in_session(session.parent)).await;
    let (sid, app) = (Some(session.id), Some(session.app.clone()));
    Ok(EndedAnswer { sid, app, sessions_ended: Some(1), ..EndedAnswer::from(()) }.into())
}

pub(super) async fn grants(context: &CommandContext<'_>, command: GrantCommand) -> Result<Answer, CommandError> {
    match command {
        GrantCommand::List { of, after } => {
            let after = cursor(after.as_deref(), GrantId::parse)?;
            let page = context.store.grants(&filter(context, of).await?, after, PAGE).await?;
            let (mut rows, mut ending) = (Vec::new(), Ending::new(context.store));
            for grant in page.grants {
                if !ending.has_user(grant.subject).await? {
                    rows.push(GrantAnswer::from(grant));
                }
            }
            Ok(ListPage::answer(Rows::Grants(rows), page.next))
        }
        GrantCommand::Revoke { grant } => revoke_grant(context, grant).await,
        GrantCommand::RevokeAll(of) => revoke_grants(context, of).await,
    }
}

async fn filter(context: &CommandContext<'_>, of: GrantsOf) -> Result<GrantFilter, CommandError> {
    let subject = match &of.user {
        Some(user) => Some(users::find(context, user).await?.sub),
        None => None,
    };
    if subject.is_none() && of.client.is_none() && of.session.is_none() {
        return Err(CommandError::invalid("name a user, a client or a session"));
    }
    Ok(GrantFilter { subject, client: of.client, session: of.session })
}

async fn revoke_grant(context: &CommandContext<'_>, id: GrantId) -> Result<Answer, CommandError> {
    let absent = || CommandError::Absent(format!("no active grant has the ID {id}"));
    let grant = context.store.grant(id).await?.ok_or_else(absent)?.value;
    if !context.store.end_grant(id, EndReason::Administrator, context.clock.now()).await? {
        return Err(absent());
    }
    let event = context.event(AuditKind::GrantsEnded).with_client(&grant.client);
    let event = if grant.is_service { event } else { event.for_subject(grant.subject) };
    context.record(event.with_grant(id)).await;
    Ok(EndedAnswer { grant: Some(id), grants_ended: Some(1), ..EndedAnswer::from(()) }.into())
}

async fn revoke_grants(context: &CommandContext<'_>, of: GrantsOf) -> Result<Answer, CommandError> {
    let filter = filter(context, of).await?;
    let ended = context.store.end_grants(&filter, EndReason::Administrator, context.clock.now()).await?;
    let event = context.event(AuditKind::GrantsEnded).with_detail(format!("grants {ended}"));
    let event = filter.subject.into_iter().fold(event, AuditEvent::for_subject);
    let event = filter.client.iter().fold(event, AuditEvent::with_client);
    context.record(filter.session.into_iter().fold(event, AuditEvent::in_session)).await;
    Ok(EndedAnswer { grants_ended: Some(ended), ..EndedAnswer::from(()) }.into())
}

pub(super) async fn consents(context: &CommandContext<'_>, command: ConsentCommand) -> Result<Answer, CommandError> {
    match command {
        ConsentCommand::List { user, after } => {
            let sub = users::find(context, &user).await?.sub;
            let after = cursor(after.as_deref(), ClientId::parse)?;
            let consents = context.store.consents_page(sub, after.as_ref(), PAGE).await?;
            let next = consents.last().filter(|_| consents.len() == PAGE).map(|consent| consent.client.clone());
            Ok(ListPage::answer(Rows::Consents(consents.into_iter().map(ConsentAnswer::from).collect()), next))
        }
        ConsentCommand::Revoke { user, client } => revoke_consent(context, &user, &client).await,
    }
}

async fn revoke_consent(
    context: &CommandContext<'_>,
    user: &UserRef,
    client: &ClientId,
) -> Result<Answer, CommandError> {
    let sub = users::find(context, user).await?.sub;
    let existed = context.store.consent(sub, client).await?.is_some();
    // A client with implied consent has grants without a consent.
    let ended = context.store.withdraw_consent(sub, client, context.clock.now()).await?;
    if !existed && ended == 0 {
        return Err(CommandError::Absent(format!("{user} has given the client {client} no consent and no grant")));
    }
    let event = context.event(AuditKind::ConsentWithdrawn).for_subject(sub).with_client(client);
    context.record(event.with_detail(format!("grants {ended}"))).await;
    Ok(EndedAnswer {
        sub: Some(sub),
        client_id: Some(client.clone()),
        withdrawn: Some(existed),
        grants_ended: Some(ended),
        ..EndedAnswer::from(())
    }
    .into())
}

pub(super) async fn app_passwords(
    context: &CommandContext<'_>,
    command: AppPasswordCommand,
) -> Result<Answer, CommandError> {
    match command {
        AppPasswordCommand::List(user) => {
            let sub = users::find(context, &user).await?.sub;
            let is_ending = context.store.has_open_revocation(sub).await?;
            let passwords = context.store.app_passwords(sub).await?.passwords.into_iter().filter(|_| !is_ending);
            Ok(ListPage::answer(Rows::AppPasswords(passwords.map(AppPasswordAnswer::from).collect()), None::<String>))
        }
        AppPasswordCommand::Revoke { user, id, .. } => revoke_app_password(context, &user, &id).await,
    }
}

async fn revoke_app_password(context: &CommandContext<'_>, user: &UserRef, id: &str) -> Result<Answer, CommandError> {
    let sub = users::find(context, user).await?.sub;
    let Some(revoked) = context.store.revoke_app_password(sub, id).await? else {
        return Err(CommandError::Absent(format!("{user} has no application password with the ID {id}")));
    };
    let event = context.event(AuditKind::AppPasswordRevoked).for_subject(sub).in_app(&revoked.app);
    context.record(event.with_detail(revoked.id())).await;
    let (id, app, name) = (Some(id.to_owned()), Some(revoked.app), Some(revoked.name));
    Ok(EndedAnswer { sub: Some(sub), id, app, name, revoked: Some(true), ..EndedAnswer::from(()) }.into())
}
