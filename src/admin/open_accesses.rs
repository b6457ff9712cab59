//! Collects the open accesses of a user, for the account pages, the console and the command line,
//! and ends sessions at applications.

use std::collections::BTreeMap;

use sealgate_config::App;
use sealgate_domain::client::ClientId;
use sealgate_domain::open_access::{AccessKind, ClientTokens, OpenAccess};
use sealgate_domain::session::{AppSession, KeepSignedIn, Session, SessionId, SignIn};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::{GrantFilter, Store, StoreError};

/// Maximum number of sessions of a user that are listed.
const MAX_SESSIONS: usize = 200;

/// Number of sessions that are read at once.
const PAGE: usize = 200;

/// Maximum number of consents, and of grants, that are read.
const MAX_READ: usize = 500;

/// Returns all open accesses of a user, in this order:
///
/// - Browser sessions, the last used first. Each is followed by its sessions at applications.
/// - Clients.
/// - Application passwords.
/// - Stored names and passwords at applications.
///
/// While all access of the user is being revoked, only those that the revocation leaves are returned:
/// consents and stored names.
///
/// An application on the issuer's host uses the browser session itself, and has no session of its
/// own.
///
/// # Errors
/// Returns the store's error.
pub async fn of_user(
    store: &Store,
    apps: &[App],
    user: Subject,
    keep: KeepSignedIn,
    now: UnixTime,
) -> Result<Vec<OpenAccess>, StoreError> {
    let mut accesses = Vec::new();
    let is_ending = store.has_open_revocation(user).await?;
    let sessions = if is_ending { Vec::new() } else { sessions(store, user, keep, now).await? };
    for session in &sessions {
        let Some(sign_in) = session.sign_in_of(user) else { continue };
        accesses.push(of_session(session, sign_in));
        let own = app_sessions(store, session.id, user, now).await?;
        accesses.extend(own.iter().map(|own| of_app_session(apps, own, session)));
    }
    accesses.extend(of_clients(store, user, now).await?);
    for password in store.app_passwords(user).await?.passwords.into_iter().rev().filter(|_| !is_ending) {
        let access = OpenAccess::new(AccessKind::AppPassword, password.id(), password.created_at);
        let access = OpenAccess { name: Some(password.name), last_used_at: password.last_used_at, ..access };
        accesses.push(at_app(apps, &password.app, access));
    }
    for stored in store.app_credentials(user).await?.credentials {
        let access = OpenAccess::new(AccessKind::AppLogin, stored.app.clone(), stored.changed_at);
        let access = OpenAccess { name: Some(stored.username), is_refused: stored.is_refused, ..access };
        accesses.push(at_app(apps, &stored.app, access));
    }
    Ok(accesses)
}

/// Returns the live sessions of a user, the last used first.
async fn sessions(store: &Store, user: Subject, keep: KeepSignedIn, now: UnixTime) -> Result<Vec<Session>, StoreError> {
    let (mut sessions, mut after) = (Vec::new(), None);
    loop {
        let page = store.sessions_of_user(user, after, PAGE).await?;
        sessions.extend(page.sessions.into_iter().filter_map(|session| session.in_effect(now, keep)));
        after = page.next;
        if after.is_none() || sessions.len() >= MAX_SESSIONS {
            break;
        }
    }
    sessions.sort_by_key(|session| std::cmp::Reverse(session.last_seen_at));
    sessions.truncate(MAX_SESSIONS);
    Ok(sessions)
}

fn of_session(session: &Session, sign_in: &SignIn) -> OpenAccess {
    let since = if sign_in.steps.all().is_empty() { session.created_at } else { sign_in.at() };
    OpenAccess {
        last_used_at: Some(session.last_seen_at),
        address: Some(session.address),
        user_agent: Some(session.user_agent.clone()),
        methods: sign_in.steps.all().iter().map(|step| step.method).collect(),
        sid: Some(session.id),
        kept_until: session.kept_until,
        ..OpenAccess::new(AccessKind::Session, session.id.to_string(), since)
    }
}

/// Returns the user's live sessions at applications that depend on the browser session `parent`. Of
/// each application, and of each host of a wildcard, only the newest session is returned.
///
/// An application can have several sessions of one browser: a renewed sign-in starts a new session,
/// while requests with the previous cookie may still be in progress.
async fn app_sessions(
    store: &Store,
    parent: SessionId,
    user: Subject,
    now: UnixTime,
) -> Result<Vec<AppSession>, StoreError> {
    let (mut newest, mut after) = (BTreeMap::<(String, Option<String>), AppSession>::new(), None);
    loop {
        let page = store.app_sessions_of(parent, after, PAGE).await?;
        for session in page.sessions {
            let place = (session.app.clone(), session.host.clone());
            let is_newer = newest.get(&place).is_none_or(|known| known.created_at < session.created_at);
            if is_newer && session.subject == user && now < session.expires_at {
                newest.insert(place, session);
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(newest.into_values().collect());
        }
    }
}

fn of_app_session(apps: &[App], session: &AppSession, parent: &Session) -> OpenAccess {
    let access = OpenAccess::new(AccessKind::AppSession, session.id.to_string(), session.created_at);
    let has_app_login = apps.iter().any(|app| app.name == session.app && app.login.is_some());
    let access = OpenAccess {
        sid: Some(parent.id),
        address: Some(parent.address),
        user_agent: Some(parent.user_agent.clone()),
        has_app_login,
        ..access
    };
    let access = at_app(apps, &session.app, access);
    match (&session.host, &access.title) {
        (Some(host), Some(title)) => OpenAccess { title: Some(format!("{title} ({host})")), ..access },
        _ => access,
    }
}

/// Adds the name and the title of an application. If the application was removed from the
/// configuration, the name is also the title.
fn at_app(apps: &[App], name: &str, access: OpenAccess) -> OpenAccess {
    let title = apps.iter().find(|app| app.name == name).map_or(name, App::called);
    OpenAccess { target: Some(name.to_owned()), title: Some(title.to_owned()), ..access }
}

/// Returns the clients that have the user's consent or an unexpired grant of the user, sorted by
/// name.
///
/// A client that does not ask for consent has only a grant.
///
/// # Errors
/// Returns the store's error.
pub async fn of_clients(store: &Store, user: Subject, now: UnixTime) -> Result<Vec<OpenAccess>, StoreError> {
    let mut accesses: BTreeMap<ClientId, OpenAccess> = BTreeMap::new();
    let consents = store.consents_page(user, None, MAX_READ).await?;
    let filter = GrantFilter { subject: Some(user), ..GrantFilter::default() };
    let is_ending = store.has_open_revocation(user).await?;
    let grants = if is_ending { Vec::new() } else { store.grants(&filter, None, MAX_READ).await?.grants };
    let of_consents = consents.into_iter().map(|consent| {
        let access = OpenAccess::new(AccessKind::Client, consent.client.to_string(), consent.at);
        let resources = consent.resources.keys().cloned().collect();
        let access = OpenAccess { scope: Some(consent.whole_scope()), resources, ..access };
        (consent.client.clone(), access, Some(consent))
    });
    // Deleting a client ends its grants, so a live grant belongs to the current client of that id.
    let of_grants = grants.into_iter().filter(|grant| now < grant.expires_at).map(|grant| {
        let access = OpenAccess {
            scope: Some(grant.scope),
            resources: grant.resource.iter().map(|resource| resource.id.clone()).collect(),
            last_used_at: grant.rotated_at(),
            tokens: Some(if grant.refresh.is_some() { ClientTokens::Refresh } else { ClientTokens::Access }),
            ..OpenAccess::new(AccessKind::Client, grant.client.to_string(), grant.created_at)
        };
        (grant.client, access, None)
    });
    for (id, access, consent) in of_consents.chain(of_grants) {
        if let Some(known) = accesses.get_mut(&id) {
            known.scope = known.scope.zip(access.scope).map(|(one, other)| one.union(other));
            known.resources.extend(access.resources);
            known.created_at = known.created_at.min(access.created_at);
            known.last_used_at = known.last_used_at.max(access.last_used_at);
            known.tokens = known.tokens.max(access.tokens);
            continue;
        }
        // Skip a consent that was given to a deleted client with the same id.
        let client =
            store.client(&id).await?.filter(|client| consent.as_ref().is_none_or(|consent| consent.is_for(client)));
        if let Some(client) = client {
            let (target, title) = (Some(id.to_string()), Some(client.name));
            accesses.insert(id.clone(), OpenAccess { target, title, logo: client.logo, ..access });
        }
    }
    let mut accesses: Vec<_> = accesses.into_values().collect();
    accesses.sort_by(|one, other| one.title.cmp(&other.title));
    Ok(accesses)
}

/// Ends the user's session `id` at an application, and the older sessions of the same browser at
/// this application and host. Returns the session, or `None` if the user has no such session.
///
/// The browser session continues, so the browser can open the application again.
///
/// # Errors
/// Returns the store's error.
pub async fn end_app_session(store: &Store, user: Subject, id: SessionId) -> Result<Option<AppSession>, StoreError> {
    let session = store.app_session(id).await?.map(|loaded| loaded.value).filter(|session| session.subject == user);
    let Some(session) = session else { return Ok(None) };
    let mut after = None;
    loop {
        let page = store.app_sessions_of(session.parent, after, PAGE).await?;
        for other in page.sessions {
            if (&other.app, &other.host, other.subject) == (&session.app, &session.host, user) {
                store.end_app_session(other.id).await?;
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(Some(session));
        }
    }
}
