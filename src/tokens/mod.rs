//! Tokens: made (`issuer`), taken back (`bearer`), those of other issuers (`trusted`), and the clients that have them (`clients`).

pub mod bearer;
pub mod clients;
pub mod issuer;
pub mod trusted;
