//! Tokens of this issuer (`issuer` creates them, `bearer` verifies them), tokens of other issuers
//! (`trusted`), the clients (`clients`), and their metadata documents (`documents`).

pub mod bearer;
pub mod client_key_sets;
pub mod client_key_sets;
pub mod clients;
pub mod documents;
pub mod issuer;
pub mod trusted;
