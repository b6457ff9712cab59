//! ./server.
