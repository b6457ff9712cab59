//! Tokens of this issuer (`issuer` creates them, `bearer` verifies them), tokens of other issuers
//! (`trusted`), and the clients (`clients`).

pub mod bearer;
pub mod clients;
pub mod issuer;
pub mod trusted;
