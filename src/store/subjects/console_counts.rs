//! Counts for the console's overview, which read whole tables, so requests must not make them; and
//! the sessions at an application, which a request reads in parts.

use std::collections::BTreeMap;

use crate::format::record;
use crate::format::table::{self, Table};
use crate::{Loaded, Store, StoreError};
use sealgate_domain::client::Client;
use sealgate_domain::session::{AppSession, SessionId};
use sealgate_domain::time::UnixTime;

/// Number of records per read.
const PAGE: usize = 256;

/// Maximum number of application sessions, and of clients, that are read.
const MAX_READ: usize = 100_000;

/// Maximum number of application sessions that one request reads.
const MAX_READ_PER_REQUEST: usize = 5000;

/// Sessions at an application, and the position after which to continue.
pub type SessionsAtApp = (Vec<AppSession>, Option<SessionId>);

/// Numbers of records, for the console's overview.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsoleCounts {
    pub users: usize,
    /// Sessions of browsers.
    pub sessions: usize,
    /// Sessions at applications, by the application's name.
    pub app_sessions: BTreeMap<String, u64>,
    pub clients: usize,
    /// Clients that wait for an administrator's approval.
    pub unapproved: usize,
    pub mails_waiting: usize,
    pub mails_undeliverable: usize,
}

impl Store {
    /// Counts records for the console's overview.
    ///
    /// Sessions that have expired are counted until they are deleted.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn console_counts(&self) -> Result<ConsoleCounts, StoreError> {
        let mut counts = ConsoleCounts {
            users: self.count(Table::User).await?,
            sessions: self.count(Table::Session).await?,
            mails_waiting: self.count(Table::Outbox).await?,
            mails_undeliverable: self.count(Table::DeadMail).await?,
            ..ConsoleCounts::default()
        };
        self.each(Table::AppSession, |session: AppSession| {
            *counts.app_sessions.entry(session.app).or_default() += 1;
        })
        .await?;
        self.each(Table::Client, |client: Client| {
            counts.clients += 1;
            counts.unapproved += usize::from(client.is_enabled() && !client.is_vouched_for());
        })
        .await?;
        Ok(counts)
    }

    /// Returns up to `limit` valid sessions at an application, with ids greater than `after`. The second
    /// part is the id after which to continue, if there may be more.
    ///
    /// Reads at most [`MAX_READ_PER_REQUEST`] sessions, so that the result may be short although there are
    /// more.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn sessions_at_app(
        &self,
        app: &str,
        after: Option<SessionId>,
        limit: usize,
        now: UnixTime,
    ) -> Result<SessionsAtApp, StoreError> {
        let (mut found, mut count, mut last) = (Vec::new(), 0, None);
        let mut after = after.map(table::app_session);
        while count < MAX_READ_PER_REQUEST {
            let rows = self.engine.scan(&table::all(Table::AppSession), after.as_deref(), PAGE).await?;
            let is_last = rows.len() < PAGE;
            count += rows.len();
            for (key, bytes) in rows {
                after = Some(key.clone());
                let Ok(loaded) = record::decode::<AppSession>(&key, bytes) else { continue };
                let session = loaded.value;
                last = Some(session.id);
                if session.app == app && now < session.expires_at {
                    found.push(session);
                    if found.len() == limit {
                        return Ok((found, last));
                    }
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, last))
    }

    /// Calls a function for each readable record of a table, up to [`MAX_READ`].
    async fn each<T: serde::de::DeserializeOwned + Send>(
        &self,
        table: Table,
        mut visit: impl FnMut(T) + Send,
    ) -> Result<(), StoreError> {
        let (mut after, mut count) = (None, 0);
        while count < MAX_READ {
            let rows = self.engine.scan(&table::all(table), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.clone());
            count += rows.len();
            for (key, bytes) in rows {
                if let Ok(loaded) = record::decode::<T>(&key, bytes) {
                    let loaded: Loaded<T> = loaded;
                    visit(loaded.value);
                }
            }
        }
        Ok(())
    }
}
