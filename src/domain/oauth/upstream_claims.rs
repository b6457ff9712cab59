//! Claims of an upstream OpenID provider about a user, and their conversion to a [`SourceEntry`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::assurance::AssuranceLevel;
use crate::mail_address::MailAddress;
use crate::oauth::jws::mapped;
use crate::profile::{MAX_NAME_LENGTH, is_group, is_phone_number, visible_part};
use crate::source::{SourceEntry, SourceId, SourceState};
use crate::username::Username;

/// Maximum number of groups of a user. A longer list counts as incomplete.
const MAX_GROUPS: usize = 1000;

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

/// Reason why claims do not identify a user who may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimsRefusal {
    /// The user is in so many groups that the provider sends a reference instead of the groups, or
    /// in more than this server accepts.
    GroupsOverage,
    /// The user lacks the value of this required claim.
    NotAllowed(String),
    /// The claim with the user's id is missing, or is no text of 1 to 255 bytes.
    NoSubject,
}

impl UpstreamClaims {
    /// Returns whether the provider is responsible for the domain of an e-mail address.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.iter().any(|own| own.eq_ignore_ascii_case(domain))
    }

    /// Returns whether claims that the settings name, or the name or address of the user, are missing
    /// in an ID token. The provider may have them at its UserInfo endpoint.
    pub fn is_incomplete(&self, claims: &Map<String, Value>) -> bool {
        let proof = match self.email_proof {
            EmailProof::Claim => Some("email_verified"),
            // Entra has no proof at its UserInfo endpoint.
            EmailProof::ClaimOrDomainOwner | EmailProof::Always => None,
        };
        let required = self.required.iter().map(|required| required.claim.as_str());
        let optional = [self.groups.as_deref(), self.username.as_deref(), proof].into_iter().flatten();
        let mut wanted = required.chain(optional).chain([self.subject.as_str(), "name", "email"]);
        wanted.any(|name| mapped(claims, Some(name)).is_none())
    }

    /// Adds the claims of a UserInfo response to those of an ID token. A claim of the ID token takes
    /// precedence. The caller has compared `sub`.
    ///
    /// # Errors
    /// `GroupsOverage`, because a list of groups in one of them cannot complete the other.
    pub fn merged(
        &self,
        id_token: &Map<String, Value>,
        user_info: Map<String, Value>,
    ) -> Result<Map<String, Value>, ClaimsRefusal> {
        if self.has_overage(id_token) || self.has_overage(&user_info) {
            return Err(ClaimsRefusal::GroupsOverage);
        }
        let mut merged = user_info;
        // The proof of an address counts only for this address.
        if id_token.get("email").is_some_and(|email| merged.get("email") != Some(email)) {
            merged.remove("email_verified");
            merged.remove("xms_edov");
        }
        // And the proof in an ID token without an address is not for the address of the response.
        let is_proof = |name: &str| matches!(name, "email_verified" | "xms_edov") && !id_token.contains_key("email");
        let own = id_token.iter().filter(|(name, _)| !is_proof(name));
        merged.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        Ok(merged)
    }

    /// Converts the claims of a user.
    ///
    /// # Errors
    /// [`ClaimsRefusal`].
    pub fn entry(&self, claims: &Map<String, Value>) -> Result<SourceEntry, ClaimsRefusal> {
        if self.has_overage(claims) {
            return Err(ClaimsRefusal::GroupsOverage);
        }
        for RequiredClaim { claim, value } in &self.required {
            if !mapped(claims, Some(claim)).is_some_and(|found| has_value(found, value)) {
                return Err(ClaimsRefusal::NotAllowed(claim.clone()));
            }
        }
        let id = self.id(claims).ok_or(ClaimsRefusal::NoSubject)?;
        let groups = self.groups(claims)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let username = mapped(claims, self.username.as_deref()).and_then(Value::as_str).and_then(Username::typed);
        let (email, address) = text("email").and_then(MailAddress::reported).unzip();
        let email_verified = address.is_some_and(|address| self.is_verified(&address, claims));
        let given = || [text("given_name"), text("family_name")].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let stand_in = || {
            username.as_ref().map(ToString::to_string).or_else(|| email.as_ref().map(|email| email.as_str().to_owned()))
        };
        let name = text("name").and_then(display_name).or_else(|| display_name(&given())).or_else(stand_in);
        Ok(SourceEntry {
            id,
            username,
            email,
            email_verified,
            name: name.unwrap_or_default(),
            phone_number: text("phone_number").filter(|number| is_phone_number(number)).map(str::to_owned),
            groups,
            state: SourceState::Enabled,
        })
    }

    /// Returns the assurance level of a sign-in. `None` if the table has no row for `acr`.
    pub fn level(&self, acr: Option<&str>) -> Option<AssuranceLevel> {
        self.levels.get(acr?).copied()
    }

    fn id(&self, claims: &Map<String, Value>) -> Option<SourceId> {
        let text = match mapped(claims, Some(&self.subject))? {
            Value::String(text) if !text.chars().any(char::is_control) => text.clone(),
            // GitHub's ids are numbers.
            Value::Number(number) => number.as_u64()?.to_string(),
            _ => return None,
        };
        SourceId::from_bytes(text.as_bytes())
    }

    /// Returns whether the provider has replaced the groups by a reference (Microsoft Entra ID does so
    /// above 200 groups). Such a reference must not be read as "no groups".
    fn has_overage(&self, claims: &Map<String, Value>) -> bool {
        let Some(groups) = &self.groups else { return false };
        let first = groups.strip_prefix('/').and_then(|path| path.split('/').next()).unwrap_or(groups);
        let is_referred = claims.get("_claim_names").is_some_and(|names| names.get(first).is_some());
        let has_groups = claims.get("hasgroups").is_some_and(|value| *value != Value::Bool(false));
        is_referred || (first == "groups" && has_groups)
    }

    fn groups(&self, claims: &Map<String, Value>) -> Result<BTreeSet<String>, ClaimsRefusal> {
        let Some(value) = mapped(claims, self.groups.as_deref()) else { return Ok(BTreeSet::new()) };
        let listed = match value {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        if listed.len() > MAX_GROUPS {
            return Err(ClaimsRefusal::GroupsOverage);
        }
        let local = |group: &str| match &self.group_names {
            GroupNames::Prefixed(prefix) => Some(format!("{prefix}{group}")).filter(|_| !group.is_empty()),
            GroupNames::Only(names) => names.get(group).cloned(),
        };
        Ok(listed.iter().filter_map(Value::as_str).filter_map(local).filter(|group| is_group(group)).collect())
    }

    /// Returns whether the provider has verified the address, and is responsible for its domain.
    fn is_verified(&self, address: &MailAddress, claims: &Map<String, Value>) -> bool {
        // Only the boolean counts. Some providers let users write texts into claims.
        let is_true = |name: &str| claims.get(name) == Some(&Value::Bool(true));
        let is_denied = claims.get("email_verified") == Some(&Value::Bool(false));
        let is_proved = match self.email_proof {
            EmailProof::Claim => is_true("email_verified"),
            EmailProof::ClaimOrDomainOwner => is_true("email_verified") || (is_true("xms_edov") && !is_denied),
            EmailProof::Always => !is_denied,
        };
        is_proved && self.has_domain(address.domain())
    }
}

/// Returns whether a claim has this value, or is a list that contains it.
fn has_value(found: &Value, value: &str) -> bool {
    match found {
        Value::String(text) => text == value,
        Value::Number(number) => number.to_string() == value,
        Value::Bool(flag) => value == if *flag { "true" } else { "false" },
        Value::Array(list) => list.iter().any(|one| one.as_str() == Some(value)),
        Value::Null | Value::Object(_) => false,
    }
}

/// Returns a name without invisible characters and blanks at its ends, shortened to the maximum
/// length. `None` if nothing remains.
fn display_name(text: &str) -> Option<String> {
    // The limit keeps the work small for a long claim.
    let start: String = text.chars().take(2 * MAX_NAME_LENGTH).collect();
    let name: String = visible_part(&start).trim().chars().take(MAX_NAME_LENGTH).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
