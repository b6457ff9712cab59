//! Tokens of this server, which `issuer` creates and `bearer` verifies, tokens of other issuers
//! (`trusted`), and the clients that hold tokens (`clients`).

pub mod bearer;
pub mod clients;
pub mod issuer;
pub mod trusted;
