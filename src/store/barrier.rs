//! barrier.
