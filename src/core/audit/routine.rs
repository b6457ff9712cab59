//! Counts refreshes, so that a grant causes one audit record per hour.
//!
//! The first refresh of a grant from an address is recorded at once. Later refreshes within the
//! hour are counted, and one record at the end of the hour has their number. A record for each
//! refresh would take four entries in the store, more than the refresh itself.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::GrantId;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Period for which refreshes are counted together.
const COUNTING_PERIOD: Duration = Duration::from_hours(1);
/// Maximum number of counted pairs of grant and address, about 200 bytes each. When the maximum is
/// reached, each refresh of another pair has its own record.
const MAX_COUNTED: usize = 32_768;
/// Maximum number of records that one call returns.
const MAX_AT_ONCE: usize = 1024;

/// Grant and address. Refreshes with the same key are counted together.
type Key = (GrantId, Option<IpAddr>);

/// Counts of refreshes in the current period of each key.
#[derive(Debug, Default)]
pub(super) struct Routine {
    counted: HashMap<Key, Counted>,
    /// Start of each key's period, the earliest first.
    since: VecDeque<(UnixTime, Key)>,
}

#[derive(Debug)]
struct Counted {
    subject: Option<Subject>,
    client: Option<ClientId>,
    session: Option<SessionId>,
    /// Time of the first refresh since the last record.
    first: UnixTime,
    count: u64,
}

impl Routine {
    /// Counts the event. Returns false if the event needs its own record.
    pub(super) fn count(&mut self, event: &AuditEvent) -> bool {
        let Some(grant) = event.grant.filter(|_| event.kind == AuditKind::TokensRefreshed && event.detail.is_none())
        else {
            return false;
        };
        let (key, room) = ((grant, event.address), self.counted.len() < MAX_COUNTED);
        match self.counted.entry(key) {
            Entry::Occupied(mut counted) => {
                let counted = counted.get_mut();
                if counted.count == 0 {
                    counted.first = event.at;
                }
                counted.count += event.count;
                true
            }
            Entry::Vacant(vacant) => {
                if room {
                    let (subject, client, session) = (event.subject, event.client.clone(), event.session);
                    vacant.insert(Counted { subject, client, session, first: event.at, count: 0 });
                    self.since.push_back((event.at, key));
                }
                false
            }
        }
    }

    /// Returns the records of periods that have ended, and starts the next periods.
    ///
    /// Removes keys without a refresh in the period.
    pub(super) fn over(&mut self, now: UnixTime) -> Vec<AuditEvent> {
        let mut records = Vec::new();
        while records.len() < MAX_AT_ONCE
            && let Some((_, key)) = self.since.pop_front_if(|(since, _)| now.since(*since) >= COUNTING_PERIOD)
        {
            match self.counted.get_mut(&key).and_then(|counted| counted.take(key)) {
                Some(record) => {
                    records.push(record);
                    self.since.push_back((now, key));
                }
                None => {
                    self.counted.remove(&key);
                }
            }
        }
        records
    }

    /// Returns the records of all counted refreshes, at shutdown.
    pub(super) fn all(&mut self) -> Vec<AuditEvent> {
        self.since.clear();
        self.counted.drain().filter_map(|(key, mut counted)| counted.take(key)).collect()
    }
}

impl Counted {
    /// Returns the record of the counted refreshes and resets the count. Returns `None` if the
    /// count is zero.
    fn take(&mut self, (grant, address): Key) -> Option<AuditEvent> {
        let count = std::mem::take(&mut self.count);
        let event = AuditEvent::new(self.first, AuditKind::TokensRefreshed, Actor::Client).with_grant(grant);
        let (subject, client, session) = (self.subject, self.client.clone(), self.session);
        (count > 0).then_some(AuditEvent { subject, client, session, address, count, ..event })
    }
}
