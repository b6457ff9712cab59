//! A directory: sign-in of a user, and reads of known users.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sealgate_config::{DirectoryKind, DirectorySettings, GroupSource};
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::profile::{MAX_NAME_LENGTH, is_line, is_phone_number, is_visible, visible_part};
use sealgate_domain::search_filter::SearchFilter;
use sealgate_domain::source::{SourceEntry, SourceId};
use sealgate_domain::time::UnixTime;
use sealgate_domain::username::Username;
use sealgate_system::clock::Clock;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::account::{BindOutcome, LdapRefusal, bind_outcome, flag_attributes, refusal, state};
use crate::connection::{LdapConnection, SearchAnswer};
use crate::entry::LdapEntry;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::groups::{GroupReader, SidNames};
use crate::message::SearchScope;
use crate::query::{Query, Searches};
use crate::round::KnownProblems;
use crate::servers::DirectoryServers;

/// Maximum number of sign-ins that wait for a directory. Further ones fail at once.
const MAX_SIGN_INS: usize = 64;
/// Maximum length of a typed name in bytes.
const MAX_TYPED_LENGTH: usize = 256;
/// First part of the DN that is bound if no entry has the typed name.
const NO_USER: &str = "cn=sealgate-no-such-user";

/// An LDAP directory. Connections are opened when they are needed, and kept.
pub struct LdapDirectory {
    servers: DirectoryServers,
    clock: Arc<dyn Clock>,
    sids: SidNames,
    pub(crate) problems: KnownProblems,
    sign_ins: Semaphore,
    /// Attributes to read of users.
    attributes: Vec<String>,
}

/// Answer of a directory to a name and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LdapSignIn {
    /// The password is right, and the account is enabled.
    User(SourceEntry),
    /// No user has this name and this password. Also for accounts that are locked after too many
    /// wrong passwords.
    Wrong,
    /// The password is right, but the directory does not let the user sign in.
    Refused(LdapRefusal),
}

/// Sign-in whose user was searched, and whose password is not checked yet.
pub struct LdapSignInAttempt<'a> {
    directory: &'a LdapDirectory,
    password: &'a SecretString,
    connection: Arc<LdapConnection>,
    /// Entry with the typed name, if there is exactly one.
    found: Option<LdapEntry>,
    deadline: Instant,
    _turn: SemaphorePermit<'a>,
}

impl LdapSignInAttempt<'_> {
    /// Returns the id of the user. `None` if no entry has the typed name, or it has no valid id.
    pub fn id(&self) -> Option<SourceId> {
        self.directory.id_of(self.found.as_ref()?)
    }

    /// Checks the password, and reads the groups.
    ///
    /// # Errors
    /// If the directory gives no complete answer before the deadline.
    pub async fn verify(self) -> Result<LdapSignIn, LdapFault> {
        let late = |_| self.directory.late();
        timeout_at(self.deadline, self.bind()).await.map_err(late)?
    }

    async fn bind(&self) -> Result<LdapSignIn, LdapFault> {
        let Self { directory, password, connection, found, deadline, .. } = self;
        let kind = directory.settings().kind;
        let searches = directory.searches(connection);
        let made_up = format!("{NO_USER},{}", directory.settings().users.base);
        let dn = found.as_ref().map_or_else(|| made_up.trim_end_matches(',').as_bytes(), |entry| entry.dn.as_slice());
        let result = directory.servers.bind(dn, password.expose_secret().as_bytes(), *deadline).await?;
        let outcome = bind_outcome(kind, &result);
        if outcome == BindOutcome::Unclear {
            let text = format!("the bind failed (code {}: {})", result.code, result.diagnostic);
            return Err(searches.fault(format!("{text}; see the log of the directory")));
        }
        let Some(entry) = found else { return Ok(LdapSignIn::Wrong) };
        match outcome {
            BindOutcome::Refused(refusal) => return Ok(LdapSignIn::Refused(refusal)),
            BindOutcome::Wrong | BindOutcome::Unclear => {
                let (name, diagnostic) = (&directory.settings().name, &result.diagnostic);
                tracing::debug!(directory = %name, code = result.code, diagnostic, "the directory refused a password");
                return Ok(LdapSignIn::Wrong);
            }
            BindOutcome::Accepted => {}
        }
        if let Some(refusal) = refusal(kind, entry, directory.clock.now()) {
            return Ok(LdapSignIn::Refused(refusal));
        }
        let mut groups = directory.group_reader();
        Ok(LdapSignIn::User(directory.report_with_groups(searches, entry, groups.as_mut()).await?))
    }
}

impl fmt::Debug for LdapDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LdapDirectory").field("name", &self.settings().name).finish_non_exhaustive()
    }
}

impl LdapDirectory {
    /// Reads the CA file and the password file. Does not connect.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn open(settings: &DirectorySettings, clock: Arc<dyn Clock>) -> Result<Self, LdapFault> {
        let username = username_attribute(settings.kind);
        let mut attributes = vec![settings.id.as_str(), "mail", username, "displayName", "cn", "telephoneNumber"];
        attributes.extend(flag_attributes(settings.kind));
        if settings.groups.as_ref().is_some_and(|groups| groups.from == GroupSource::MemberOf) {
            attributes.push("memberOf");
        }
        let attributes = attributes.into_iter().map(str::to_owned).collect();
        let servers = DirectoryServers::new(settings.clone())?;
        let sign_ins = Semaphore::new(MAX_SIGN_INS);
        let (sids, problems) = (SidNames::default(), KnownProblems::default());
        Ok(Self { servers, clock, sids, problems, sign_ins, attributes })
    }

    /// Returns the settings of the directory.
    pub fn settings(&self) -> &DirectorySettings {
        self.servers.settings()
    }

    /// Returns the form of an id for administrators: a GUID for Active Directory, or the text of the
    /// attribute. Returns hexadecimal digits for other bytes.
    pub fn shown_id(&self, id: &SourceId) -> String {
        let bytes = id.as_bytes();
        if self.settings().id.as_str().eq_ignore_ascii_case("objectGUID")
            && let Ok(bytes) = bytes.try_into()
        {
            // The first three fields are little-endian (MS-DTYP §2.3.4.2).
            return Uuid::from_bytes_le(bytes).to_string();
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if is_visible(text) => text.to_owned(),
            _ => bytes.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}")),
        }
    }

    /// Returns the number of sign-ins that are waiting for the directory.
    pub fn waiting(&self) -> usize {
        MAX_SIGN_INS - self.sign_ins.available_permits()
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.clock.now()
    }

    pub(crate) fn servers(&self) -> &DirectoryServers {
        &self.servers
    }

    /// Searches the user by the typed name, binds as the user, and reads the groups.
    ///
    /// An unknown name takes as long as a wrong password. An empty password is wrong without a
    /// question to the directory.
    ///
    /// # Errors
    /// If the directory gives no complete answer before the deadline.
    pub async fn sign_in(&self, name: &str, password: &SecretString) -> Result<LdapSignIn, LdapFault> {
        match self.find(name, password).await? {
            Some(attempt) => attempt.verify().await,
            None => Ok(LdapSignIn::Wrong),
        }
    }

    /// Searches the user by the typed name. The caller can then count the guess for the user, before
    /// [`LdapSignInAttempt::verify`] checks the password. Both have one deadline.
    ///
    /// Returns `None` for a name or a password that no user can have.
    ///
    /// # Errors
    /// If the directory gives no complete answer before the deadline.
    pub async fn find<'a>(
        &'a self,
        name: &str,
        password: &'a SecretString,
    ) -> Result<Option<LdapSignInAttempt<'a>>, LdapFault> {
        if !is_possible_name(name) || password.expose_secret().is_empty() {
            return Ok(None);
        }
        let busy = |_| {
            let text = format!("{MAX_SIGN_INS} sign-ins are waiting for the directory {}", self.settings().name);
            LdapFault::new(LdapFaultKind::Busy, text)
        };
        let turn = self.sign_ins.try_acquire().map_err(busy)?;
        let deadline = Instant::now() + self.settings().timeout;
        let filter = self.name_filter(name);
        let found = timeout_at(deadline, self.users(deadline, &filter, Some(2))).await;
        let (connection, answer) = found.map_err(|_| self.late())??;
        Ok(Some(LdapSignInAttempt {
            directory: self,
            password,
            connection,
            found: self.only(answer.entries),
            deadline,
            _turn: turn,
        }))
    }

    fn late(&self) -> LdapFault {
        let seconds = self.settings().timeout.as_secs();
        let text = format!("the directory {} did not answer within {seconds} seconds", self.settings().name);
        LdapFault::new(LdapFaultKind::Deadline, text)
    }

    /// Searches entries of users, and returns the connection too. `limit` is the number of entries
    /// that suffices. Searches again if the server has closed the connection since its last use.
    pub(crate) async fn users(
        &self,
        deadline: Instant,
        filter: &SearchFilter,
        limit: Option<u32>,
    ) -> Result<(Arc<LdapConnection>, SearchAnswer), LdapFault> {
        let connection = self.servers.service(deadline).await?;
        match self.users_on(self.searches(&connection), filter, limit).await {
            Ok(answer) => return Ok((connection, answer)),
            Err(fault) if fault.kind() == LdapFaultKind::Connect => {}
            Err(fault) => return Err(fault),
        }
        let connection = self.servers.service(deadline).await?;
        let answer = self.users_on(self.searches(&connection), filter, limit).await?;
        Ok((connection, answer))
    }

    pub(crate) async fn users_on(
        &self,
        searches: Searches<'_>,
        filter: &SearchFilter,
        limit: Option<u32>,
    ) -> Result<SearchAnswer, LdapFault> {
        let attributes: Vec<&str> = self.attributes.iter().map(String::as_str).collect();
        let base = self.settings().users.base.as_bytes();
        let query = Query { base, scope: SearchScope::Subtree, filter, attributes: &attributes };
        match limit {
            Some(limit) => searches.first(query, limit).await,
            None => searches.all(query).await,
        }
    }

    /// Returns the filter for users with a typed name.
    pub(crate) fn name_filter(&self, name: &str) -> SearchFilter {
        let users = &self.settings().users;
        let names = users.names.iter().map(|attribute| SearchFilter::Equal(attribute.clone(), name.into()));
        SearchFilter::And(vec![users.filter.clone(), SearchFilter::Or(names.collect())])
    }

    /// Returns the only entry with the typed name. Two entries are treated as none.
    fn only(&self, mut entries: Vec<LdapEntry>) -> Option<LdapEntry> {
        if let [first, second, ..] = entries.as_slice() {
            tracing::warn!(
                directory = %self.settings().name,
                first = %first.name().escape_debug(),
                second = %second.name().escape_debug(),
                "a typed name matches two entries, and is refused; make users.names unambiguous, or narrow users.filter"
            );
            return None;
        }
        entries.pop()
    }

    pub(crate) fn searches<'c>(&self, connection: &'c LdapConnection) -> Searches<'c> {
        let timeout: Duration = self.settings().timeout;
        Searches { connection, timeout }
    }

    pub(crate) fn group_reader(&self) -> Option<GroupReader<'_>> {
        self.settings().groups.as_ref().map(|groups| GroupReader::new(groups, &self.sids))
    }

    pub(crate) fn id_of(&self, entry: &LdapEntry) -> Option<SourceId> {
        let settings = self.settings();
        entry.value(settings.id.as_str()).and_then(|id| source_id(settings, id))
    }

    /// Returns the report about an entry, with its groups. A user whose groups exceed a limit has
    /// none: the account still counts, and rules for groups do not apply.
    ///
    /// # Errors
    /// If the entry cannot be used, or the groups cannot be read.
    pub(crate) async fn report_with_groups(
        &self,
        searches: Searches<'_>,
        entry: &LdapEntry,
        groups: Option<&mut GroupReader<'_>>,
    ) -> Result<SourceEntry, LdapFault> {
        let groups = match self.groups_of(searches, entry, groups).await {
            Err(fault) if fault.kind() == LdapFaultKind::Limit => {
                self.report_problem(&entry.dn, &fault, "the groups of a user cannot be read, so the user has none");
                BTreeSet::new()
            }
            groups => {
                let report = self.report(searches, entry, groups?)?;
                self.problems.forget(&entry.dn);
                return Ok(report);
            }
        };
        self.report(searches, entry, groups)
    }

    /// Returns the groups of an entry.
    ///
    /// # Errors
    /// If they cannot be read completely.
    pub(crate) async fn groups_of(
        &self,
        searches: Searches<'_>,
        entry: &LdapEntry,
        groups: Option<&mut GroupReader<'_>>,
    ) -> Result<BTreeSet<String>, LdapFault> {
        let username = entry.values(username_attribute(self.settings().kind)).first().map(Vec::as_slice);
        match groups {
            Some(groups) => groups.groups(searches, entry, username).await,
            None => Ok(BTreeSet::new()),
        }
    }

    /// Returns the report about an entry with these groups.
    ///
    /// # Errors
    /// [`LdapFaultKind::Entry`] if the entry has no id, or its state is not visible.
    pub(crate) fn report(
        &self,
        searches: Searches<'_>,
        entry: &LdapEntry,
        groups: BTreeSet<String>,
    ) -> Result<SourceEntry, LdapFault> {
        let settings = self.settings();
        let id = self.id_of(entry).ok_or_else(|| {
            searches.unusable(&format!(
                "the entry {} has no {}; grant read access to the account for searches, or correct id",
                entry.name(),
                settings.id.as_str()
            ))
        })?;
        // Every user of Active Directory has it. Without it, a disabled account would seem enabled.
        if settings.kind == DirectoryKind::ActiveDirectory && entry.number("userAccountControl").is_none() {
            return Err(searches.unusable(&format!(
                "the entry {} has no userAccountControl; grant read access to the account for searches, or narrow \
                 users.filter to users",
                entry.name()
            )));
        }
        let username = entry.values(username_attribute(settings.kind));
        let texts = |name| entry.values(name).iter().filter_map(|value| std::str::from_utf8(value).ok());
        let username = username.iter().find_map(|name| Username::typed(std::str::from_utf8(name).ok()?));
        let (email, address) = texts("mail").find_map(MailAddress::reported).unzip();
        let email_verified = address.is_some_and(|address| settings.domains.iter().any(|own| own == address.domain()));
        let name = ["displayName", "cn"].into_iter().flat_map(texts).find_map(display_name);
        let stand_in = || {
            username.as_ref().map(ToString::to_string).or_else(|| email.as_ref().map(|email| email.as_str().to_owned()))
        };
        let name = name.or_else(stand_in).unwrap_or_default();
        let phone_number = texts("telephoneNumber").find(|number| is_phone_number(number)).map(str::to_owned);
        let state = state(settings.kind, entry, self.clock.now());
        Ok(SourceEntry { id, username, email, email_verified, name, phone_number, groups, state })
    }
}

/// Returns whether a text may be a name: 1 to 256 bytes without NUL.
fn is_possible_name(name: &str) -> bool {
    (1..=MAX_TYPED_LENGTH).contains(&name.len()) && !name.contains('\0')
}

fn username_attribute(kind: DirectoryKind) -> &'static str {
    match kind {
        DirectoryKind::ActiveDirectory => "sAMAccountName",
        DirectoryKind::Ldap => "uid",
    }
}

/// Returns the id from the value of the attribute: its bytes as the directory sent them.
///
/// The letters of `entryUUID` are converted to lower case, because servers may write them
/// otherwise (RFC 4530 §2.1).
fn source_id(settings: &DirectorySettings, value: &[u8]) -> Option<SourceId> {
    if settings.id.as_str().eq_ignore_ascii_case("entryUUID") {
        return SourceId::from_bytes(&value.to_ascii_lowercase());
    }
    SourceId::from_bytes(value)
}

/// Returns the visible part of a name, at its maximum length. Returns `None` if it is empty.
fn display_name(text: &str) -> Option<String> {
    let visible: String = visible_part(text).trim().chars().take(MAX_NAME_LENGTH).collect();
    is_line(&visible, MAX_NAME_LENGTH).then_some(visible)
}
