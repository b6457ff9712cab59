//! What a person sees of what hangs on them: consents and grants; and ending every session but the one in hand.

use crate::protocol::consent::Consent;
use crate::protocol::grant::{Grant, GrantId};
use crate::protocol::session::SessionId;
use crate::protocol::user::Subject;
use crate::store::table::{self, Indexed, Loaded};
use crate::store::{PAGE, Store, StoreError};

impl Store {
    /// What a person has allowed clients, in the order of the clients' ids; the first few hundred.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn consents_of_user(&self, user: Subject) -> Result<Vec<Consent>, StoreError> {
        let page: Vec<Loaded<Consent>> = self.page(&table::consents(user), None, PAGE).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// A person's grants, active or not; the first few hundred.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grants_of_user(&self, user: Subject) -> Result<Vec<Grant>, StoreError> {
        let rows = self.engine.scan(&table::of_user(user, Indexed::Grant), None, PAGE).await?;
        let mut grants = Vec::with_capacity(rows.len());
        for id in rows.iter().filter_map(|(entry, _)| table::entry_id(entry)).map(GrantId::from_bytes) {
            grants.extend(self.grant(id).await?.map(|loaded| loaded.value));
        }
        Ok(grants)
    }

    /// Ends every session in which this person is signed in, but for `kept`. Yields how many.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn end_other_sessions_of_user(&self, user: Subject, kept: SessionId) -> Result<usize, StoreError> {
        let (mut ended, mut after) = (0, None);
        loop {
            let page = self.sessions_of_user(user, after, PAGE).await?;
            for session in page.sessions.iter().filter(|session| session.id != kept) {
                ended += usize::from(self.end_session(session.id).await?);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(ended),
            }
        }
    }
}
