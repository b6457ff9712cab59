//! `user invite --from`: invites many users at once. If a row has an error, no user is invited.
//!
//! All rows are checked first, and errors are reported by line. One commit writes the accounts, the
//! invitations and the mails.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::{Answer, InvitedAnswer};
use super::context::{CommandContext, CommandError};
use super::invitations::{InvitationSender, mail_fault};
use super::user_settings::Invitees;
use super::users_file::UserRow;
use crate::import::{CheckedUsers, STEP, check_file, existing, refused};
use crate::users::{decisions, with_membership};
use sealgate_domain::account_links::{AccountLinks, INVITATION_LIFE};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::language::Language;
use sealgate_domain::line_fault::{LineFault, LineProblem};
use sealgate_domain::mail::MailKind;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject, User};
use sealgate_store::AddOutcome;
use sealgate_system::clock::random;

/// Maximum number of users in one invitation.
const MAX_INVITED: usize = 5_000;

/// Outbox capacity that is reserved for mails that users wait for, such as reset links.
const RESERVED_MAILS: usize = 1_000;

/// Last line of an error report.
const NOBODY: &str = "no user was invited";

/// Options of an invited user that are not part of the account.
struct InvitationOptions {
    app: Option<String>,
    language: Option<Language>,
}

pub(super) async fn execute(context: &CommandContext<'_>, invitees: Invitees) -> Result<Answer, CommandError> {
    let Invitees { mut file, groups, app, language, dry_run } = invitees;
    let sender = InvitationSender::find(context, 0).await?;
    if let Some(fault) = app.as_deref().and_then(|app| sender.app_fault(app)) {
        return Err(CommandError::invalid(fault));
    }
    let (mut options, mut faults) = (Vec::with_capacity(file.rows.len()), Vec::new());
    for row in &mut file.rows {
        row.groups.extend(groups.iter().cloned());
        let option = InvitationOptions {
            app: Some(row.app.clone()).filter(|app| !app.is_empty()).or_else(|| app.clone()),
            language: Language::parse(&row.language).or(language),
        };
        faults.extend(faults_of(&sender, row, &option));
        options.push(option);
    }
    file.faults.extend(faults);
    let now = context.clock.now();
    let mut checked = check_file(file, MAX_INVITED, now).await?;
    checked.faults.extend(existing(context, &checked.people).await?);
    if !checked.faults.is_empty() {
        return Err(refused(checked.faults, NOBODY));
    }
    if checked.people.is_empty() {
        return Err(refused(vec![LineFault::new(0, LineProblem::NoUsers)], NOBODY));
    }
    let minutes = minutes(context, &sender, checked.people.len())?;
    let answer = answer(dry_run, minutes, now, &sender, &checked, &options);
    if dry_run {
        return Ok(Answer::Invited(answer));
    }
    // Every row has become a user, because there were no errors. `options` has the same order.
    let (mut invited, mut mails) = (Vec::with_capacity(checked.people.len()), Vec::with_capacity(checked.people.len()));
    for (number, ((_, user), option)) in checked.people.iter().zip(options).enumerate() {
        if number % STEP == STEP - 1 {
            tokio::task::yield_now().await;
        }
        let (sub, by_manager) = (Subject::from_random(random(context.entropy)), decisions(context));
        let user = User { sub, by_manager, ..user.clone() };
        let (invitation, mail) = sender.invitation(&user, option.app, option.language)?;
        let links = AccountLinks { invitation: Some(invitation), ..AccountLinks::none(user.sub) };
        invited.push((user, links));
        mails.push(mail);
    }
    match context.store.add_invited(&invited, &mails).await? {
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
    record(context, invited.iter().map(|(user, _)| user)).await;
    Ok(Answer::Invited(answer))
}

/// Returns the errors of a row that concern only invitations.
fn faults_of(sender: &InvitationSender<'_>, row: &UserRow, option: &InvitationOptions) -> Vec<LineFault> {
    let mut faults = Vec::new();
    // A row without a username too gets the error of `check_file`.
    if row.email.is_empty() && !row.username.is_empty() {
        let problem = LineProblem::other("an invitation needs an e-mail address");
        faults.push(LineFault::in_column(row.line, "email", problem));
    }
    if let Some(fault) = Email::parse(&row.email).as_ref().and_then(mail_fault) {
        faults.push(LineFault::in_column(row.line, "email", LineProblem::other(fault)));
    }
    if option.app.as_deref().is_some_and(|app| sender.title(app).is_none()) {
        let problem = LineProblem::other(sender.known_apps("no application has this name"));
        faults.push(LineFault::in_column(row.line, "app", problem));
    }
    if !row.language.is_empty() && Language::parse(&row.language).is_none() {
        let problem = LineProblem::other("write tr or en, or leave it empty");
        faults.push(LineFault::in_column(row.line, "language", problem));
    }
    faults
}

/// Returns the number of minutes until the last mail is sent.
///
/// # Errors
/// If the outbox has no capacity for all mails, or could not send them in time.
fn minutes(context: &CommandContext<'_>, sender: &InvitationSender<'_>, people: usize) -> Result<usize, CommandError> {
    let outbox = context.store.outbox_room();
    let room = outbox.free.saturating_sub(RESERVED_MAILS);
    if people > room {
        return Err(CommandError::invalid(format!(
            "the outbox has room for {room} invitations, and the file has {people}; split the file, or wait \
             until more messages are sent (see: sealgate mail list); {NOBODY}"
        )));
    }
    let pace = usize::try_from(sender.per_minute()).unwrap_or(usize::MAX).max(1);
    let minutes = (outbox.waiting + people).div_ceil(pace);
    let tried_for = MailKind::Invitation.tried_for();
    if Duration::from_mins(minutes as u64) > tried_for {
        return Err(CommandError::invalid(format!(
            "at {pace} messages a minute, sending takes {} hours, and delivery of an invitation is attempted \
             for {} hours; raise mail.per_minute, or split the file; {NOBODY}",
            minutes / 60,
            tried_for.as_secs() / 3600
        )));
    }
    Ok(minutes)
}

fn answer(
    dry_run: bool,
    minutes: usize,
    now: UnixTime,
    sender: &InvitationSender<'_>,
    checked: &CheckedUsers,
    options: &[InvitationOptions],
) -> InvitedAnswer {
    let (mut apps, mut languages) = (BTreeMap::new(), BTreeMap::new());
    for option in options {
        if let Some(app) = &option.app {
            *apps.entry(app.clone()).or_default() += 1;
        }
        *languages.entry(sender.language(option.language)).or_default() += 1;
    }
    let expires_at = now.plus(INVITATION_LIFE);
    InvitedAnswer {
        dry_run,
        people: checked.people.len(),
        groups: checked.groups.clone(),
        apps,
        languages,
        mailed_within_minutes: minutes,
        invitation_expires_at: (!dry_run).then_some(expires_at),
    }
}

/// Records in the audit log that each user was added and invited.
async fn record(context: &CommandContext<'_>, invited: impl Iterator<Item = &User>) {
    let invited: Vec<&User> = invited.collect();
    for some in invited.chunks(STEP / 2) {
        if let Some((last, others)) = some.split_last() {
            let event = |kind, user: &User| context.event(kind).for_subject(user.sub);
            for user in others {
                context.trail.note(with_membership(event(AuditKind::UserCreated, user), user));
                context.trail.note(event(AuditKind::InvitationSent, user));
            }
            context.trail.note(with_membership(event(AuditKind::UserCreated, last), last));
            context.record(event(AuditKind::InvitationSent, last)).await;
        }
    }
}
