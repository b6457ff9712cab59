//! `user import`: people of another system, with the hashes of their passwords. All of them or nobody: everything is judged
//! first, with a report by line, and one commit writes what was judged.

use std::collections::{BTreeMap, HashMap};

use super::answer::{Answer, ImportAnswer};
use super::directory::{CommandError, Directory};
use super::import_settings::Import;
use super::people_file::{LineFault, MOST_PEOPLE, PeopleFile, PersonRow};
use crate::clock::random;
use crate::domain::audit::AuditKind;
use crate::domain::profile::{LONGEST_NAME, MOST_GROUPS, is_group, is_line, is_phone_number, is_seen};
use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Subject, User, UserState};
use crate::domain::username::Username;
use crate::password;
use crate::store::AddOutcome;

/// Faults that one report tells one by one.
const MOST_FAULTS: usize = 1000;
/// People after whom others on the same thread have their turn, and records of the audit trail that are written at once.
const STEP: usize = 128;

/// The people of a file, as far as they can be taken, with their lines.
#[derive(Default)]
struct Judged {
    people: Vec<(usize, User)>,
    faults: Vec<LineFault>,
    /// How many have a hash of each scheme.
    hashes: BTreeMap<String, usize>,
    groups: BTreeMap<String, usize>,
}

pub(super) async fn execute(directory: &Directory<'_>, import: Import) -> Result<Answer, CommandError> {
    let Import { dry_run, file, .. } = import;
    let (now, skipped) = (directory.clock.now(), file.skipped);
    let judged = tokio::task::spawn_blocking(move || judge(file, now)).await;
    let mut judged =
        judged.map_err(|_| CommandError::invalid("the file could not be read through; look at the log"))?;
    judged.faults.extend(existing(directory, &judged.people).await?);
    if !judged.faults.is_empty() {
        return Err(refused(judged.faults));
    }
    if judged.people.is_empty() {
        return Err(CommandError::invalid("the file holds nobody"));
    }
    let answer = ImportAnswer {
        dry_run,
        people: judged.people.len(),
        without_password: judged.people.iter().filter(|(_, user)| user.password.is_none()).count(),
        skipped,
        hashes: judged.hashes,
        groups: judged.groups,
    };
    if dry_run {
        return Ok(Answer::Imported(answer));
    }
    for (_, user) in &mut judged.people {
        user.sub = Subject::from_random(random(directory.entropy));
    }
    let users: Vec<User> = judged.people.iter().map(|(_, user)| user.clone()).collect();
    match directory.store.add_users(&users).await? {
        AddOutcome::Added => {}
        // Somebody was added at this very moment.
        AddOutcome::Exists => {
            let mut faults = existing(directory, &judged.people).await?;
            if faults.is_empty() {
                faults.push(LineFault::new(0, "people were added meanwhile; import again"));
            }
            return Err(refused(faults));
        }
    }
    record(directory, &users).await;
    Ok(Answer::Imported(answer))
}

/// Takes down that each of them was added.
async fn record(directory: &Directory<'_>, users: &[User]) {
    for some in users.chunks(STEP) {
        if let Some((last, others)) = some.split_last() {
            let event = |user: &User| directory.event(AuditKind::UserCreated).of(user.sub).with_detail("import");
            for user in others {
                directory.trail.note(event(user));
            }
            directory.record(event(last)).await;
        }
    }
}

fn refused(mut faults: Vec<LineFault>) -> CommandError {
    faults.sort();
    let more = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    let mut lines: Vec<String> = faults.iter().map(LineFault::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.push("nobody was imported".to_owned());
    CommandError::Invalid(lines)
}

/// Those of whom somebody has the address or the username already.
async fn existing(directory: &Directory<'_>, people: &[(usize, User)]) -> Result<Vec<LineFault>, CommandError> {
    let mut faults = Vec::new();
    for (number, (line, user)) in people.iter().enumerate() {
        if number % STEP == 0 {
            tokio::task::yield_now().await;
        }
        if directory.store.user_by_email(&user.email).await?.is_some() {
            faults.push(LineFault::of(*line, "email", "a person with this address exists already; remove the line"));
        }
        if let Some(username) = &user.username
            && directory.store.user_by_username(username).await?.is_some()
        {
            let fault = "a person with this username exists already; write another one, or none";
            faults.push(LineFault::of(*line, "username", fault));
        }
    }
    Ok(faults)
}

fn judge(file: PeopleFile, now: UnixTime) -> Judged {
    let mut judged = Judged { faults: file.faults, ..Judged::default() };
    if file.rows.len() > MOST_PEOPLE {
        judged.faults.push(LineFault::new(0, format_args!("more than {MOST_PEOPLE} people; split the file")));
        return judged;
    }
    let mut lines = HashMap::<[u8; 32], usize>::new();
    for row in file.rows {
        judged.person(&row, now, &mut lines);
    }
    judged
}

impl Judged {
    fn person(&mut self, row: &PersonRow, now: UnixTime, lines: &mut HashMap<[u8; 32], usize>) {
        let line = row.line;
        let before = self.faults.len();
        let mut fault = |field: &str, fault: &str| self.faults.push(LineFault::of(line, field, fault));
        let email = match row.email.as_str() {
            "" => {
                fault("email", "it is missing; everybody signs in with an address");
                None
            }
            email => Email::parse(email).filter(|email| is_seen(email.as_str())).or_else(|| {
                fault("email", "an e-mail address is written as name@host, without spaces");
                None
            }),
        };
        let username = Username::typed(&row.username);
        if username.is_none() && !row.username.is_empty() {
            fault(
                "username",
                "a username has 1 to 64 of a-z, 0-9, '.', '_' and '-', a letter first, a letter or a digit last; write another one, or \
                 none",
            );
        }
        if !is_line(&row.name, LONGEST_NAME) {
            fault(
                "name",
                &format!("a name has 1 to {LONGEST_NAME} characters, all of them visible, and no line breaks"),
            );
        }
        let phone_number = Some(row.phone_number.clone()).filter(|number| !number.is_empty());
        if phone_number.as_deref().is_some_and(|number| !is_phone_number(number)) {
            fault("phone_number", "it is written as +90 555 111 22 33: a plus sign and 6 to 15 digits");
        }
        if row.groups.len() > MOST_GROUPS {
            fault("groups", &format!("a person is in at most {MOST_GROUPS} groups"));
        }
        if !row.groups.iter().all(|group| is_group(group)) {
            fault("groups", "a group has 1 to 100 visible characters and no commas");
        }
        let hash = Some(row.password_hash.expose()).filter(|hash| !hash.is_empty()).map(password::import_hash);
        let hash = hash.transpose().unwrap_or_else(|why| {
            fault("password_hash", &why.to_string());
            None
        });
        // Of what many have in common the first one is no fault.
        let mut twice = |field: &str, key: SecretHash| {
            if let Some(first) = lines.get(key.as_bytes()) {
                fault(field, &format!("line {first} has the same; leave one of them"));
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
        let (Some(email), true) = (email, self.faults.len() == before) else { return };
        if let Some((_, scheme)) = &hash {
            *self.hashes.entry((*scheme).to_owned()).or_default() += 1;
        }
        for group in &row.groups {
            *self.groups.entry(group.clone()).or_default() += 1;
        }
        let user = User {
            // Given when they are written.
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
            state: UserState::Enabled,
            created_at: now,
            updated_at: now,
        };
        self.people.push((line, user));
    }
}
