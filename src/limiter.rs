//! ./limiter.
