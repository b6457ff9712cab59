//! Checks of the limits of applications and routes.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::RouteLimits;
use crate::file::Section;

/// Allowed values of `max_body_bytes`, up to 1 TiB. Zero is not allowed, because it means "no limit"
/// to some servers.
const BODY_BYTES: RangeInclusive<u64> = 1..=1 << 40;
/// Allowed values of the timeouts of an upstream, in seconds.
const TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=86_400;

/// Reads the maximum length of a request's body, of an application or of a route.
pub(super) fn max_body_bytes(section: &mut Section<'_, '_>) -> Option<u64> {
    section.optional_bytes("max_body_bytes", BODY_BYTES)
}

/// Reads the timeouts of an application for a silent upstream: for ordinary responses, and for
/// `WebSocket`s and event streams.
pub(super) fn app_timeouts(section: &mut Section<'_, '_>) -> (Duration, Duration) {
    (
        section.seconds("read_timeout_seconds", 60, TIMEOUT_SECONDS),
        section.seconds("stream_timeout_seconds", 3600, TIMEOUT_SECONDS),
    )
}

/// Reads the limits of a route. `of_app` is the application's maximum length of a body.
pub(super) fn route_limits(section: &mut Section<'_, '_>, of_app: Option<u64>) -> RouteLimits {
    RouteLimits {
        max_body_bytes: max_body_bytes(section).or(of_app),
        read_timeout: section.optional_seconds("read_timeout_seconds", TIMEOUT_SECONDS),
        stream_timeout: section.optional_seconds("stream_timeout_seconds", TIMEOUT_SECONDS),
    }
}
