//! `user import`: imports users of another system with their password hashes. If a row has an
//! error, no user is imported.
//!
//! All rows are checked first, and every error is reported with its line. One commit writes the
//! users.

use std::collections::{BTreeMap, HashMap};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, ImportAnswer};
use crate::context::{CommandContext, CommandError, FileFaults};
use crate::users_file::{MAX_USERS, UserRow, UsersFile, UsersSource};
use sealgate_core::password;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::line_fault::{LineFault, LineProblem};
use sealgate_domain::profile::{MAX_GROUPS, MAX_NAME_LENGTH, is_group, is_line, is_phone_number, is_visible};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, ManagerDecisions, Subject, User, UserState};
use sealgate_domain::username::Username;
use sealgate_store::AddOutcome;
use sealgate_system::clock::random;

/// Last line of an error report.
const NOBODY: &str = "no user was imported";

pub(super) async fn execute(context: &CommandContext<'_>, import: Import) -> Result<Answer, CommandError> {
    let Import { dry_run, file, .. } = import;
    let (now, skipped) = (context.clock.now(), file.skipped);
    let mut checked = check_file(file, MAX_USERS, now).await?;
    checked.faults.extend(existing(context, &checked.people).await?);
    if !checked.faults.is_empty() {
        return Err(refused(checked.faults, NOBODY));
    }
    if checked.people.is_empty() {
        return Err(refused(vec![LineFault::new(0, LineProblem::NoUsers)], NOBODY));
    }
    let answer = ImportAnswer {
        dry_run,
        people: checked.people.len(),
        without_password: checked.people.iter().filter(|(_, user)| user.password.is_none()).count(),
        disabled: checked.people.iter().filter(|(_, user)| user.state == UserState::Disabled).count(),
        skipped,
        hashes: checked.hashes,
        groups: checked.groups,
    };
    if dry_run {
        return Ok(Answer::Imported(answer));
    }
    for (_, user) in &mut checked.people {
        user.sub = Subject::from_random(random(context.entropy));
    }
    let users: Vec<User> = checked.people.iter().map(|(_, user)| user.clone()).collect();
    match context.store.add_users(&users).await? {
        AddOutcome::Added => {}
        // Another command has added one of these users in the meantime.
        AddOutcome::Exists => {
            let mut faults = existing(context, &checked.people).await?;
            if faults.is_empty() {
                faults.push(LineFault::new(0, LineProblem::OthersAdded));
            }
            return Err(refused(faults, NOBODY));
        }
    }
    record(context, &users).await;
    Ok(Answer::Imported(answer))
}

/// Records in the audit log that each user was added.
async fn record(context: &CommandContext<'_>, users: &[User]) {
    for some in users.chunks(STEP) {
        if let Some((last, others)) = some.split_last() {
            let event = |user: &User| context.event(AuditKind::UserCreated).for_subject(user.sub).with_detail("import");
            for user in others {
                context.trail.note(event(user));
            }
            context.record(event(last)).await;
        }
    }
}

/// Text of `--help`.
pub(super) const ABOUT: &str = "\
Import the users of another system with their password hashes. If a line has an error, no user is imported, and every error is \
reported with its line.

Accepted hashes: argon2, bcrypt, SHA-crypt ($5$, $6$), PBKDF2 (passlib, PHC, Django, OpenLDAP), {SSHA}, {SHA} and their SHA-2 \
variants. Each is replaced by argon2id at the first sign-in. MD5, DES, plain-text passwords, and hashes that take more than about \
a second to verify are refused. Invite users with such a hash instead (user invite --from), or leave the hash out and send an \
invitation afterwards (user resend-invitation EMAIL). Before the invitation, a user without a hash cannot sign in.

The first line of a CSV file names the columns: name, email or username, and any of groups, password_hash, email_verified, \
phone_number. A user without an e-mail address needs a username. From LDIF, these attributes are read: mail, the name (displayName, cn, or givenName with sn), uid, userPassword, and \
the cn of each memberOf as a group. Entries that are not users are skipped. For htpasswd, give the domain of the addresses with \
--email-domain; without it, the users have only their usernames.";

/// Users to import.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// Source of the users
    #[command(flatten)]
    #[serde(skip)]
    pub source: UsersSource,
    /// Report the effects of the import, without writing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Content of the file
    #[arg(skip)]
    pub file: UsersFile,
}

/// Maximum number of errors that a report lists.
const MAX_FAULTS: usize = 1000;
/// Number of users after which the task yields. Also the number of audit records in one write.
pub(super) const STEP: usize = 128;

/// Valid users of a file with their lines, and the errors.
#[derive(Default)]
pub(super) struct CheckedUsers {
    pub(super) people: Vec<(usize, User)>,
    pub(super) faults: Vec<LineFault>,
    /// Number of users by hash scheme.
    pub(super) hashes: BTreeMap<String, usize>,
    pub(super) groups: BTreeMap<String, usize>,
}

/// Creates the error report. `end` states that nothing was changed.
pub(super) fn refused(mut faults: Vec<LineFault>, end: &'static str) -> CommandError {
    faults.sort_by_key(|fault| fault.line);
    let more = faults.len().saturating_sub(MAX_FAULTS);
    faults.truncate(MAX_FAULTS);
    CommandError::File(FileFaults { faults, more, end })
}

/// Returns an error for each user whose e-mail address or username is already in use.
pub(super) async fn existing(
    context: &CommandContext<'_>,
    people: &[(usize, User)],
) -> Result<Vec<LineFault>, CommandError> {
    let mut faults = Vec::new();
    for (number, (line, user)) in people.iter().enumerate() {
        if number % STEP == 0 {
            tokio::task::yield_now().await;
        }
        if let Some(email) = &user.email
            && context.store.user_by_email(email).await?.is_some()
        {
            faults.push(LineFault::in_column(*line, "email", LineProblem::AddressTaken));
        }
        if let Some(username) = &user.username
            && context.store.user_by_username(username).await?.is_some()
        {
            faults.push(LineFault::in_column(*line, "username", LineProblem::UsernameTaken));
        }
    }
    Ok(faults)
}

/// Checks the content of a file. `most` is the maximum number of users.
pub(super) async fn check_file(file: UsersFile, most: usize, now: UnixTime) -> Result<CheckedUsers, CommandError> {
    let checked = tokio::task::spawn_blocking(move || check_all(file, most, now)).await;
    checked.map_err(|_| CommandError::invalid("the file could not be checked; see the server's log"))
}

fn check_all(file: UsersFile, most: usize, now: UnixTime) -> CheckedUsers {
    let mut checked = CheckedUsers { faults: file.faults, ..CheckedUsers::default() };
    if let Some(row) = file.rows.get(most) {
        checked.faults.push(LineFault::new(row.line, LineProblem::TooManyUsers { most }));
        return checked;
    }
    let mut lines = HashMap::<[u8; 32], usize>::new();
    for row in file.rows {
        checked.check_row(&row, now, &mut lines);
    }
    checked
}

impl CheckedUsers {
    fn check_row(&mut self, row: &UserRow, now: UnixTime, lines: &mut HashMap<[u8; 32], usize>) {
        let line = row.line;
        let before = self.faults.len();
        let mut fault = |column, problem| self.faults.push(LineFault::in_column(line, column, problem));
        let email = match row.email.as_str() {
            "" => {
                if row.username.is_empty() {
                    fault("email", LineProblem::NoIdentifier);
                } else if row.email_verified {
                    fault("email_verified", LineProblem::NoAddressToVerify);
                }
                None
            }
            email => Email::parse(email).filter(|email| is_visible(email.as_str())).or_else(|| {
                fault("email", LineProblem::Address);
                None
            }),
        };
        let username = Username::typed(&row.username);
        if username.is_none() && !row.username.is_empty() {
            fault("username", LineProblem::Username);
        }
        if !is_line(&row.name, MAX_NAME_LENGTH) {
            fault("name", LineProblem::Name { most: MAX_NAME_LENGTH });
        }
        let phone_number = Some(row.phone_number.clone()).filter(|number| !number.is_empty());
        if phone_number.as_deref().is_some_and(|number| !is_phone_number(number)) {
            fault("phone_number", LineProblem::PhoneNumber);
        }
        if row.groups.len() > MAX_GROUPS {
            fault("groups", LineProblem::TooManyGroups { most: MAX_GROUPS });
        }
        if !row.groups.iter().all(|group| is_group(group)) {
            fault("groups", LineProblem::Group);
        }
        let hash = Some(row.password_hash.expose()).filter(|hash| !hash.is_empty()).map(password::import_hash);
        let hash = hash.transpose().unwrap_or_else(|why| {
            fault("password_hash", why.into());
            None
        });
        // Only repetitions of a value are errors, not its first occurrence.
        let mut twice = |column, key: SecretHash| {
            if let Some(&first) = lines.get(key.as_bytes()) {
                fault(column, LineProblem::Repeated { first });
            } else {
                lines.insert(*key.as_bytes(), line);
            }
        };
        if let Some(email) = &email {
            twice("email", email.lookup_key());
        }
        if let Some(username) = &username {
            twice("username", username.lookup_key());
        }
        if self.faults.len() != before {
            return;
        }
        if let Some((_, scheme)) = &hash {
            *self.hashes.entry((*scheme).to_owned()).or_default() += 1;
        }
        for group in &row.groups {
            *self.groups.entry(group.clone()).or_default() += 1;
        }
        let is_disabled = row.is_disabled || row.expires_at.is_some_and(|expires| expires <= now);
        let state = if is_disabled { UserState::Disabled } else { UserState::Enabled };
        let user = User {
            // The id is assigned when the user is written.
            sub: Subject::from_bytes([0; 16]),
            email,
            email_verified: row.email_verified,
            username,
            name: row.name.clone(),
            phone_number,
            picture: None,
            roles: [].into(),
            groups: row.groups.iter().cloned().collect(),
            password: hash.map(|(hash, _)| hash),
            source: None,
            state,
            created_at: now,
            updated_at: now,
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        };
        self.people.push((line, user));
    }
}
