//! Codes, grants and revoked access tokens.

use crate::protocol::client::ClientId;
use crate::protocol::code::{Code, CodeState};
use crate::protocol::consent::Consent;
use crate::protocol::grant::{EndReason, Grant, GrantId};
use crate::protocol::secret::SecretHash;
use crate::protocol::time::UnixTime;
use crate::protocol::user::Subject;
use crate::store::engine::{Changes, Expect, Key};
use crate::store::table::{self, Indexed, Loaded};
use crate::store::{Committed, MOST_CONFLICTS, PAGE, Store, StoreError};

impl Store {
    /// Keeps a new code under its hash, and the consent that came with it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn issue_code(
        &self,
        hash: &SecretHash,
        code: &Code,
        consent: Option<&Consent>,
    ) -> Result<(), StoreError> {
        let key = table::code(hash);
        let mut changes = table::create(key.clone(), code)?;
        changes.put.push((table::expiry(code.expires_at, &key), Vec::new()));
        if let Some(consent) = consent {
            changes.put.push((table::consent(consent.subject, &consent.client), table::encode(consent)?));
        }
        self.write(changes).await
    }

    /// The code with this hash.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn code(&self, hash: &SecretHash) -> Result<Option<Loaded<Code>>, StoreError> {
        self.load(table::code(hash)).await
    }

    /// Uses up a code and keeps the grant that it gave, in one step: two redemptions of one code cannot both succeed.
    /// The code stays until it would have expired, so that a replay is seen.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn redeem_code(&self, code: &Loaded<Code>, grant: &Grant) -> Result<Committed, StoreError> {
        let used = Code { state: CodeState::Redeemed { grant: grant.id }, ..code.value.clone() };
        let mut changes = table::replace(code, &used)?;
        let key = table::grant(grant.id);
        changes.expect.push(Expect::Absent(key.clone()));
        changes.put.push((table::expiry(grant.expires_at, &key), Vec::new()));
        changes.put.push((key, table::encode(grant)?));
        changes.put.extend(entries(grant).map(|entry| (entry, Vec::new())));
        self.commit(changes).await
    }

    /// Uses up a code that gives a session here and no tokens: it is gone, so that two redemptions cannot both succeed and
    /// a replay finds nothing.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn use_code(&self, code: &Loaded<Code>) -> Result<Committed, StoreError> {
        let changes = Changes { expect: vec![code.unchanged()], put: Vec::new(), delete: vec![code.key().clone()] };
        self.commit(changes).await
    }

    /// The grant with this id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grant(&self, id: GrantId) -> Result<Option<Loaded<Grant>>, StoreError> {
        self.load(table::grant(id)).await
    }

    /// Puts the next state of a grant in the place of the loaded one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn update_grant(&self, loaded: &Loaded<Grant>, next: &Grant) -> Result<Committed, StoreError> {
        let committed = self.commit(table::replace(loaded, next)?).await?;
        if committed == Committed::Yes && !next.is_active() {
            self.access_changed();
        }
        Ok(committed)
    }

    /// Ends a grant, whatever races with it. Yields whether it was active.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn end_grant(&self, id: GrantId, why: EndReason, now: UnixTime) -> Result<bool, StoreError> {
        for _ in 0..MOST_CONFLICTS {
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

    /// Ends every grant of a person. Yields how many were active.
    ///
    /// # Errors
    /// When the store fails; what was ended stays ended, and the call can be repeated.
    pub async fn end_grants_of_user(&self, user: Subject, why: EndReason, now: UnixTime) -> Result<usize, StoreError> {
        self.end_listed(table::of_user(user, Indexed::Grant), |_| true, why, now).await
    }

    /// Ends every grant of a client. Yields how many were active.
    ///
    /// # Errors
    /// When the store fails; what was ended stays ended, and the call can be repeated.
    pub async fn end_grants_of_client(
        &self,
        client: &ClientId,
        why: EndReason,
        now: UnixTime,
    ) -> Result<usize, StoreError> {
        self.end_listed(table::of_client(client, Indexed::Grant), |_| true, why, now).await
    }

    /// Forgets a consent and ends the grants that it had given.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn withdraw_consent(&self, user: Subject, client: &ClientId, now: UnixTime) -> Result<usize, StoreError> {
        self.write(Changes { delete: vec![table::consent(user, client)], ..Changes::default() }).await?;
        let listed = table::of_user(user, Indexed::Grant);
        self.end_listed(listed, |grant| grant.client == *client, EndReason::ConsentWithdrawn, now).await
    }

    async fn end_listed(
        &self,
        prefix: Key,
        wanted: impl Fn(&Grant) -> bool + Send,
        why: EndReason,
        now: UnixTime,
    ) -> Result<usize, StoreError> {
        let (mut ended, mut after) = (0, None::<Key>);
        loop {
            let rows = self.engine.scan(&prefix, after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(ended) };
            after = Some(last.clone());
            for (entry, _) in &rows {
                let Some(id) = table::entry_id(entry).map(GrantId::from_bytes) else { continue };
                let Some(grant) = self.grant(id).await? else { continue };
                if wanted(&grant.value) && self.end_grant(id, why, now).await? {
                    ended += 1;
                }
            }
        }
    }

    /// What a person has allowed a client before.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn consent(&self, user: Subject, client: &ClientId) -> Result<Option<Consent>, StoreError> {
        Ok(self.load(table::consent(user, client)).await?.map(|loaded| loaded.value))
    }

    /// Makes one access token useless until it would have expired.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn revoke_token(&self, jti: &str, expires_at: UnixTime) -> Result<(), StoreError> {
        let key = table::revoked_token(jti);
        let put = vec![(table::expiry(expires_at, &key), Vec::new()), (key, table::encode(&expires_at)?)];
        self.write(Changes { put, ..Changes::default() }).await?;
        self.access_changed();
        Ok(())
    }

    /// Whether an access token was revoked by itself.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_token_revoked(&self, jti: &str) -> Result<bool, StoreError> {
        Ok(self.engine.get(&table::revoked_token(jti)).await?.is_some())
    }
}

/// The index entries of a grant.
pub(super) fn entries(grant: &Grant) -> impl Iterator<Item = Key> {
    let id = grant.id.as_bytes();
    [
        table::entry(table::of_user(grant.subject, Indexed::Grant), id),
        table::entry(table::of_client(&grant.client, Indexed::Grant), id),
    ]
    .into_iter()
}
