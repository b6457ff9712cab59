//! Operations on domain objects, by subject.

pub(crate) mod account_links;
pub(crate) mod api_tokens;
pub(crate) mod app_credentials;
pub(crate) mod app_passwords;
pub(crate) mod audit;
pub(crate) mod client_assertions;
pub(crate) mod client_logouts;
pub(crate) mod console_counts;
pub(crate) mod definitions;
pub(crate) mod factors;
pub(crate) mod forms;
pub(crate) mod grants;
pub(crate) mod interactions;
pub(crate) mod keys;
pub(crate) mod notices;
pub(crate) mod outbox;
pub(crate) mod pending_registrations;
pub(crate) mod registrations;
pub(crate) mod registry;
pub(crate) mod revocations;
pub(crate) mod sessions;
pub(crate) mod sources;
pub(crate) mod submissions;
pub(crate) mod upstream_sign_ins;
pub(crate) mod user_rows;
