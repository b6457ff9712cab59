//! ./metrics.
