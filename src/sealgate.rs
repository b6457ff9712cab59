//! ./sealgate.
