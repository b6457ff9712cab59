//! `maintenance` of an application: its requests are answered with a page instead of being
//! forwarded.

use super::{Config, ConfigFault};
use sealgate_domain::time::UnixTime;

/// `maintenance` of an application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Text for users, one line.
    pub message: Option<String>,
    /// Expected end. Maintenance does not end by itself at this time.
    pub until: Option<UnixTime>,
    /// Groups whose members can use the application. If empty, no user can.
    pub groups: Vec<String>,
}

impl Maintenance {
    /// Seconds after which a client may try again, if the end is unknown or has passed.
    const RETRY_SECONDS: u64 = 300;

    /// Returns the expected end, if it is in the future.
    pub fn expected_end(&self, now: UnixTime) -> Option<UnixTime> {
        self.until.filter(|until| *until > now)
    }

    /// Returns the number of seconds after which a client may try again.
    pub fn retry_seconds(&self, now: UnixTime) -> u64 {
        self.expected_end(now).map_or(Self::RETRY_SECONDS, |until| until.seconds() - now.seconds())
    }
}

impl Config {
    /// Returns warnings about applications whose maintenance should have ended.
    pub fn overdue_maintenance(&self, now: UnixTime) -> Vec<ConfigFault> {
        let overdue = self.apps.iter().enumerate().filter_map(|(index, app)| {
            app.maintenance.as_ref()?.until.filter(|until| *until <= now)?;
            let problem = format!(
                "has passed, but {} stays in maintenance; write a later time, or remove maintenance and reload",
                app.name
            );
            Some(ConfigFault::new(format!("app[{index}].maintenance.until"), None, problem))
        });
        overdue.collect()
    }
}
