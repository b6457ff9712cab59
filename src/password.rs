//! ./password.
