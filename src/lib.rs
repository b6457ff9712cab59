//! Assembly of the `sealgate` program: start, server, background work and the command line.
//!
//! The parts are crates in `src/`; docs/explanation/architecture.md describes them and their order.

pub mod app;
mod cli;

pub use app::memory::Allocator;
pub use cli::main;
