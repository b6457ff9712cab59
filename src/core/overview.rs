//! Figures for the console's overview, kept in memory.
//!
//! A request never counts records itself. If the figures are older than [`MAX_AGE`], the request
//! starts a task that renews them, and shows the previous ones. At most one task runs.
//!
//! Sign-ins are counted by hour, from the audit log. The first task reads the last 30 days, later
//! tasks read from the hour of the previous task on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::health::machine_warnings;
use crate::state::Sealgate;
use sealgate_config::StoreConfig;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::machine_warning::MachineWarning;
use sealgate_domain::time::UnixTime;
use sealgate_store::{ConsoleCounts, StoreError};

/// Number of days that the figures cover, including the current one.
pub const OVERVIEW_DAYS: u64 = 30;

/// Age at which the figures are renewed.
const MAX_AGE: Duration = Duration::from_mins(1);

/// Age at which the conditions of the machine are read again.
const MAX_MACHINE_AGE: Duration = Duration::from_mins(5);

/// Part of the time that the tasks may take: one in this number.
const TASK_SHARE: u32 = 20;

/// Maximum time that a request waits for the first figures.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of events that one read of the audit log returns.
const EVENTS_PER_READ: usize = 4096;

/// Pause between two reads of the audit log.
const READ_PAUSE: Duration = Duration::from_millis(5);

/// Time before the start of the previous task from which the next task reads. Records are written
/// up to two seconds after the event, and a commit may take longer.
const OVERLAP: Duration = Duration::from_mins(1);

/// Maximum number of files in the store's directory that are measured.
const MAX_FILES: usize = 10_000;

const HOUR_SECONDS: u64 = 3600;
const DAY_HOURS: u64 = 24;

/// Numbers of sign-ins in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignInCount {
    pub signed_in: u64,
    /// Wrong passwords and wrong second factors.
    pub failed: u64,
}

impl SignInCount {
    fn add(&mut self, other: Self) {
        self.signed_in = self.signed_in.saturating_add(other.signed_in);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// Figures of the overview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverviewFigures {
    /// Start of the task that counted them.
    pub at: UnixTime,
    pub counts: ConsoleCounts,
    /// Size of the store's directory in bytes. `None` with a database.
    pub store_bytes: Option<u64>,
    /// Conditions of the machine that need attention, and when they were read.
    pub machine: (UnixTime, Vec<MachineWarning>),
    /// Sign-ins by hours since 1970. Hours without sign-ins are absent.
    hours: BTreeMap<u64, SignInCount>,
}

impl OverviewFigures {
    /// Returns the sign-ins of the last 24 hours by hour, each with the start of the hour. The
    /// current hour is the last.
    pub fn by_hour(&self, now: UnixTime) -> Vec<(UnixTime, SignInCount)> {
        let last = now.seconds() / HOUR_SECONDS;
        let first = last.saturating_sub(DAY_HOURS - 1);
        let count = |hour| self.hours.get(&hour).copied().unwrap_or_default();
        (first..=last).map(|hour| (UnixTime::from_seconds(hour * HOUR_SECONDS), count(hour))).collect()
    }

    /// Returns the sign-ins of the last 30 days by day of UTC, each with the start of the day.
    /// Today is the last.
    pub fn by_day(&self, now: UnixTime) -> Vec<(UnixTime, SignInCount)> {
        let last = now.seconds() / HOUR_SECONDS / DAY_HOURS;
        let first = last.saturating_sub(OVERVIEW_DAYS - 1);
        let count = |day| {
            let mut sum = SignInCount::default();
            self.hours.range(day * DAY_HOURS..(day + 1) * DAY_HOURS).for_each(|(_, count)| sum.add(*count));
            sum
        };
        (first..=last).map(|day| (UnixTime::from_seconds(day * DAY_HOURS * HOUR_SECONDS), count(day))).collect()
    }
}

/// Figures of the overview, as last counted. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct OverviewCache(Arc<CacheState>);

#[derive(Debug)]
struct CacheState {
    figures: watch::Sender<Option<Arc<OverviewFigures>>>,
    /// Whether a task counts.
    is_counting: AtomicBool,
    /// End and duration of the last task.
    last_task: Mutex<Option<(Instant, Duration)>>,
}

impl Default for CacheState {
    fn default() -> Self {
        Self { figures: watch::Sender::new(None), is_counting: AtomicBool::new(false), last_task: Mutex::default() }
    }
}

impl OverviewCache {
    /// Returns the figures, and renews them if they are old. Only for requests of administrators.
    ///
    /// Returns `None` if the first figures are not ready within a second.
    pub async fn current(&self, sealgate: &Sealgate) -> Option<Arc<OverviewFigures>> {
        let known = self.0.figures.borrow().clone();
        let is_old = known.as_ref().is_none_or(|figures| figures.at.plus(MAX_AGE) <= sealgate.clock.now());
        if is_old && self.has_rested() && !self.0.is_counting.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().renew(sealgate.clone()));
        }
        if known.is_some() {
            return known;
        }
        let mut figures = self.0.figures.subscribe();
        let first = tokio::time::timeout(FIRST_TIMEOUT, figures.wait_for(Option::is_some)).await;
        first.ok()?.ok()?.clone()
    }

    /// Returns whether the last task ended long enough ago.
    fn has_rested(&self) -> bool {
        let last_task = self.0.last_task.lock().unwrap_or_else(PoisonError::into_inner);
        last_task.is_none_or(|(ended, took)| ended.elapsed() >= took.saturating_mul(TASK_SHARE))
    }

    async fn renew(self, sealgate: Sealgate) {
        sealgate.audit.store_pending(None).await;
        let started = Instant::now();
        let before = self.0.figures.borrow().clone();
        match count(&sealgate, before.as_deref()).await {
            Ok(figures) => {
                self.0.figures.send_replace(Some(Arc::new(figures)));
            }
            Err(error) => tracing::warn!(%error, "cannot count records for the console's overview"),
        }
        let last_task = Some((Instant::now(), started.elapsed()));
        *self.0.last_task.lock().unwrap_or_else(PoisonError::into_inner) = last_task;
        self.0.is_counting.store(false, Ordering::Release);
    }
}

async fn count(sealgate: &Sealgate, before: Option<&OverviewFigures>) -> Result<OverviewFigures, StoreError> {
    let at = sealgate.clock.now();
    // The session of the request that started this task may end.
    let store = sealgate.store.for_server();
    let oldest = (at.seconds() / HOUR_SECONDS).saturating_sub(OVERVIEW_DAYS * DAY_HOURS);
    let first = before.map_or(oldest, |before| before.at.minus(OVERLAP).seconds() / HOUR_SECONDS);
    let mut hours: BTreeMap<u64, SignInCount> = before.map(|before| before.hours.clone()).unwrap_or_default();
    hours.retain(|hour, _| (oldest..first).contains(hour));
    let filter = AuditFilter {
        kinds: vec![AuditKind::SignedIn, AuditKind::SignInFailed, AuditKind::FactorFailed],
        since: Some(UnixTime::from_seconds(first * HOUR_SECONDS)),
        ..AuditFilter::default()
    };
    let mut after = None;
    loop {
        let page = store.audit_page(&filter, after, EVENTS_PER_READ).await?;
        for record in page.records {
            let count = record.event.count;
            let added = match record.event.kind {
                AuditKind::SignedIn => SignInCount { signed_in: count, failed: 0 },
                _ => SignInCount { signed_in: 0, failed: count },
            };
            hours.entry(record.id.at().seconds() / HOUR_SECONDS).or_default().add(added);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
        tokio::time::sleep(READ_PAUSE).await;
    }
    let counts = store.console_counts().await?;
    let store_bytes = match &sealgate.config.store {
        StoreConfig::Sled(sled) => {
            let path = sled.path.clone();
            tokio::task::spawn_blocking(move || size_of(&path)).await.unwrap_or_default()
        }
        StoreConfig::Postgres(_) => None,
    };
    let machine = match before.map(|before| &before.machine) {
        Some(machine) if machine.0.plus(MAX_MACHINE_AGE) > at => machine.clone(),
        _ => {
            let config = sealgate.in_effect.load_full();
            (at, tokio::task::spawn_blocking(move || machine_warnings(&config, at)).await.unwrap_or_default())
        }
    };
    Ok(OverviewFigures { at, counts, store_bytes, machine, hours })
}

/// Returns the size of the files in a directory and in the directories below it. Blocking I/O.
fn size_of(directory: &Path) -> Option<u64> {
    let (mut folders, mut sum, mut files) = (vec![directory.to_owned()], 0_u64, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()?.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            files += 1;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                sum = sum.saturating_add(metadata.len());
            }
            if files >= MAX_FILES {
                return None;
            }
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_days_end_with_the_current_one() {
        let day = 20_000 * DAY_HOURS;
        let count = |signed_in, failed| SignInCount { signed_in, failed };
        let hours = BTreeMap::from([
            (day, count(1, 0)),
            (day + 5, count(2, 1)),
            (day - 1, count(4, 0)),
            (day - 29 * DAY_HOURS, count(8, 0)),
            (day - 29 * DAY_HOURS - 1, count(16, 0)),
        ]);
        let at = UnixTime::from_seconds((day + 5) * HOUR_SECONDS + 10);
        let machine = (at, Vec::new());
        let figures = OverviewFigures { at, counts: ConsoleCounts::default(), store_bytes: None, machine, hours };
        let (by_hour, by_day) = (figures.by_hour(at), figures.by_day(at));
        assert_eq!((by_hour.len(), by_day.len()), (24, 30));
        assert_eq!(by_hour[23], (UnixTime::from_seconds((day + 5) * HOUR_SECONDS), count(2, 1)));
        assert_eq!((by_hour[18].1, by_hour[17].1), (count(1, 0), count(4, 0)));
        assert_eq!((by_day[29].1, by_day[28].1, by_day[0].1), (count(3, 1), count(4, 0), count(8, 0)));
    }
}
