//! Tokens: issue (`issuer`), verify (`bearer`), those of other issuers (`trusted`), and the clients
//! that hold them (`clients`).

pub(crate) mod bearer;
pub(crate) mod clients;
pub(crate) mod issuer;
pub(crate) mod trusted;
