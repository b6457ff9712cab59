//! Authorization codes, consents, grants and revoked access tokens, and the processes' reports on
//! their answers to refresh requests.

use std::fmt;

use crate::engine::{Changes, Expect, Key};
use crate::format::record::Loaded;
use crate::format::table::{Indexed, Table};
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::answers::{AnswerReport, ProcessId};
use sealgate_domain::client::ClientId;
use sealgate_domain::code::{Code, CodeState};
use sealgate_domain::consent::Consent;
use sealgate_domain::grant::{EndReason, Grant, GrantId};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Filter for grants. A grant must match all fields that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantFilter {
    pub subject: Option<Subject>,
    pub client: Option<ClientId>,
    pub session: Option<SessionId>,
}

impl GrantFilter {
    fn matches(&self, grant: &Grant) -> bool {
        self.subject.is_none_or(|subject| grant.subject == subject)
            && self.client.as_ref().is_none_or(|client| grant.client == *client)
            && self.session.is_none_or(|session| grant.session == session)
    }
}

/// Page of active grants, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantPage {
    /// May be empty although there are more grants, if few match the filter.
    pub grants: Vec<Grant>,
    /// Grant after which the next page starts. `None` on the last page.
    pub next: Option<GrantId>,
}

/// Numbers of ended sessions and grants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    pub sessions: usize,
    pub grants: usize,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sessions {} grants {}", self.sessions, self.grants)
    }
}

impl Store {
    /// Stores a new code under its hash, with the consent that the user gave for it.
    pub async fn issue_code(
        &self,
        hash: &SecretHash,
        code: &Code,
        consent: Option<&Consent>,
    ) -> Result<(), StoreError> {
        let key = table::code(hash);
        let mut changes = record::create(key.clone(), code)?;
        changes.put.push((table::expiry(code.expires_at, &key), Vec::new()));
        if let Some(consent) = consent {
            changes.put.push((table::consent(consent.subject, &consent.client), record::encode(consent)?));
        }
        self.write(changes).await
    }

    /// Returns the code with this hash.
    pub async fn code(&self, hash: &SecretHash) -> Result<Option<Loaded<Code>>, StoreError> {
        self.load(table::code(hash)).await
    }

    /// Marks a code as redeemed and stores its grant, in one commit.
    ///
    /// Therefore two redemptions of a code cannot both succeed. The code is kept until it expires,
    /// so that a replay is detected.
    pub async fn redeem_code(&self, code: &Loaded<Code>, grant: &Grant) -> Result<Committed, StoreError> {
        self.redeem_code_with(code, grant, Changes::default()).await
    }

    /// Redeems a code as [`Store::redeem_code`] does, with further changes in the same commit.
    pub(crate) async fn redeem_code_with(
        &self,
        code: &Loaded<Code>,
        grant: &Grant,
        more: Changes,
    ) -> Result<Committed, StoreError> {
        let used = Code { state: CodeState::Redeemed { grant: grant.id }, ..code.value.clone() };
        let mut changes = record::replace(code, &used)?;
        let key = table::grant(grant.id);
        changes.expect.push(Expect::Absent(key.clone()));
        changes.put.push((table::expiry(grant.expires_at, &key), Vec::new()));
        changes.put.push((key, record::encode(grant)?));
        changes.put.extend(entries(grant).map(|entry| (entry, Vec::new())));
        changes.merge(more);
        self.commit(changes).await
    }

    /// Deletes a code that the gateway redeems for a session without tokens.
    ///
    /// Therefore two redemptions of a code cannot both succeed, and a replay finds no code.
    pub async fn use_code(&self, code: &Loaded<Code>) -> Result<Committed, StoreError> {
        let delete = vec![code.key().clone(), table::expiry(code.value.expires_at, code.key())];
        self.commit(Changes { expect: vec![code.unchanged()], put: Vec::new(), delete, ..Changes::default() }).await
    }

    /// Returns the grant with this ID.
    pub async fn grant(&self, id: GrantId) -> Result<Option<Loaded<Grant>>, StoreError> {
        self.load(table::grant(id)).await
    }

    /// Stores a new grant. Returns a conflict if there is a grant with the same id.
    pub async fn add_grant(&self, grant: &Grant) -> Result<Committed, StoreError> {
        let key = table::grant(grant.id);
        let mut changes = record::create(key.clone(), grant)?;
        changes.put.push((table::expiry(grant.expires_at, &key), Vec::new()));
        changes.put.extend(entries(grant).map(|entry| (entry, Vec::new())));
        self.commit(changes).await
    }

    /// Replaces a loaded grant.
    pub async fn update_grant(&self, loaded: &Loaded<Grant>, next: &Grant) -> Result<Committed, StoreError> {
        self.commit(record::replace(loaded, next)?).await
    }

    /// Ends a grant. Retries on conflicts. Returns whether the grant was active.
    pub async fn end_grant(&self, id: GrantId, why: EndReason, now: UnixTime) -> Result<bool, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.grant(id).await? else { return Ok(false) };
            if !loaded.value.is_active() {
                return Ok(false);
            }
            if self.update_grant(&loaded, &loaded.value.ended(now, why)).await? == Committed::Yes {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    /// Ends all grants of a user. Returns the number of grants that were active.
    ///
    /// # Errors
    /// Returns the store's error. Some grants may have ended. The call can be repeated.
    pub async fn end_grants_of_user(&self, user: Subject, why: EndReason, now: UnixTime) -> Result<usize, StoreError> {
        self.end_grants(&GrantFilter { subject: Some(user), ..GrantFilter::default() }, why, now).await
    }

    /// Ends all grants of a client. Returns the number of grants that were active.
    ///
    /// # Errors
    /// Returns the store's error. Some grants may have ended. The call can be repeated.
    pub async fn end_grants_of_client(
        &self,
        client: &ClientId,
        why: EndReason,
        now: UnixTime,
    ) -> Result<usize, StoreError> {
        self.end_grants(&GrantFilter { client: Some(client.clone()), ..GrantFilter::default() }, why, now).await
    }

    /// Deletes a user's consent to a client, and ends the grants of that user and client. Returns
    /// the number of grants that were active.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn withdraw_consent(&self, user: Subject, client: &ClientId, now: UnixTime) -> Result<usize, StoreError> {
        self.write(Changes { delete: vec![table::consent(user, client)], ..Changes::default() }).await?;
        let filter = GrantFilter { subject: Some(user), client: Some(client.clone()), session: None };
        self.end_grants(&filter, EndReason::ConsentWithdrawn, now).await
    }

    /// Ends all grants that match the filter. Returns the number of grants that were active.
    ///
    /// # Errors
    /// Returns the store's error. Some grants may have ended. The call can be repeated.
    pub async fn end_grants(&self, filter: &GrantFilter, why: EndReason, now: UnixTime) -> Result<usize, StoreError> {
        let (mut ended, mut after) = (0, None);
        loop {
            let page = self.grants(filter, after, PAGE).await?;
            for grant in &page.grants {
                ended += usize::from(self.end_grant(grant.id, why, now).await?);
            }
            after = page.next;
            if after.is_none() {
                return Ok(ended);
            }
        }
    }

    /// Reads `limit` grants after `after`, in the order of their ids. Returns the grants that are
    /// active and match the filter.
    pub async fn grants(
        &self,
        filter: &GrantFilter,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<GrantPage, StoreError> {
        let prefix = match (filter.subject, &filter.client) {
            (Some(subject), _) => table::of_user(subject, Indexed::Grant),
            (None, Some(client)) => table::of_client(client, Indexed::Grant),
            // There is no index by session. Every refresh would have to write it, and operators
            // rarely need it.
            (None, None) => table::all(Table::Grant),
        };
        let after = after.map(|id| table::entry(prefix.clone(), id.as_bytes()));
        let rows = self.engine.scan(&prefix, after.as_deref(), limit).await?;
        let ids: Vec<_> = rows.iter().filter_map(|(key, _)| table::entry_id(key)).map(GrantId::from_bytes).collect();
        let mut grants = Vec::new();
        for id in &ids {
            let grant = self.grant(*id).await?.map(|loaded| loaded.value);
            grants.extend(grant.filter(|grant| grant.is_active() && filter.matches(grant)));
        }
        Ok(GrantPage { grants, next: ids.last().copied().filter(|_| rows.len() == limit) })
    }

    /// Returns up to `limit` consents of a user to clients whose id is greater than `after`, in
    /// order.
    pub async fn consents_page(
        &self,
        user: Subject,
        after: Option<&ClientId>,
        limit: usize,
    ) -> Result<Vec<Consent>, StoreError> {
        let after = after.map(|client| table::consent(user, client));
        let page = self.page(&table::consents(user), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded: Loaded<Consent>| loaded.value).collect())
    }

    /// Returns a user's consent to a client.
    pub async fn consent(&self, user: Subject, client: &ClientId) -> Result<Option<Consent>, StoreError> {
        Ok(self.load(table::consent(user, client)).await?.map(|loaded| loaded.value))
    }

    /// Revokes a single access token until it expires.
    pub async fn revoke_token(&self, jti: &str, expires_at: UnixTime) -> Result<(), StoreError> {
        let key = table::revoked_token(jti);
        let put = vec![(table::expiry(expires_at, &key), Vec::new()), (key, record::encode(&expires_at)?)];
        self.write(Changes { put, ..Changes::default() }).await
    }

    /// Returns whether this access token was revoked individually.
    pub async fn is_token_revoked(&self, jti: &str) -> Result<bool, StoreError> {
        Ok(self.engine.get(&table::revoked_token(jti)).await?.is_some())
    }
}

/// Returns the index entries of a grant.
pub(crate) fn entries(grant: &Grant) -> impl Iterator<Item = Key> {
    let id = grant.id.as_bytes();
    [
        table::entry(table::of_user(grant.subject, Indexed::Grant), id),
        table::entry(table::of_client(&grant.client, Indexed::Grant), id),
    ]
    .into_iter()
}

impl Store {
    /// Replaces the report of a process. `is_listed` means that the expiry index already has an
    /// entry for the report.
    pub async fn report_answers(
        &self,
        process: ProcessId,
        report: &AnswerReport,
        is_listed: bool,
    ) -> Result<(), StoreError> {
        let key = table::answers(process);
        let mut put = vec![(key.clone(), record::encode(report)?)];
        if !is_listed {
            put.push((table::expiry(report.expires_at, &key), Vec::new()));
        }
        self.write(Changes { put, ..Changes::default() }).await
    }

    /// Returns the last report of a process.
    pub async fn answer_report(&self, process: ProcessId) -> Result<Option<AnswerReport>, StoreError> {
        Ok(self.load(table::answers(process)).await?.map(|loaded| loaded.value))
    }
}
