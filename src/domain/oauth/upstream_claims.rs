//! Claims of an upstream OpenID provider about a user, and their conversion to a [`SourceEntry`].

use std::collections::BTreeMap;

use crate::assurance::AssuranceLevel;

/// Configured claims of an upstream provider. A claim is given by its name, or by a JSON pointer
/// (RFC 6901) such as `/realm_access/roles`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamClaims {
    /// Claim with the id that never changes.
    pub subject: String,
    /// Claims that a user must have.
    pub required: Vec<RequiredClaim>,
    /// Domains of e-mail addresses for which the provider is responsible, with A-labels in lower
    /// case.
    pub domains: Vec<String>,
    pub email_proof: EmailProof,
    /// Claim with a username. `None` if users have no username of this provider.
    pub username: Option<String>,
    /// Claim with the groups: a list of strings, or one string. `None` if users have no groups of
    /// this provider.
    pub groups: Option<String>,
    pub group_names: GroupNames,
    /// Assurance levels by values of the claim `acr`.
    pub levels: BTreeMap<String, AssuranceLevel>,
}

/// Claim that a user must have, with one of these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredClaim {
    pub claim: String,
    pub value: String,
}

/// Claim that proves that the provider has verified an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmailProof {
    /// `email_verified`.
    Claim,
    /// `email_verified`, or `xms_edov` of Microsoft Entra ID.
    ClaimOrDomainOwner,
    /// None: the provider has verified each address in the configured domains.
    Always,
}

/// Local names of the provider's groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupNames {
    /// All groups, with this prefix.
    Prefixed(String),
    /// Only these groups, with the given local names.
    Only(BTreeMap<String, String>),
}

impl UpstreamClaims {
    /// Returns whether the provider is responsible for the domain of an e-mail address.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.iter().any(|own| own.eq_ignore_ascii_case(domain))
    }
}
