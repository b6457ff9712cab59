//! Tokens: made (`issuer`), taken back (`bearer`), those of other issuers (`trusted`), and the clients that have them (`clients`).

pub(crate) mod bearer;
pub(crate) mod clients;
pub(crate) mod issuer;
pub(crate) mod trusted;
