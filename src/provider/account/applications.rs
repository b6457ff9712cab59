//! `/account/applications`: which clients know who this person is, and the end of that.

use std::collections::BTreeMap;

use http::{Method, StatusCode};

use crate::domain::audit::AuditKind;
use crate::domain::client::ClientId;
use crate::domain::scope::{Scope, ScopeValue};
use crate::domain::time::UnixTime;
use crate::page::{ApplicationLine, Applications, Done, Problem};
use crate::provider::call::Call;
use crate::provider::failure::Failure;
use crate::provider::response::Response;
use crate::provider::visitor::{self, Visitor};
use crate::store::GrantFilter;

const PAGE: &str = "/account/applications";

/// The most consents and grants that are looked at.
const MOST: usize = 500;

pub(super) async fn answer(call: &Call<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(call, PAGE).await?;
    if call.request.method() != Method::POST {
        return show(call, &visitor).await;
    }
    let form = visitor.form(call, PAGE)?;
    let client = form.one("client")?.and_then(ClientId::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    let subject = visitor.user.sub;
    let ended = call.sealgate.store.withdraw_consent(subject, &client, call.now).await?;
    let event = visitor.event(call, AuditKind::ConsentWithdrawn).with_client(&client);
    call.sealgate.audit.note(event.with_detail(format!("grants {ended}")));
    Ok(Response::see_other(&visitor::done(call, PAGE, Done::Withdrawn)))
}

/// What a client may see of this person, and since when.
struct Access {
    name: String,
    scope: Scope,
    since: UnixTime,
}

async fn show(call: &Call<'_>, visitor: &Visitor) -> Result<Response, Failure> {
    let access = accesses(call, visitor).await?;
    let words = |access: &Access| access.scope.values().map(ScopeValue::as_str).collect::<Vec<_>>();
    let scopes: Vec<Vec<&str>> = access.values().map(words).collect();
    let mut lines = Vec::with_capacity(access.len());
    for ((client, access), scopes) in access.iter().zip(&scopes) {
        let since = access.since.seconds();
        lines.push(ApplicationLine { client: client.as_str(), name: &access.name, scopes, since });
    }
    lines.sort_by(|one, other| one.name.cmp(other.name));
    let content = Applications { csrf: &visitor.csrf(call, PAGE), applications: &lines };
    let html = visitor.page(call, |chrome, shell| call.sealgate.pages.applications(chrome, shell, &content));
    Ok(Response::page(StatusCode::OK, html, None))
}

/// By consent, or by a grant whose tokens still work: a client that people are not asked about has only that.
async fn accesses(call: &Call<'_>, visitor: &Visitor) -> Result<BTreeMap<ClientId, Access>, Failure> {
    let (store, subject) = (&call.sealgate.store, visitor.user.sub);
    let mut found: BTreeMap<ClientId, Access> = BTreeMap::new();
    let consents = store.consents_page(subject, None, MOST).await?;
    let of_person = GrantFilter { subject: Some(subject), ..GrantFilter::default() };
    let grants = store.grants(&of_person, None, MOST).await?.grants;
    let live = grants.into_iter().filter(|grant| call.now < grant.expires_at);
    // A grant that works is the present client's: with its client, all of a client's grants end.
    let given = consents.into_iter().map(|consent| (consent.client.clone(), consent.scope, consent.at, Some(consent)));
    for (id, scope, at, consent) in given.chain(live.map(|grant| (grant.client, grant.scope, grant.created_at, None))) {
        if let Some(access) = found.get_mut(&id) {
            access.scope = access.scope.union(scope);
            access.since = access.since.min(at);
            continue;
        }
        // What was given to an earlier client of the same id is nobody's.
        let client = call.sealgate.client(&id).await?;
        let client = client.filter(|client| consent.is_none_or(|consent| consent.is_for(client)));
        if let Some(client) = client {
            found.insert(id, Access { name: client.name, scope, since: at });
        }
    }
    Ok(found)
}
