//! Check of a directory for administrators: each step with its result.

use sealgate_config::{DirectoryKind, DirectorySecurity, DirectoryServer, LoginConfig};
use sealgate_domain::search_filter::AttributeName;
use sealgate_domain::source::SourceEntry;
use sealgate_domain::source_check::{CheckStep, CheckStepOutcome};
use tokio::time::{Instant, timeout_at};

use crate::account::refusal;
use crate::connection::LdapConnection;
use crate::directory::LdapDirectory;
use crate::entry::LdapEntry;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::groups::present;
use crate::message::SearchScope;
use crate::query::{Query, Searches};

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryCheck {
    pub steps: Vec<CheckStep>,
    /// The user with the given name, as it would be stored.
    pub user: Option<SourceEntry>,
}

impl DirectoryCheck {
    /// Returns whether no step failed.
    pub fn has_passed(&self) -> bool {
        self.steps.iter().all(|step| step.outcome != CheckStepOutcome::Failed)
    }

    fn add(&mut self, subject: &str, outcome: CheckStepOutcome, text: impl Into<String>) {
        self.steps.push(CheckStep { subject: subject.to_owned(), outcome, text: text.into() });
    }

    fn fail(&mut self, subject: &str, fault: &LdapFault) {
        let text = fault.to_string();
        let text = text.strip_prefix(subject).and_then(|text| text.strip_prefix(": ")).unwrap_or(&text);
        self.add(subject, CheckStepOutcome::Failed, text);
    }
}

impl LdapDirectory {
    /// Connects to each server, signs in the account for searches, and searches a user by name.
    ///
    /// `login` has the limits for wrong passwords. Active Directory counts wrong passwords too, and
    /// its limit must be higher.
    pub async fn check(&self, name: Option<&str>, login: &LoginConfig) -> DirectoryCheck {
        let mut check = DirectoryCheck { steps: Vec::new(), user: None };
        let mut first = None;
        for server in &self.settings().servers {
            match self.connect(server).await {
                Ok(connection) => {
                    let protection = match server.security {
                        DirectorySecurity::Ldaps => "connected with TLS",
                        DirectorySecurity::StartTls => "connected with StartTLS",
                        DirectorySecurity::None => "connected without TLS",
                    };
                    let text = format!("{protection}; {} may sign in", self.settings().bind.dn);
                    check.add(connection.server(), CheckStepOutcome::Passed, text);
                    first = first.or(Some(connection));
                }
                Err(fault) => {
                    check.fail(&server.to_string(), &fault);
                    // Each further refusal would count towards a lock of the account.
                    if fault.kind() == LdapFaultKind::ServiceBind {
                        return check;
                    }
                }
            }
        }
        let Some(connection) = first else { return check };
        let searches = self.searches(&connection);
        self.check_bases(searches, &mut check).await;
        if self.settings().kind == DirectoryKind::ActiveDirectory {
            check_lockout(searches, login, &mut check).await;
            self.check_service_account(searches, &mut check).await;
        }
        if let Some(name) = name {
            self.check_user(searches, name, &mut check).await;
        }
        check
    }

    async fn connect(&self, server: &DirectoryServer) -> Result<LdapConnection, LdapFault> {
        let deadline = Instant::now() + self.settings().timeout;
        let password = self.servers().service_password()?;
        let connection = self.servers().open_one(server, deadline).await?;
        let bind = connection.bind(self.settings().bind.dn.as_bytes(), password.as_bytes());
        let late =
            |_| LdapFault::new(LdapFaultKind::Deadline, "no answer to the bind in time; see the directory's log");
        let result = timeout_at(deadline, bind).await.map_err(late)??;
        self.servers().accept_service(connection.server(), &result, &password)?;
        Ok(connection)
    }

    async fn check_bases(&self, searches: Searches<'_>, check: &mut DirectoryCheck) {
        let users = &self.settings().users;
        let base = users.base.as_bytes();
        let attributes = &[self.settings().id.as_str()];
        let query = Query { base, scope: SearchScope::Subtree, filter: &users.filter, attributes };
        match searches.first(query, 1).await {
            Ok(answer) => match answer.entries.first() {
                None => {
                    let text =
                        "no entry matches users.filter; correct it, or grant read access to the account for searches";
                    check.add("users.base", CheckStepOutcome::Failed, text);
                }
                Some(entry) if entry.value(self.settings().id.as_str()).is_none() => {
                    let text = format!(
                        "{} has no {}; correct id, or grant read access to the account for searches",
                        entry.name(),
                        self.settings().id.as_str()
                    );
                    check.add("users.base", CheckStepOutcome::Failed, text);
                }
                Some(_) => check.add("users.base", CheckStepOutcome::Passed, "at least one entry matches users.filter"),
            },
            Err(fault) => check.fail("users.base", &fault),
        }
        // A search for all entries also returns references to other servers.
        let none = present("sealgateNoSuchAttribute");
        let query = Query { base, scope: SearchScope::Subtree, filter: &none, attributes };
        if let Ok(answer) = searches.first(query, 1).await
            && !answer.references.is_empty()
        {
            let text = format!(
                "parts below {} belong to other servers ({}); they are not searched; narrow users.base, or search a \
                 server with all entries, such as a global catalogue",
                users.base,
                answer.references.join(", ")
            );
            check.add("users.base", CheckStepOutcome::Warning, text);
        }
        let Some(groups) = &self.settings().groups else { return };
        let filter = present("objectClass");
        let query =
            Query { base: groups.base.as_bytes(), scope: SearchScope::Base, filter: &filter, attributes: &["cn"] };
        match searches.entry(query).await {
            Ok(_) => check.add("groups.base", CheckStepOutcome::Passed, "the entry exists"),
            Err(fault) => check.fail("groups.base", &fault),
        }
    }

    async fn check_service_account(&self, searches: Searches<'_>, check: &mut DirectoryCheck) {
        let filter = present("objectClass");
        let base = self.settings().bind.dn.as_bytes();
        let query = Query { base, scope: SearchScope::Base, filter: &filter, attributes: &["adminCount"] };
        if searches.entry(query).await.is_ok_and(|entry| entry.number("adminCount").is_some_and(|count| count > 0)) {
            let text = "the account is or was an administrator; use an account that may only read";
            check.add("bind.dn", CheckStepOutcome::Warning, text);
        }
    }

    async fn check_user(&self, searches: Searches<'_>, name: &str, check: &mut DirectoryCheck) {
        let entries = match self.users_on(searches, &self.name_filter(name), Some(2)).await {
            Ok(entries) => entries,
            Err(fault) => return check.fail("user", &fault),
        };
        let entry = match entries.as_slice() {
            [entry] => entry,
            [] => {
                let names: Vec<_> = self.settings().users.names.iter().map(AttributeName::as_str).collect();
                let text = format!(
                    "no entry below {} matches users.filter and has this name in {}",
                    self.settings().users.base,
                    names.join(", ")
                );
                return check.add("user", CheckStepOutcome::Failed, format!("{text}; correct the name, or users"));
            }
            several => {
                let names: Vec<_> = several.iter().map(LdapEntry::name).collect();
                let text = format!(
                    "several entries have this name ({}), so it cannot be used; narrow users.names or users.filter",
                    names.join("; ")
                );
                return check.add("user", CheckStepOutcome::Failed, text);
            }
        };
        let mut groups = self.group_reader();
        match self.report(searches, entry, groups.as_mut()).await {
            Ok(report) => {
                match refusal(self.settings().kind, entry, self.now()) {
                    None => check.add("user", CheckStepOutcome::Passed, format!("found {}", entry.name())),
                    Some(refusal) => {
                        let text = format!("found {}, which may not sign in: {}", entry.name(), refusal.as_str());
                        check.add("user", CheckStepOutcome::Warning, text);
                    }
                }
                check.user = Some(report);
            }
            Err(fault) => check.fail("user", &fault),
        }
    }
}

/// Units of a Windows time in a second.
const WINDOWS_UNITS: u64 = 10_000_000;

/// Compares the limits for wrong passwords with those of the domain.
async fn check_lockout(searches: Searches<'_>, login: &LoginConfig, check: &mut DirectoryCheck) {
    let filter = present("objectClass");
    let root = Query { base: b"", scope: SearchScope::Base, filter: &filter, attributes: &["defaultNamingContext"] };
    let domain = match searches.entry(root).await {
        Ok(root) => root.value("defaultNamingContext").map(<[u8]>::to_vec).unwrap_or_default(),
        Err(fault) => return check.fail("lockout", &fault),
    };
    let attributes = &["lockoutThreshold", "lockOutObservationWindow"];
    let query = Query { base: &domain, scope: SearchScope::Base, filter: &filter, attributes };
    let domain = match searches.entry(query).await {
        Ok(domain) => domain,
        Err(fault) => return check.fail("lockout", &fault),
    };
    let Some(threshold) = domain.number("lockoutThreshold") else {
        let text = "the lockoutThreshold of the domain is not visible; compare it with login.failures_per_account";
        return check.add("lockout", CheckStepOutcome::Warning, text);
    };
    let window = domain.number("lockOutObservationWindow").unwrap_or_default().unsigned_abs() / WINDOWS_UNITS;
    let own = i64::from(login.failures_per_account);
    let own_window = login.window.as_secs();
    if threshold == 0 {
        return check.add("lockout", CheckStepOutcome::Passed, "the domain locks no accounts");
    }
    let rule = format!("the domain locks an account after {threshold} wrong passwords in {window} seconds");
    if own < threshold && own_window >= window {
        return check.add("lockout", CheckStepOutcome::Passed, rule);
    }
    let text = format!(
        "{rule}, but login allows {own} in {own_window} seconds, so anyone can lock accounts from the Internet; set \
         login.failures_per_account below {threshold}, and login.window_seconds to at least {window}"
    );
    check.add("lockout", CheckStepOutcome::Warning, text);
}
