//! Changes to all members of a group.

use crate::context::{CommandContext, CommandError};
use crate::users;
use crate::users::UserRef;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::profile::{MAX_GROUPS, is_group};
use sealgate_domain::shown_sign_in_data::ShownSignInData;
use sealgate_domain::user::{Subject, User};

/// Number of users that are read, and changed in one commit. Each change is one audit event, and
/// the events of a commit are written before the next one.
const USERS_PER_COMMIT: usize = 64;

/// Moves all members of a group to the group `to`, or removes them from the group if there is none.
/// Returns the number of changed users.
///
/// Groups that a directory has assigned do not change. If the command fails after some commits, the
/// remaining users still have the group, and the command can be repeated.
///
/// With `shown`, members who get rights in the console must have the sign-in data that a page has shown.
///
/// # Errors
/// [`CommandError::Invalid`] if the new name is not valid; [`CommandError::SignInDataChanged`] at the first
/// member with other sign-in data; when the store fails.
pub async fn change_group(
    context: &CommandContext<'_>,
    group: &str,
    to: Option<&str>,
    shown: Option<&ShownSignInData>,
) -> Result<usize, CommandError> {
    if let Some(to) = to.filter(|to| !is_group(to)) {
        return Err(CommandError::invalid(format!("the group {to:?} is invalid")));
    }
    let added = to.map(|to| format!("group added {to}, ")).unwrap_or_default();
    let detail = format!("{added}group removed {group}");
    let (mut after, mut count) = (None, 0);
    loop {
        let users = context.store.users(after, USERS_PER_COMMIT).await?;
        let Some(last) = users.last() else { return Ok(count) };
        after = Some(last.sub);
        let members: Vec<_> = users.iter().filter(|user| user.groups.contains(group)).map(|user| user.sub).collect();
        if members.is_empty() {
            continue;
        }
        if let Some(to) = to.filter(|to| context.console.is_role_group(to)) {
            count += promote(context, &members, (group, to), shown).await?;
            continue;
        }
        let changed = context.store.change_users(&members, |user| {
            let was_member = user.groups.remove(group);
            // The number of groups does not grow, because the old group was removed.
            if let Some(to) = to.filter(|_| was_member && user.groups.len() < MAX_GROUPS) {
                user.groups.insert(to.to_owned());
            }
            was_member
        });
        let changed = changed.await?;
        count += changed.len();
        for subject in changed {
            let event = context.event(AuditKind::UserChanged).for_subject(subject);
            context.trail.note(event.with_detail(detail.clone()));
        }
        if let Err(error) = context.trail.write(context.store).await {
            tracing::error!(%error, "audit records of a change to a group were not saved yet");
        }
    }
}

/// Moves members to a group that gives a console role, with one commit for each, because links and
/// access of a promoted user end.
async fn promote(
    context: &CommandContext<'_>,
    members: &[Subject],
    (group, to): (&str, &str),
    shown: Option<&ShownSignInData>,
) -> Result<usize, CommandError> {
    let change = |user: &mut User| {
        if user.groups.remove(group) {
            user.groups.insert(to.to_owned());
        }
    };
    let mut count = 0;
    for member in members {
        match users::edit(context, &UserRef::Sub(*member), shown, change).await {
            Ok(_) => count += 1,
            // Another request has deleted the user.
            Err(CommandError::Absent(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
