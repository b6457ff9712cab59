//! `user import`: imports users of another system with their password hashes, all or none.
//!
//! Checks everything first and reports errors by line. One commit writes the users.

use super::answer::{Answer, ImportAnswer};
use super::directory::{CommandError, Directory};
use super::import_settings::Import;
use super::people_check::{STEP, existing, judge, refused};
use super::people_file::{LineFault, MAX_PEOPLE};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::user::{Subject, User, UserState};
use sealgate_store::AddOutcome;
use sealgate_system::clock::random;

/// Last line of an error report.
const NOBODY: &str = "no user was imported";

pub(super) async fn execute(directory: &Directory<'_>, import: Import) -> Result<Answer, CommandError> {
    let Import { dry_run, file, .. } = import;
    let (now, skipped) = (directory.clock.now(), file.skipped);
    let mut judged = judge(file, MAX_PEOPLE, now).await?;
    judged.faults.extend(existing(directory, &judged.people).await?);
    if !judged.faults.is_empty() {
        return Err(refused(judged.faults, NOBODY));
    }
    if judged.people.is_empty() {
        return Err(CommandError::invalid("the file contains no users"));
    }
    let answer = ImportAnswer {
        dry_run,
        people: judged.people.len(),
        without_password: judged.people.iter().filter(|(_, user)| user.password.is_none()).count(),
        disabled: judged.people.iter().filter(|(_, user)| user.state == UserState::Disabled).count(),
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
        // A user was added concurrently.
        AddOutcome::Exists => {
            let mut faults = existing(directory, &judged.people).await?;
            if faults.is_empty() {
                faults.push(LineFault::new(0, "users were added at the same time; repeat the command"));
            }
            return Err(refused(faults, NOBODY));
        }
    }
    record(directory, &users).await;
    Ok(Answer::Imported(answer))
}

/// Records in the audit log that each user was added.
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
