//! The program put together: what every request shares (`state`), what answers for which host (`site`), the start, the
//! server, reloads, and the work beside requests.

pub mod expiry;
pub mod lateness;
pub mod memory;
pub mod reload;
pub mod rotation;
pub mod sealing;
pub mod server;
pub mod site;
pub mod start;
pub mod state;
pub mod status;
