//! State between orders: the ACME account, and the failures of each host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Account at the authority, and the state of each host.
///
/// The credentials in the account contain its private key.
#[derive(Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcmeState {
    pub(crate) account: Option<KeptAccount>,
    #[serde(default)]
    pub hosts: BTreeMap<String, HostState>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptAccount {
    /// URL of the authority's directory, which identifies the authority.
    pub(crate) directory: String,
    /// Account URL and private key, as the ACME library serialises them.
    pub(crate) credentials: Value,
}

/// State of the orders for one host.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    /// Directory URL of the authority that issued the certificate in use; empty without a
    /// certificate.
    #[serde(default)]
    pub directory: String,
    /// Profile of the certificate's order. Empty for the default profile.
    #[serde(default)]
    pub profile: String,
    /// Number of failures since the last certificate was issued.
    #[serde(default)]
    pub failures: u32,
    /// Time before which no order is attempted, in seconds since 1970.
    #[serde(default)]
    pub not_before: i64,
}

impl AcmeState {
    /// Removes the account, after the authority has reported that it does not exist.
    pub fn forget_account(&mut self) {
        self.account = None;
    }
}
