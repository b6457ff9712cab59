//! Tokens: issue (`issuer`), verify (`bearer`), those of other issuers (`trusted`), and the clients
//! that hold them (`clients`).

pub mod bearer;
pub mod clients;
pub mod issuer;
pub mod trusted;
