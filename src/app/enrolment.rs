//! Counts who has which factor, beside requests: for the metrics, and for the list of people in the console.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::app::server::Stop;
use crate::app::state::Sealgate;
use crate::domain::user::Subject;
use crate::factors::Factors;
use crate::metrics::EnrolmentShare;
use crate::store::{Store, StoreError};

/// How often people are counted: all records are read for that.
const EVERY: Duration = Duration::from_mins(5);

/// Records that are read at a time, and the rest after them, so that others have the store in between.
const PAGE: usize = 256;
const REST: Duration = Duration::from_millis(20);

/// Counts at once and every few minutes, until told to stop.
pub(crate) async fn keep(sealgate: Arc<Sealgate>, mut stop: Stop) {
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            counted = count(&sealgate.store) => match counted {
                Ok(enrolment) => {
                    sealgate.metrics.enrolled(&enrolment);
                    sealgate.enrolment.tell(enrolment, sealgate.clock.now());
                }
                Err(error) => tracing::warn!(%error, "people and their factors could not be counted"),
            },
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// People who can sign in by the strongest factor that they have: not those who are disabled or have not accepted their
/// invitation. People and factors are read side by side, both by `sub`.
async fn count(store: &Store) -> Result<EnrolmentShare, StoreError> {
    let mut enrolment = EnrolmentShare::default();
    let mut factors = FactorCursor { store, after: None, read: VecDeque::new(), ended: false };
    let mut after = None;
    loop {
        let users = store.users(after, PAGE).await?;
        let Some(last) = users.last() else { return Ok(enrolment) };
        after = Some(last.sub);
        for user in &users {
            let factors = factors.of(user.sub).await?;
            let has_key = factors.as_ref().is_some_and(|factors| !factors.keys.is_empty());
            if user.is_enabled() && (user.password.is_some() || has_key) {
                add(&mut enrolment, factors.as_ref());
            }
        }
        tokio::time::sleep(REST).await;
    }
}

fn add(enrolment: &mut EnrolmentShare, factors: Option<&Factors>) {
    let place = match factors {
        Some(factors) if factors.has_passkey() => &mut enrolment.passkey,
        Some(factors) if !factors.keys.is_empty() => &mut enrolment.security_key,
        Some(factors) if !factors.totp.is_empty() => &mut enrolment.totp,
        _ => &mut enrolment.none,
    };
    *place += 1;
    enrolment.reset += u64::from(factors.is_some_and(|factors| factors.reset.is_some()));
}

/// Reads factors in the order of their owners.
struct FactorCursor<'a> {
    store: &'a Store,
    after: Option<Subject>,
    read: VecDeque<Factors>,
    ended: bool,
}

impl FactorCursor<'_> {
    /// Those of this person, who comes after everybody that was asked for before.
    async fn of(&mut self, subject: Subject) -> Result<Option<Factors>, StoreError> {
        loop {
            match self.read.front() {
                Some(front) if front.subject < subject => drop(self.read.pop_front()),
                Some(front) if front.subject == subject => return Ok(self.read.pop_front()),
                Some(_) => return Ok(None),
                None if self.ended => return Ok(None),
                None => {
                    self.read = self.store.all_factors(self.after, PAGE).await?.into();
                    self.ended = self.read.is_empty();
                    self.after = self.read.back().map(|last| last.subject).or(self.after);
                }
            }
        }
    }
}
