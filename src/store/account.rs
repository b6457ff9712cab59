//! Ending every session of a person but the one in hand.

use crate::protocol::session::SessionId;
use crate::protocol::user::Subject;
use crate::store::{PAGE, Store, StoreError};

impl Store {
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
