//! The store: domain operations, each atomic and durable when it returns, written once over a small engine.

pub mod engine;
pub mod memory;
pub mod sled;
