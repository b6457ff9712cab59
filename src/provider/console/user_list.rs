//! `/console/users`: the list of users, with search, filters, order and pages.

use http::StatusCode;

use crate::console::{ConsoleUser, bulk, groups, kept_form};
use crate::request::ProviderRequest as _;
use sealgate_core::user_list::MAX_LISTED_USERS;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::console_role::ConsoleRole;
use sealgate_domain::factors::FactorKind;
use sealgate_domain::user_list::{ListedState, ListedUser, UserList, UserOrder, UserQuery, UserSelection};
use sealgate_pages::console::{UserFilter, UserLine, UsersPage};
use sealgate_pages::html;

/// Path of the list.
pub(super) const PAGE: &str = "/console/users";

/// Maximum number of users on one page. It keeps the page below 24 KiB.
const USERS_PER_PAGE: usize = 25;

/// Maximum number of groups that the filter proposes.
const PROPOSED_GROUPS: usize = 40;

/// Maximum length of a search text and of a name in the filter, in bytes.
const MAX_TEXT_BYTES: usize = 1000;

/// Value of a filter for users without the property.
const NONE: &str = "none";

/// Filter and part of the list, as in the query. Unknown values count as not set.
#[derive(Default)]
pub(super) struct Wanted {
    find: String,
    group: String,
    state: Option<ListedState>,
    role: String,
    factor: String,
    source: String,
    sort: UserOrder,
    reversed: bool,
    /// Number of the page, from 1.
    page: usize,
}

impl Wanted {
    pub(super) fn read(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let query = ctx.query()?;
        let text = |name| -> Result<String, Failure> {
            let text = query.one(name)?.unwrap_or_default().trim();
            Ok(if text.len() <= MAX_TEXT_BYTES { text.to_owned() } else { String::new() })
        };
        let known = |value: String, is_known: fn(&str) -> bool| if is_known(&value) { value } else { String::new() };
        Ok(Self {
            find: text("find")?,
            group: text("group")?,
            state: ListedState::parse(&text("state")?),
            role: known(text("role")?, |role| role == NONE || ConsoleRole::parse(role).is_some()),
            factor: known(text("factor")?, |factor| factor == NONE || FactorKind::parse(factor).is_some()),
            source: text("source")?,
            sort: UserOrder::parse(&text("sort")?).unwrap_or_default(),
            reversed: query.has("reversed"),
            page: text("page")?.parse().unwrap_or(1).max(1),
        })
    }

    /// Returns whether the filter leaves out users.
    pub(super) fn is_filtered(&self) -> bool {
        let texts = [&self.find, &self.group, &self.role, &self.factor, &self.source];
        self.state.is_some() || texts.iter().any(|text| !text.is_empty())
    }

    pub(super) fn query(&self, ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> UserQuery {
        let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        UserQuery {
            search: self.find.clone(),
            group: set(&self.group),
            state: self.state,
            role: set(&self.role).map(|role| ConsoleRole::parse(&role)),
            factor: set(&self.factor).map(|factor| FactorKind::parse(&factor)),
            source: set(&self.source).map(|source| Some(source).filter(|source| source != NONE)),
            order: self.sort,
            reversed: self.reversed,
            skip: (self.page - 1).saturating_mul(USERS_PER_PAGE),
            limit: USERS_PER_PAGE,
            role_groups: groups::role_groups(ctx),
            managed: console_user.listed_groups().cloned(),
        }
    }

    /// Returns the URL of another part of the list.
    fn url(&self, ctx: &RequestContext<'_>, sort: UserOrder, reversed: bool, page: usize) -> String {
        ctx.path(&self.address(sort, reversed, page))
    }

    /// Returns the path and query of another part of the list, without the issuer's prefix.
    fn address(&self, sort: UserOrder, reversed: bool, page: usize) -> String {
        let query = self.parameters(sort, reversed, page);
        if query.is_empty() { PAGE.to_owned() } else { format!("{PAGE}?{query}") }
    }

    fn parameters(&self, sort: UserOrder, reversed: bool, page: usize) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let state = self.state.map_or("", ListedState::as_str);
        let sort = if sort == UserOrder::default() { "" } else { sort.as_str() };
        let number = if page > 1 { page.to_string() } else { String::new() };
        let reversed = if reversed { "yes" } else { "" };
        for (name, value) in [
            ("find", self.find.as_str()),
            ("group", &self.group),
            ("state", state),
            ("role", &self.role),
            ("factor", &self.factor),
            ("source", &self.source),
            ("sort", sort),
            ("reversed", reversed),
            ("page", &number),
        ] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }
}

pub(super) async fn users_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if let Some(form) = kept_form::take(ctx, console_user, PAGE).await? {
        return bulk::resume(ctx, console_user, &form).await;
    }
    let wanted = Wanted::read(ctx)?;
    let list = ctx.sealgate.user_lists.current(&ctx.sealgate.store, ctx.now).await?;
    let (has_sign_ins, is_full) = (list.has_sign_ins(), list.is_full());
    let (query, now) = (wanted.query(ctx, console_user), ctx.now);
    let work = move |list: &UserList| {
        let (groups, sources) = match &query.managed {
            Some(managed) => (managed.iter().cloned().collect(), Vec::new()),
            None => (list.groups().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), list.sources()),
        };
        (list.select(&query, now), groups.into_iter().take(PROPOSED_GROUPS).collect::<Vec<_>>(), sources)
    };
    let (mut selection, groups, sources) = list.with(work).await?;
    if is_full && selection.total == 0 {
        selection = exact(ctx, console_user, &wanted).await?;
    }
    let users = lines(ctx, &selection.users).await?;
    let page_number = selection.skipped / USERS_PER_PAGE + 1;
    let url = |page| wanted.url(ctx, wanted.sort, wanted.reversed, page);
    let previous = (page_number > 1).then(|| url(page_number - 1));
    let next = (selection.skipped + USERS_PER_PAGE < selection.total).then(|| url(page_number + 1));
    // The head of the column that sorts the list reverses the order.
    let orders =
        UserOrder::ALL.map(|order| (order, wanted.url(ctx, order, order == wanted.sort && !wanted.reversed, 1)));
    let counted = ctx.sealgate.enrolment.last().filter(|_| console_user.roles.reads_everything());
    // The list has not all users if it is full, so the export has all.
    let exported = if wanted.is_filtered() && !is_full {
        format!("&{}", wanted.parameters(wanted.sort, wanted.reversed, 1))
    } else {
        String::new()
    };
    let page = UsersPage {
        inside: console_user.inside(ctx),
        users: &users,
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(bulk::PAGE)),
        back: &wanted.address(wanted.sort, wanted.reversed, page_number),
        exported: &exported,
        may_invite: ctx.sealgate.sends_mail(),
        filter: UserFilter {
            wanted: &wanted.find,
            group: &wanted.group,
            state: wanted.state,
            role: &wanted.role,
            factor: &wanted.factor,
            source: &wanted.source,
            sort: wanted.sort,
            reversed: wanted.reversed,
            groups: &groups,
            sources: &sources,
        },
        skipped: selection.skipped,
        total: selection.total,
        without_factor: counted.map(|(counted, at)| (counted.none, counted.users(), at)),
        previous: previous.as_deref(),
        next: next.as_deref(),
        orders: &orders,
        has_sign_ins,
        most: is_full.then_some(MAX_LISTED_USERS as u64),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns the user with exactly the address or username of a search, if the list has not all users.
async fn exact(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    wanted: &Wanted,
) -> Result<UserSelection, Failure> {
    let user = ctx.sealgate.store.user_by_sign_in_name(&wanted.find).await?;
    let Some(user) = user.filter(|user| console_user.may_see_user(ctx, user)) else {
        return Ok(UserSelection::default());
    };
    let state = if user.is_enabled() { ListedState::Enabled } else { ListedState::Disabled };
    let listed = ListedUser { sub: user.sub, signed_in_at: None, factor: None, is_reset: false, state };
    Ok(UserSelection { users: vec![listed], skipped: 0, total: 1 })
}

/// Returns the lines of these users. Leaves out users that were deleted in the meantime.
pub(super) async fn lines(ctx: &RequestContext<'_>, listed: &[ListedUser]) -> Result<Vec<UserLine>, Failure> {
    let subjects: Vec<_> = listed.iter().map(|user| user.sub).collect();
    let rows = ctx.sealgate.store.user_rows_of(&subjects).await?;
    let mut listed = listed.iter();
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        let subject = row.subject;
        // Both are in the same order.
        let Some(listed) = listed.find(|listed| listed.sub == subject) else { break };
        lines.push(UserLine { user: row.read()?.user, listed: listed.clone() });
    }
    Ok(lines)
}
