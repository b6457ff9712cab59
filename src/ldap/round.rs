//! Reads of known users: a complete answer about each user, or none.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sealgate_config::DirectoryKind;
use sealgate_domain::search_filter::SearchFilter;
use sealgate_domain::source::{SourceEntry, SourceId};
use tokio::time::Instant;

use crate::connection::SearchAnswer;
use crate::directory::LdapDirectory;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::groups::GroupReader;
use crate::query::Searches;

/// Maximum number of users in a search by id, and in a batch of a round.
pub const USERS_PER_READ: usize = 50;
/// Maximum number of entries whose problem is remembered.
const MAX_PROBLEMS: usize = 10_000;

/// Result of reading one user again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LdapRead {
    Found(Box<SourceEntry>),
    /// The complete answer of the directory does not contain the user.
    Gone,
    /// It is unknown whether the user still has an account.
    Unreadable,
}

/// Round of reads of known users, batch by batch. The parents of each group are searched once.
pub struct LdapRound<'d> {
    directory: &'d LdapDirectory,
    groups: Option<GroupReader<'d>>,
}

/// Problems of single entries that were logged, by DN or id. Each is logged once until the entry is
/// readable again.
#[derive(Debug, Default)]
pub(crate) struct KnownProblems(Mutex<HashMap<Vec<u8>, LdapFault>>);

impl KnownProblems {
    /// Returns whether the problem was not logged before.
    fn is_new(&self, key: &[u8], fault: &LdapFault) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PROBLEMS {
            known.clear();
        }
        known.insert(key.to_vec(), fault.clone()).as_ref() != Some(fault)
    }

    pub(crate) fn forget(&self, key: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl LdapDirectory {
    /// Begins a round of reads.
    pub fn round(&self) -> LdapRound<'_> {
        LdapRound { directory: self, groups: self.group_reader() }
    }

    /// Reads known users again. Returns one element for each id, in the same order.
    ///
    /// # Errors
    /// If an answer is not complete.
    pub async fn read(&self, ids: &[SourceId]) -> Result<Vec<(SourceId, LdapRead)>, LdapFault> {
        let mut round = self.round();
        let mut users = Vec::with_capacity(ids.len());
        for ids in ids.chunks(USERS_PER_READ) {
            users.extend(round.read(ids).await?);
        }
        Ok(users)
    }

    /// Logs a problem of one entry, unless it was logged before.
    pub(crate) fn report_problem(&self, key: &[u8], fault: &LdapFault, consequence: &str) {
        if self.problems.is_new(key, fault) {
            tracing::error!(directory = %self.settings().name, %fault, "{consequence}");
        }
    }
}

impl LdapRound<'_> {
    /// Reads a batch of at most [`USERS_PER_READ`] users. Returns one element for each id, in the same
    /// order.
    ///
    /// # Errors
    /// If an answer is not complete.
    pub async fn read(&mut self, ids: &[SourceId]) -> Result<Vec<(SourceId, LdapRead)>, LdapFault> {
        let Self { directory, groups } = self;
        let settings = directory.settings();
        let wanted = ids.iter().map(|id| SearchFilter::Equal(settings.id.clone(), id.as_bytes().to_vec()));
        let filter = SearchFilter::And(vec![settings.users.filter.clone(), SearchFilter::Or(wanted.collect())]);
        let deadline = Instant::now() + settings.timeout;
        let (connection, answer) = directory.users(deadline, &filter, None).await?;
        let searches = directory.searches(&connection);
        let unreadable = |key: &[u8], fault: &LdapFault| {
            directory.report_problem(
                key,
                fault,
                "a user cannot be read; the account keeps its last known state, and \
                requests of the user are refused after stale_seconds",
            );
            LdapRead::Unreadable
        };
        let mut found = HashMap::new();
        // Why a user who was not found may exist.
        let mut doubt = (settings.kind == DirectoryKind::Ldap).then(|| referred(searches, &answer)).flatten();
        for entry in &answer.entries {
            let Some(id) = directory.id_of(entry).filter(|id| ids.contains(id)) else {
                let text = format!(
                    "the entry {} was returned, but its {} was not requested; grant read access to the account for \
                     searches, or correct id",
                    entry.name(),
                    settings.id.as_str()
                );
                doubt = Some(searches.unusable(&text));
                continue;
            };
            let read = match directory.report_with_groups(searches, entry, groups.as_mut()).await {
                Ok(report) => LdapRead::Found(Box::new(report)),
                Err(fault) if fault.kind() == LdapFaultKind::Entry => unreadable(&entry.dn, &fault),
                Err(fault) => return Err(fault),
            };
            let read = if found.contains_key(&id) {
                let text = format!("two entries have the id of {}; correct id", entry.name());
                unreadable(&entry.dn, &searches.unusable(&text))
            } else {
                read
            };
            found.insert(id, read);
        }
        let read = ids.iter().map(|id| {
            let read = found.remove(id).unwrap_or_else(|| match &doubt {
                Some(fault) => unreadable(id.as_bytes(), fault),
                None => LdapRead::Gone,
            });
            if !matches!(read, LdapRead::Unreadable) {
                directory.problems.forget(id.as_bytes());
            }
            (id.clone(), read)
        });
        Ok(read.collect())
    }
}

/// Returns the fault of an answer that refers to other servers, which may have users of this one.
///
/// Active Directory refers to its other partitions in each search from the root of a domain. No
/// container of a domain can become one, so only other servers are judged by this.
fn referred(searches: Searches<'_>, answer: &SearchAnswer) -> Option<LdapFault> {
    let first = answer.references.first()?;
    Some(searches.unusable(&format!(
        "the user was not found, but parts below users.base belong to other servers ({first}), and referrals are not \
         followed; narrow users.base, or delete the referral"
    )))
}
