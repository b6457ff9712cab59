//! Counts users by factor in the background, for metrics and the console's list of users.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::server::Stop;
use crate::app::task_lease;
use crate::app::task_lease::TaskLease;
use sealgate_core::state::Sealgate;
use sealgate_domain::factors::{FactorKind, Factors};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::{LeaseName, Store, StoreError, UserCounts};
use sealgate_system::metrics::EnrolmentShare;

/// Interval between two counts. A count reads all records.
const COUNT_INTERVAL: Duration = Duration::from_mins(5);

/// Number of records per read.
const RECORDS_PER_READ: usize = 256;
/// Pause between two reads, in which the store can do other work.
const READ_PAUSE: Duration = Duration::from_millis(20);

/// Runs until `stop`. The node that holds the lease counts users at startup and every few minutes.
/// In a cluster, every node reads the published counts.
pub async fn run(sealgate: Arc<Sealgate>, mut stop: Stop) {
    let mut counter = UserCounter { lease: TaskLease::new(&sealgate, LeaseName::UserCounts), sealgate, tried_at: None };
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            outcome = counter.update() => if let Err(error) = outcome {
                tracing::warn!(%error, "cannot count users and their factors");
                counter.tried_at = Some(Instant::now());
            },
        }
        tokio::select! {
            _ = stop.changed() => break,
            () = tokio::time::sleep(task_lease::CHECK_INTERVAL) => {}
        }
    }
    counter.lease.release().await;
}

struct UserCounter {
    sealgate: Arc<Sealgate>,
    lease: TaskLease,
    /// Time at which this node last tried to count.
    tried_at: Option<Instant>,
}

impl UserCounter {
    async fn update(&mut self) -> Result<(), StoreError> {
        let is_cluster = self.sealgate.store.is_shared();
        if is_cluster {
            self.apply_published().await?;
        }
        let is_held = self.lease.acquire_or_renew().await.is_some();
        if !is_held
            || self.tried_at.is_some_and(|last| last.elapsed() < COUNT_INTERVAL)
            || self.was_counted_by_another()
        {
            return Ok(());
        }
        self.tried_at = Some(Instant::now());
        let Some(enrolment) = count(&self.sealgate.store, &mut self.lease).await? else { return Ok(()) };
        let now = self.sealgate.clock.now();
        if !is_cluster {
            self.publish(enrolment, now);
        } else if let Some(fence) = self.lease.acquire_or_renew().await {
            let EnrolmentShare { none, totp, security_key, passkey, reset } = enrolment;
            let published = UserCounts { none, totp, security_key, passkey, reset, at: now };
            self.sealgate.store.publish_user_counts(&fence, &published).await?;
        }
        Ok(())
    }

    /// Returns whether another node has counted recently.
    fn was_counted_by_another(&self) -> bool {
        let now = self.sealgate.clock.now();
        let last = self.sealgate.enrolment.last();
        self.sealgate.store.is_shared() && last.is_some_and(|(_, at)| now.since(at) < COUNT_INTERVAL)
    }

    /// Applies the count that another node has published.
    async fn apply_published(&self) -> Result<(), StoreError> {
        let Some(published) = self.sealgate.store.user_counts().await? else { return Ok(()) };
        let UserCounts { none, totp, security_key, passkey, reset, at } = published;
        if self.sealgate.enrolment.last().is_none_or(|(_, known)| known != at) {
            self.publish(EnrolmentShare { none, totp, security_key, passkey, reset }, at);
        }
        Ok(())
    }

    fn publish(&self, enrolment: EnrolmentShare, at: UnixTime) {
        self.sealgate.metrics.enrolled(&enrolment);
        self.sealgate.enrolment.set(enrolment, at);
    }
}

/// Counts the users who can sign in, by their strongest factor.
///
/// Excludes disabled users and users with a pending invitation. Users and factors are merged in
/// order of `sub`. Returns `None` if another node holds the lease.
async fn count(store: &Store, lease: &mut TaskLease) -> Result<Option<EnrolmentShare>, StoreError> {
    let mut enrolment = EnrolmentShare::default();
    let mut factors = FactorCursor { store, after: None, batch: VecDeque::new(), is_ended: false };
    let mut after = None;
    loop {
        let users = store.users(after, RECORDS_PER_READ).await?;
        let Some(last) = users.last() else { return Ok(Some(enrolment)) };
        after = Some(last.sub);
        for user in &users {
            let factors = factors.find(user.sub).await?;
            let has_key = factors.as_ref().is_some_and(|factors| !factors.keys.is_empty());
            if user.is_enabled() && (user.has_password() || has_key) {
                add_user(&mut enrolment, factors.as_ref());
            }
        }
        tokio::time::sleep(READ_PAUSE).await;
        if lease.acquire_or_renew().await.is_none() {
            return Ok(None);
        }
    }
}

fn add_user(enrolment: &mut EnrolmentShare, factors: Option<&Factors>) {
    let place = match factors.and_then(Factors::strongest) {
        Some(FactorKind::Passkey) => &mut enrolment.passkey,
        Some(FactorKind::SecurityKey) => &mut enrolment.security_key,
        Some(FactorKind::Totp) => &mut enrolment.totp,
        None | Some(FactorKind::RecoveryCodes) => &mut enrolment.none,
    };
    *place += 1;
    enrolment.reset += u64::from(factors.is_some_and(|factors| factors.reset.is_some()));
}

/// Reads factors in order of their users.
struct FactorCursor<'a> {
    store: &'a Store,
    after: Option<Subject>,
    batch: VecDeque<Factors>,
    is_ended: bool,
}

impl FactorCursor<'_> {
    /// Returns the factors of this user. Each call must have a greater `subject` than the previous
    /// call.
    async fn find(&mut self, subject: Subject) -> Result<Option<Factors>, StoreError> {
        loop {
            match self.batch.front() {
                Some(front) if front.subject < subject => drop(self.batch.pop_front()),
                Some(front) if front.subject == subject => return Ok(self.batch.pop_front()),
                Some(_) => return Ok(None),
                None if self.is_ended => return Ok(None),
                None => {
                    self.batch = self.store.all_factors(self.after, RECORDS_PER_READ).await?.into();
                    self.is_ended = self.batch.is_empty();
                    self.after = self.batch.back().map(|last| last.subject).or(self.after);
                }
            }
        }
    }
}
