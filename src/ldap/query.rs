//! Searches whose answer is complete.

use std::time::Duration;

use sealgate_domain::search_filter::SearchFilter;
use tokio::time::timeout;

use crate::connection::{LdapConnection, SearchAnswer};
use crate::entry::LdapEntry;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::message::{OperationResult, PageRequest, SearchRequest, SearchScope};

/// Entries of a page. Active Directory returns at most 1,000.
const PAGE_SIZE: u32 = 500;
/// Maximum number of entries of a complete answer.
const MAX_ENTRIES: usize = 10_000;

/// Result codes (RFC 4511 appendix A).
const SIZE_LIMIT_EXCEEDED: i32 = 4;
const REFERRAL: i32 = 10;
const NO_SUCH_OBJECT: i32 = 32;

/// Searches on a connection. Each search has a deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Searches<'c> {
    pub(crate) connection: &'c LdapConnection,
    /// Timeout of each search.
    pub(crate) timeout: Duration,
}

/// What to search, without limits and pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) base: &'a [u8],
    pub(crate) scope: SearchScope,
    pub(crate) filter: &'a SearchFilter,
    pub(crate) attributes: &'a [&'a str],
}

impl<'a> Query<'a> {
    fn request(self, size_limit: u32, page: Option<PageRequest>) -> SearchRequest<'a> {
        let Query { base, scope, filter, attributes } = self;
        SearchRequest { base, scope, filter, attributes, size_limit, page }
    }
}

impl Searches<'_> {
    /// Returns up to `limit` entries. More may exist.
    ///
    /// # Errors
    /// If the answer is an error, or the server returns fewer entries because of a limit of its own.
    pub(crate) async fn first(&self, query: Query<'_>, limit: u32) -> Result<SearchAnswer, LdapFault> {
        let answer = self.send(&query.request(limit, None)).await?;
        if answer.result.code == SIZE_LIMIT_EXCEEDED && answer.entries.len() >= usize::try_from(limit).unwrap_or(1) {
            return Ok(answer);
        }
        self.complete(query, answer)
    }

    /// Returns the entry of a DN.
    ///
    /// # Errors
    /// If the answer is an error. Also if the entry does not exist.
    pub(crate) async fn entry(&self, query: Query<'_>) -> Result<LdapEntry, LdapFault> {
        let answer = self.send(&query.request(0, None)).await?;
        let mut entries = self.complete(query, answer)?.entries;
        entries.pop().ok_or_else(|| {
            self.fault(format!(
                "the entry {} is not visible; grant read access to the account for searches",
                name(query)
            ))
        })
    }

    /// Returns all entries, and the references to other servers.
    ///
    /// A server that exceeds its limit is asked again, page by page (RFC 2696).
    ///
    /// # Errors
    /// If the answer is not complete.
    pub(crate) async fn all(&self, query: Query<'_>) -> Result<SearchAnswer, LdapFault> {
        let answer = self.send(&query.request(0, None)).await?;
        if answer.result.code != SIZE_LIMIT_EXCEEDED {
            return self.complete(query, answer);
        }
        let _turn = self.connection.paging.lock().await;
        let mut all = SearchAnswer::default();
        let mut cookie = Vec::new();
        loop {
            let page = PageRequest { size: PAGE_SIZE, cookie: std::mem::take(&mut cookie) };
            let answer = self.send(&query.request(0, Some(page))).await?;
            cookie.clone_from(&answer.result.cookie);
            let page = self.complete(query, answer)?;
            all.entries.extend(page.entries);
            all.references.extend(page.references);
            if all.entries.len() > MAX_ENTRIES {
                let text = format!("the search below {} finds more than {MAX_ENTRIES} entries; narrow it", name(query));
                return Err(self.limit(&text));
            }
            if cookie.is_empty() {
                return Ok(all);
            }
        }
    }

    async fn send(&self, request: &SearchRequest<'_>) -> Result<SearchAnswer, LdapFault> {
        let late = |_| {
            let text = format!("{}: no answer in time; check that the directory runs", self.connection.server());
            LdapFault::new(LdapFaultKind::Deadline, text)
        };
        timeout(self.timeout, self.connection.search(request)).await.map_err(late)?
    }

    /// Returns the answer if its result is success.
    fn complete(&self, query: Query<'_>, answer: SearchAnswer) -> Result<SearchAnswer, LdapFault> {
        let OperationResult { code, diagnostic, referral, .. } = &answer.result;
        let base = name(query);
        match *code {
            0 => Ok(answer),
            SIZE_LIMIT_EXCEEDED => Err(self.limit(&format!(
                "the answer below {base} exceeds the size limit of the server; raise the limit for the account for \
                 searches"
            ))),
            3 | 11 => Err(self.limit(&format!(
                "the search below {base} exceeds a limit of the server (code {code}); add indexes for the attributes, \
                 or raise the limit for the account for searches"
            ))),
            REFERRAL => Err(self.fault(format!(
                "{base} belongs to another server ({}); referrals are not followed; write that server in servers, or \
                 correct the base",
                referral.join(", ")
            ))),
            NO_SUCH_OBJECT => Err(self.fault(format!(
                "{base} does not exist or is not visible; correct the base, or grant read access to the account for \
                 searches"
            ))),
            code => Err(self.fault(format!(
                "the search below {base} failed (code {code}: {diagnostic}); see the log of the directory"
            ))),
        }
    }

    /// Returns a fault of this server's answer.
    pub(crate) fn fault(&self, text: impl std::fmt::Display) -> LdapFault {
        LdapFault::new(LdapFaultKind::Answer, format!("{}: {text}", self.connection.server()))
    }

    /// Returns a fault of one entry.
    pub(crate) fn unusable(&self, text: &str) -> LdapFault {
        LdapFault::new(LdapFaultKind::Entry, format!("{}: {text}", self.connection.server()))
    }

    /// Returns a fault of an exceeded limit.
    pub(crate) fn limit(&self, text: &str) -> LdapFault {
        LdapFault::new(LdapFaultKind::Limit, format!("{}: {text}", self.connection.server()))
    }
}

fn name(query: Query<'_>) -> String {
    let base = String::from_utf8_lossy(query.base);
    if base.is_empty() { "the root".to_owned() } else { base.into_owned() }
}
