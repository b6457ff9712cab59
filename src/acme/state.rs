//! What is kept between orders: the account and the failures of each host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Account at an authority, and the state of each host.
///
/// Contains the private key of the account.
#[derive(Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcmeState {
    pub(crate) account: Option<KeptAccount>,
    #[serde(default)]
    pub hosts: BTreeMap<String, HostState>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptAccount {
    pub(crate) directory: String,
    /// Credentials of the ACME library.
    pub(crate) credentials: Value,
}

/// Orders of one host.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    /// Directory and profile of the certificate in use; empty for none.
    #[serde(default)]
    pub directory: String,
    #[serde(default)]
    pub profile: String,
    /// Failures since the last certificate.
    #[serde(default)]
    pub failures: u32,
    /// Time before which there is no further attempt, in seconds since 1970.
    #[serde(default)]
    pub not_before: i64,
}

impl AcmeState {
    /// Forgets an account that the authority does not know any more.
    pub fn forget_account(&mut self) {
        self.account = None;
    }
}
