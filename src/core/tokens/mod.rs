//! Tokens of this issuer (`issuer` creates them, `bearer` verifies them), tokens of other issuers
//! (`trusted`), the clients (`clients`), their metadata documents (`documents`) and key sets
//! (`client_key_sets`).

pub mod bearer;
pub mod client_key_sets;
pub mod clients;
pub mod documents;
pub mod issuer;
pub mod trusted;
