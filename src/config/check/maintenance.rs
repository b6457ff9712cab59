//! Checks of an application's `maintenance`.

use chrono::DateTime;

use super::address;
use crate::Maintenance;
use crate::file::Section;
use sealgate_domain::profile::is_line;
use sealgate_domain::time::UnixTime;

const TABLE: &str = "write, for example, { message = \"The database is moved.\" }, or {} without a message";
const MESSAGE: &str = "write a message to users in one line";
const UNTIL: &str = "write a time such as \"2027-01-31T06:00:00Z\"";

/// Maximum length of the message in characters.
const MAX_MESSAGE_LENGTH: usize = 300;

/// Parses `maintenance` of an application.
pub(super) fn maintenance(app: &mut Section<'_, '_>) -> Option<Maintenance> {
    let mut section = app.optional_section("maintenance", TABLE)?;
    let message = section.text("message", MESSAGE, |text| {
        let problem = || format!("{text:?} is not one line of 1 to {MAX_MESSAGE_LENGTH} visible characters");
        is_line(text, MAX_MESSAGE_LENGTH).then(|| text.to_owned()).ok_or_else(problem)
    });
    let until = section.text("until", UNTIL, time);
    let groups = section.texts("groups", "write a list of group names", address::name).unwrap_or_default();
    Some(Maintenance { message, until, groups })
}

/// Parses a time with an offset from UTC (RFC 3339).
fn time(text: &str) -> Result<UnixTime, String> {
    let seconds = DateTime::parse_from_rfc3339(text).ok().and_then(|at| u64::try_from(at.timestamp()).ok());
    seconds.map(UnixTime::from_seconds).ok_or_else(|| format!("{text:?} is not a time since 1970; {UNTIL}"))
}
