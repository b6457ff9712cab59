//! Checks of an application's `health_check`.

use http::uri::PathAndQuery;

use super::address::HOUR;
use crate::HealthCheck;
use crate::file::Section;

const TABLE: &str = "write, for example, { path = \"/health\" }";
const PATH: &str = "write the path of the check, such as \"/health\"";

/// Parses `health_check` of an application.
///
/// The outer `None` means that the table has an error.
#[expect(clippy::option_option, reason = "the table is optional, and may have errors")]
pub(super) fn health_check(app: &mut Section<'_, '_>) -> Option<Option<HealthCheck>> {
    let Some(mut section) = app.optional_section("health_check", TABLE) else { return Some(None) };
    let path = section.required_text("path", PATH, path);
    let status = section.optional_number("status", 200..=599);
    let interval = section.seconds("interval_seconds", 5, 1..=HOUR);
    let timeout = section.seconds("timeout_seconds", 2, 1..=60);
    let failures = section.number("failures", 3, 1..=100);
    let successes = section.number("successes", 2, 1..=100);
    Some(Some(HealthCheck { path: path?, status, interval, timeout, failures, successes }))
}

/// Parses a path, which may have a query.
fn path(text: &str) -> Result<String, String> {
    let is_valid = text.starts_with('/')
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'\\'))
        && PathAndQuery::try_from(text).is_ok_and(|target| target.as_str() == text);
    if is_valid { Ok(text.to_owned()) } else { Err(format!("{text:?} is not a path; {PATH}")) }
}
