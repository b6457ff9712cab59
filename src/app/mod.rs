//! Assembly of the program: request handling by host (`site`), the start, the server, reloads, and
//! background work.

pub(crate) mod certificates;
pub mod client_logouts;
pub(crate) mod counting;
pub(crate) mod defined_clients;
pub(crate) mod directories;
pub mod enrolment;
pub mod mail_lookup;
pub(crate) mod memory;
pub mod notices;
pub mod outbox;
pub(crate) mod reload;
pub(crate) mod relying_party;
pub mod rotation;
pub mod sealing;
pub mod server;
mod shared_origin;
pub mod site;
pub(crate) mod start;
pub(crate) mod sweeping;
pub(crate) mod task_lease;
pub(crate) mod traces;
pub(crate) mod upstreams;
