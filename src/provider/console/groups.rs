//! `/console/groups` and `/console/groups/members`: the list of groups, and the page of a group, where
//! it can be renamed or deleted.

use std::collections::BTreeSet;

use http::{Method, StatusCode};

use crate::console::actions::GroupAction;
use crate::console::client::{command_context, failure_of};
use crate::console::{ConsoleUser, bulk, confirmation, kept_form, user_list};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect};
use sealgate_admin::CommandError;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::console_role::{ConsoleRole, ConsoleRoles};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::is_group;
use sealgate_domain::shown_sign_in_data::ShownSignInData;
use sealgate_domain::user_list::{UserList, UserQuery, UserSelection, alphabetical};
use sealgate_pages::console::{GroupConfirmPage, GroupFault, GroupLine, GroupPage, GroupUse, GroupsPage};
use sealgate_pages::{Done, Problem, html};
use sealgate_store::UserRecords;

/// Path of the list.
pub(super) const PAGE: &str = "/console/groups";

/// Path of the page of a group. The query parameter `name` is the group.
pub(super) const MEMBERS: &str = "/console/groups/members";

/// Maximum number of groups on one page.
const GROUPS_PER_PAGE: usize = 50;

/// Number of users that are read at once to find the members of a group.
const USERS_PER_READ: usize = 256;

/// Maximum number of members on one page.
const MEMBERS_PER_PAGE: usize = 40;

/// Shows the list of groups, or the confirmation of a form that was kept while the administrator
/// signed in again.
pub(super) async fn groups_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if let Some(form) = kept_form::take(ctx, console_user, PAGE).await? {
        return match Change::read(&form)? {
            Ok(change) => confirm(ctx, console_user, &form, &change).await,
            Err(fault) => group_page(ctx, console_user, form.one("name")?.unwrap_or_default(), Some((fault, ""))).await,
        };
    }
    let query = ctx.query()?;
    let wanted = query.one("find")?.unwrap_or_default().trim();
    let wanted = if wanted.chars().count() <= 200 { wanted } else { "" };
    let mut groups = match console_user.listed_groups() {
        Some(managed) => managed_groups(ctx, managed).await?,
        None => all_groups(ctx).await?,
    };
    groups.sort_by_cached_key(|(name, _)| alphabetical(name));
    let searched = alphabetical(wanted);
    groups.retain(|(name, _)| alphabetical(name).contains(&searched));
    let last_page = groups.len().saturating_sub(1) / GROUPS_PER_PAGE;
    let number = page_number(ctx)?.min(last_page);
    let url = |number: usize| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if !wanted.is_empty() {
            query.append_pair("find", wanted);
        }
        ctx.path(&format!("{PAGE}?{}", query.append_pair("page", &(number + 1).to_string()).finish()))
    };
    let shown = groups.iter().skip(number * GROUPS_PER_PAGE).take(GROUPS_PER_PAGE);
    let lines: Vec<GroupLine> = shown
        .map(|(name, members)| GroupLine {
            name: name.clone(),
            url: ctx.path(&page_of(name, 0)),
            members: *members as u64,
            uses: uses(ctx, name).len() as u64,
        })
        .collect();
    let (previous, next) = ((number > 0).then(|| url(number - 1)), (number < last_page).then(|| url(number + 1)));
    let page = GroupsPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(bulk::PAGE)),
        groups: &lines,
        wanted,
        previous: previous.as_deref(),
        next: next.as_deref(),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns all groups with the number of their members.
async fn all_groups(ctx: &RequestContext<'_>) -> Result<Vec<(String, usize)>, Failure> {
    let list = ctx.sealgate.user_lists.current(&ctx.sealgate.store, ctx.now).await?;
    let mut groups = list.with(UserList::groups).await?;
    // Groups of the configuration without members.
    let known: std::collections::HashSet<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    groups.extend(named(ctx).into_iter().filter(|name| !known.contains(name)).map(|name| (name, 0)));
    Ok(groups)
}

/// Returns the groups of a user manager with the number of the members whom the manager manages.
async fn managed_groups(ctx: &RequestContext<'_>, managed: &BTreeSet<String>) -> Result<Vec<(String, usize)>, Failure> {
    let list = ctx.sealgate.user_lists.current(&ctx.sealgate.store, ctx.now).await?;
    let (now, groups) = (ctx.now, managed.clone());
    let query = UserQuery { role_groups: role_groups(ctx), managed: Some(groups.clone()), ..UserQuery::default() };
    let count = move |list: &UserList| {
        let members = |group: String| {
            let query = UserQuery { group: Some(group.clone()), ..query.clone() };
            (group, list.select(&query, now).total)
        };
        groups.into_iter().map(members).collect()
    };
    Ok(list.with(count).await?)
}

/// Returns the number of the requested page, from 0.
fn page_number(ctx: &RequestContext<'_>) -> Result<usize, Failure> {
    Ok(ctx.query()?.one("page")?.and_then(|number| number.parse::<usize>().ok()).unwrap_or(1).max(1) - 1)
}

/// Returns the path and query of a page of a group's members, from page 0.
pub(super) fn page_of(group: &str, number: usize) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("name", group);
    if number > 0 {
        query.append_pair("page", &(number + 1).to_string());
    }
    format!("{MEMBERS}?{}", query.finish())
}

/// Shows the page of a group (GET), or renames or deletes the group (POST).
pub(super) async fn members_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        let query = ctx.query()?;
        let name = query.one("name")?.filter(|name| is_group(name));
        // For a user manager, other groups do not exist.
        let name = name.filter(|name| console_user.listed_groups().is_none_or(|managed| managed.contains(*name)));
        let name = name.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
        return group_page(ctx, console_user, name, None).await;
    }
    let form = console_user.form(ctx)?;
    let change = match Change::read(&form)? {
        Ok(change) => change,
        Err(fault) => {
            let (name, to) = (form.one("name")?.unwrap_or_default(), form.one("to")?.unwrap_or_default());
            return group_page(ctx, console_user, name, Some((fault, to))).await;
        }
    };
    if loses_role(ctx, console_user, &change) {
        return group_page(ctx, console_user, &change.name, Some((GroupFault::OwnRole, ""))).await;
    }
    if !confirmation::is_confirmed(&form) {
        return confirm(ctx, console_user, &form, &change).await;
    }
    let work = Box::pin(async {
        let context = command_context(ctx, console_user);
        let Promotions { shown, .. } = Promotions::find(ctx, &change).await?;
        if !confirmation::has_shown(&form, &shown)? {
            return Ok(Effect::Refused(confirm(ctx, console_user, &form, &change).await?));
        }
        match sealgate_admin::change_group(&context, &change.name, change.to.as_deref(), Some(&shown)).await {
            Ok(_) => {}
            // The members before this one are already changed.
            Err(CommandError::SignInDataChanged) => {
                return Ok(Effect::Refused(confirm(ctx, console_user, &form, &change).await?));
            }
            Err(error) => return Err(failure_of(error)),
        }
        let page = change.to.as_ref().map_or_else(|| format!("{PAGE}?"), |to| format!("{}&", page_of(to, 0)));
        Ok(Effect::Done { page: format!("{page}done={}", Done::Users.as_str()), secret: None })
    });
    submission::once(ctx, &console_user.visitor, &form, work).await
}

/// Renaming of a group, or its deletion.
struct Change {
    name: String,
    to: Option<String>,
}

impl Change {
    fn read(form: &Params) -> Result<Result<Self, GroupFault>, Failure> {
        let name = form.one("name")?.filter(|name| is_group(name)).map(str::to_owned);
        let name = name.ok_or(Failure::page(Problem::InvalidRequest))?;
        Ok(match GroupAction::read(form)? {
            GroupAction::Delete => Ok(Self { name, to: None }),
            GroupAction::Rename => {
                let to = form.one("to")?.map(str::trim).filter(|to| is_group(to) && *to != name);
                to.map(|to| Self { name, to: Some(to.to_owned()) }).ok_or(GroupFault::Name)
            }
        })
    }
}

/// Members who get rights in the console when a group is renamed.
#[derive(Default)]
struct Promotions {
    /// Sign-in data of the members.
    shown: ShownSignInData,
    /// Number of the members whom a user manager could sign in as.
    open_to_managers: usize,
}

impl Promotions {
    async fn find(ctx: &RequestContext<'_>, change: &Change) -> Result<Self, Failure> {
        let (console, store) = (&ctx.sealgate.config.console, &ctx.sealgate.store);
        let (mut found, mut after) = (Self::default(), None);
        let Some(to) = change.to.as_ref().filter(|to| console.is_role_group(to)) else { return Ok(found) };
        loop {
            let rows = store.user_rows(after, USERS_PER_READ).await?;
            let Some(last) = rows.last() else { return Ok(found) };
            after = Some(last.subject);
            for row in rows {
                let UserRecords { user, factors, .. } = row.read()?;
                let mut next = user.clone();
                if next.groups.remove(&change.name) && next.groups.insert(to.clone()) && console.promotes(&user, &next)
                {
                    found.shown.add(&user, factors.as_ref());
                    found.open_to_managers += usize::from(user.is_open_to_manager());
                }
            }
        }
    }
}

/// Returns whether the administrator would lose the role, and could not undo the change.
fn loses_role(ctx: &RequestContext<'_>, console_user: &ConsoleUser, change: &Change) -> bool {
    let user = &console_user.visitor.user;
    let is_admins = change.to.is_some() && change.to == ctx.sealgate.config.console.admins;
    user.groups.contains(&change.name) && !is_admins && !bulk::stays_administrator(ctx, user, &change.name)
}

async fn confirm(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
    change: &Change,
) -> Result<Response, Failure> {
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let selection = members(ctx, console_user, &change.name, 0).await?;
    let promotions = Promotions::find(ctx, change).await?;
    let digest = promotions.shown.digest();
    let mut fields = confirmation::fields(form, &once);
    fields.extend(confirmation::sign_in_data_field(digest.as_ref()));
    let new_uses = change.to.as_ref().map(|to| uses(ctx, to)).unwrap_or_default();
    let page = GroupConfirmPage {
        inside,
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(MEMBERS)),
        name: &change.name,
        to: change.to.as_deref(),
        total: selection.total,
        uses: &uses(ctx, &change.name),
        new_uses: &new_uses,
        roles: change.to.as_ref().map_or(ConsoleRoles::NONE, |to| bulk::of_group(ctx, to)),
        open_to_managers: promotions.open_to_managers as u64,
        fields: &fields,
        back: &ctx.path(&page_of(&change.name, 0)),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

async fn members(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    group: &str,
    number: usize,
) -> Result<UserSelection, Failure> {
    let list = ctx.sealgate.user_lists.current(&ctx.sealgate.store, ctx.now).await?;
    let (skip, limit, now) = (number.saturating_mul(MEMBERS_PER_PAGE), MEMBERS_PER_PAGE, ctx.now);
    let query = UserQuery {
        group: Some(group.to_owned()),
        skip,
        limit,
        role_groups: role_groups(ctx),
        managed: console_user.listed_groups().cloned(),
        ..UserQuery::default()
    };
    Ok(list.with(move |list| list.select(&query, now)).await?)
}

/// Shows the page of a group. `fault` is the reason why the form changed nothing, and the new name
/// as typed.
async fn group_page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    name: &str,
    fault: Option<(GroupFault, &str)>,
) -> Result<Response, Failure> {
    let selection = members(ctx, console_user, name, page_number(ctx)?).await?;
    let lines = user_list::lines(ctx, &selection.users).await?;
    let number = selection.skipped / MEMBERS_PER_PAGE;
    let previous = (number > 0).then(|| ctx.path(&page_of(name, number - 1)));
    let has_next = selection.skipped + MEMBERS_PER_PAGE < selection.total;
    let next = has_next.then(|| ctx.path(&page_of(name, number + 1)));
    let page = GroupPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(MEMBERS)),
        members_csrf: &console_user.visitor.csrf(ctx, &ctx.path(bulk::PAGE)),
        name,
        to: fault.map_or("", |(_, to)| to),
        members: &lines,
        skipped: selection.skipped,
        total: selection.total,
        uses: &uses(ctx, name),
        may_change: console_user.may_change_group(name),
        is_of_directory: lines.iter().any(|line| !line.user.groups.contains(name)),
        back: &page_of(name, number),
        previous: previous.as_deref(),
        next: next.as_deref(),
        fault: fault.map(|(fault, _)| fault),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns the groups that give a console role, for a query.
pub(super) fn role_groups(ctx: &RequestContext<'_>) -> Vec<(String, ConsoleRole)> {
    ctx.sealgate.config.console.role_groups().map(|(group, role)| (group.to_owned(), role)).collect()
}

/// Returns the places in the configuration that name a group.
fn uses<'a>(ctx: &'a RequestContext<'_>, group: &str) -> Vec<GroupUse<'a>> {
    let config = &ctx.sealgate.config;
    let names = |groups: &[String]| groups.iter().any(|known| known == group);
    let mut uses = Vec::new();
    for app in &config.apps {
        let title = app.called();
        for route in app.routes.iter().filter(|route| names(&route.groups)) {
            uses.push(GroupUse::Rule { app: title, path: &route.path, methods: &route.methods });
        }
        if app.maintenance.as_ref().is_some_and(|maintenance| names(&maintenance.groups)) {
            uses.push(GroupUse::Maintenance { app: title });
        }
        if app.login.iter().flat_map(|login| &login.group_accounts).any(|(known, _)| known == group) {
            uses.push(GroupUse::Account { app: title });
        }
    }
    let of_roles = config.console.role_groups().filter(|(known, _)| *known == group);
    uses.extend(of_roles.map(|(_, role)| GroupUse::Console(role)));
    let managers = config.console.user_managers.iter().filter(|managers| names(&managers.manages));
    uses.extend(managers.map(|managers| GroupUse::Managed { group: &managers.group }));
    if config.factors.groups.contains_key(group) {
        uses.push(GroupUse::Factors);
    }
    uses
}

/// Returns the groups that the configuration names.
fn named(ctx: &RequestContext<'_>) -> BTreeSet<String> {
    let config = &ctx.sealgate.config;
    let of_apps = config.apps.iter().flat_map(|app| {
        let of_routes = app.routes.iter().flat_map(|route| &route.groups);
        let of_maintenance = app.maintenance.iter().flat_map(|maintenance| &maintenance.groups);
        let of_login = app.login.iter().flat_map(|login| login.group_accounts.iter().map(|(group, _)| group));
        of_routes.chain(of_maintenance).chain(of_login)
    });
    let managed = config.console.user_managers.iter().flat_map(|managers| &managers.manages);
    let of_console = config.console.role_groups().map(|(group, _)| group.to_owned()).chain(managed.cloned());
    of_apps.chain(config.factors.groups.keys()).cloned().chain(of_console).collect()
}
