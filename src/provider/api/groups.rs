//! Groups and their members.

use serde_json::{Value, json};

use super::body::{Field, Kind, field};
use super::problem::ApiProblem;
use super::{Call, Reply};
use http::StatusCode;
use sealgate_admin::change_group;
use sealgate_admin::command::{Command, UserCommand, UserListFilter};
use sealgate_admin::user_settings::UserChanges;
use sealgate_admin::{CommandError, UserRef};
use sealgate_domain::profile::is_group;
use sealgate_domain::user_list::UserList;

/// Maximum number of groups on a page.
const GROUPS_PER_PAGE: usize = 100;

pub(super) const AFTER: &[Field] = &[field("after", Kind::Text(100), "Value of `next` on the previous page")];

pub(super) const NEW_NAME: &[Field] = &[field("name", Kind::Text(100), "New name of the group")];

/// Lists the groups that have members, by name.
pub(super) async fn list(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let after = call.query.some_text("after").map(str::to_owned);
    if after.as_ref().is_some_and(|after| !is_group(after)) {
        return Err(CommandError::Cursor.into());
    }
    let list = call.sealgate.user_lists.current(&call.sealgate.store, call.ctx.now).await?;
    let mut groups = list.with(UserList::groups).await?;
    groups.sort();
    groups.retain(|(name, _)| after.as_ref().is_none_or(|after| name > after));
    let next = (groups.len() > GROUPS_PER_PAGE).then(|| groups[GROUPS_PER_PAGE - 1].0.clone());
    let rows: Vec<Value> = groups
        .into_iter()
        .take(GROUPS_PER_PAGE)
        .map(|(name, members)| json!({ "name": name, "members": members }))
        .collect();
    Ok(Reply::json(StatusCode::OK, &json!({ "groups": rows, "next": next })))
}

impl Call<'_> {
    /// Returns the group that the path names.
    ///
    /// # Errors
    /// 404 if the text is not a valid group.
    fn group(&self) -> Result<String, ApiProblem> {
        let name = self.parameter(0);
        if is_group(name) {
            Ok(name.to_owned())
        } else {
            Err(ApiProblem::not_found(format!("{name:?} is not a group")))
        }
    }
}

pub(super) async fn members(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let filter = UserListFilter { group: Some(call.group()?), ..UserListFilter::default() };
    let after = call.query.some_text("after").map(str::to_owned);
    call.command(Command::User(UserCommand::List { filter, after })).await
}

/// Returns whether the user is in the group, with the user.
async fn member(call: &Call<'_>) -> Result<(String, UserRef, Value, bool), ApiProblem> {
    let (group, user) = (call.group()?, call.user(1)?);
    let shown = call.shown_user(&user).await?;
    let has = |groups: &Value| groups.as_array().is_some_and(|groups| groups.iter().any(|one| *one == group.as_str()));
    let is_member = has(&shown["groups"]) || has(&shown["source"]["groups"]);
    Ok((group, user, shown, is_member))
}

pub(super) async fn show_member(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let (group, user, shown, is_member) = member(call).await?;
    if is_member {
        return Ok(Reply::object(&shown));
    }
    Err(ApiProblem::not_found(format!("the user {user} is not in the group {group:?}")))
}

/// Adds a user to a group. Changes nothing if the user is a member.
pub(super) async fn add_member(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let (group, user) = (call.group()?, call.user(1)?);
    let changes = Box::new(UserChanges::of_groups(vec![group], Vec::new()));
    call.execute(Command::User(UserCommand::Set { user, changes })).await?;
    Ok(Reply::nothing())
}

/// Removes a user from a group that was assigned in this installation.
pub(super) async fn remove_member(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let (group, user, shown, _) = member(call).await?;
    let is_own = shown["groups"].as_array().is_some_and(|groups| groups.iter().any(|one| *one == group.as_str()));
    if !is_own {
        return Err(ApiProblem::not_found(format!("the user {user} was not added to the group {group:?} here")));
    }
    let changes = Box::new(UserChanges::of_groups(Vec::new(), vec![group]));
    call.execute(Command::User(UserCommand::Set { user, changes })).await?;
    Ok(Reply::nothing())
}

/// Renames a group: moves all of its members to another name.
pub(super) async fn rename(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let to = call.body.some_text("name").unwrap_or_default().to_owned();
    let group = call.group()?;
    if group == to {
        return Ok(changed(0));
    }
    change(call, &group, Some(&to)).await
}

/// Removes all members from a group.
pub(super) async fn delete(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    change(call, &call.group()?, None).await
}

async fn change(call: &Call<'_>, group: &str, to: Option<&str>) -> Result<Reply, ApiProblem> {
    let count = change_group(&call.context(), group, to, None).await.map_err(|error| call.failed(error))?;
    Ok(changed(count))
}

fn changed(count: usize) -> Reply {
    Reply::json(StatusCode::OK, &json!({ "users_changed": count }))
}
