//! Assembly of the program: shared capabilities (`state`), request handling by host (`site`), the
//! start, the server, reloads, and background work.

pub(crate) mod address_lookup;
pub(crate) mod answers;
pub(crate) mod counting;
pub(crate) mod duty;
pub(crate) mod endorsing;
pub(crate) mod enrolment;
pub(crate) mod expiry;
pub(crate) mod memory;
pub(crate) mod not_serving;
pub(crate) mod notices;
pub(crate) mod outbox;
pub(crate) mod reload;
pub(crate) mod relying_party;
pub(crate) mod reset_lookup;
pub(crate) mod rotation;
pub(crate) mod sealing;
pub(crate) mod server;
pub(crate) mod site;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod sweeping;
