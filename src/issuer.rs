//! ./issuer.
