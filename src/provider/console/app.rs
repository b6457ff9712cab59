//! `/console/apps` and `/console/apps/{name}`: the protected applications with the state of their
//! servers, and one application with its rules, open sessions and recent refusals.

use std::collections::{BTreeMap, BTreeSet};

use http::{Method, StatusCode};

use crate::account::activity::EventNames;
use crate::console::client::execute;
use crate::console::{ConsoleUser, check_access, edit_app, groups, last_segment, segment_before_last};
use crate::request::{AFTER, ProviderRequest as _};
use crate::visitor;
use sealgate_admin::command::{Command, SessionCommand};
use sealgate_config::{Access, App, Route, RuleUser};
use sealgate_core::overview::OverviewFigures;
use sealgate_core::tokens::clients::INTERNAL_CLIENT;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::session::SessionId;
use sealgate_domain::user::Subject;
use sealgate_domain::user_list::UserList;
use sealgate_pages::console::{
    AppLine, AppPage, AppSection, AppSessionLine, AppsPage, CheckForm, RefusalLine, RuleLine,
};
use sealgate_pages::{Done, Named, Problem, html};

/// Shows the list of applications.
pub(super) async fn apps_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Response {
    let figures = ctx.sealgate.overview.current(ctx.sealgate).await;
    let apps: Vec<AppLine<'_>> =
        ctx.sealgate.config.apps.iter().map(|app| line(ctx, app, figures.as_deref())).collect();
    let page = AppsPage { inside: console_user.inside(ctx), apps: &apps };
    Response::page(StatusCode::OK, html(&page), None)
}

fn line<'a>(ctx: &'a RequestContext<'_>, app: &'a App, figures: Option<&OverviewFigures>) -> AppLine<'a> {
    let state = ctx.sealgate.upstreams.for_app(&app.name);
    let servers = if state.is_empty() {
        app.all_upstreams().iter().map(|one| (one.to_string(), None)).collect()
    } else {
        state.into_iter().map(|(address, alive)| (address, Some(alive))).collect()
    };
    AppLine {
        name: &app.name,
        title: app.called(),
        address: app.origin_pattern(&ctx.sealgate.config.issuer),
        servers,
        is_in_maintenance: app.maintenance.is_some(),
        sessions: figures.map(|figures| figures.counts.app_sessions.get(&app.name).copied().unwrap_or_default()),
    }
}

/// Maximum number of open sessions on a page.
const SESSIONS_PER_PAGE: usize = 25;

/// Shows a section of the page of one application.
pub(super) async fn app_page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    section: AppSection,
) -> Result<Response, Failure> {
    let name = match section {
        AppSection::Access => last_segment(ctx),
        _ => segment_before_last(ctx),
    };
    let app = ctx.sealgate.config.apps.iter().find(|app| app.name == name);
    let app = app.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    if ctx.head.method == Method::POST {
        return end_session(ctx, console_user, app).await;
    }
    let figures = ctx.sealgate.overview.current(ctx.sealgate).await;
    let line = line(ctx, app, figures.as_deref());
    let (open_sessions, next) = match section {
        AppSection::Sessions => open_sessions(ctx, app).await?,
        _ => (Vec::new(), None),
    };
    let groups: BTreeSet<&String> = app.routes.iter().flat_map(|route| &route.groups).collect();
    let members: BTreeMap<String, usize> = if groups.is_empty() {
        BTreeMap::new()
    } else {
        let list = ctx.sealgate.user_lists.current(&ctx.sealgate.store, ctx.now).await?;
        list.with(UserList::groups).await?.into_iter().collect()
    };
    let groups: Vec<(String, String, u64)> = groups
        .into_iter()
        .map(|group| {
            let count = members.get(group).copied().unwrap_or_default() as u64;
            (group.clone(), ctx.path(&groups::page_of(group, 0)), count)
        })
        .collect();
    let users: BTreeSet<String> = app.routes.iter().flat_map(|route| &route.users).map(RuleUser::text).collect();
    let is_open = |route: &&Route| route.access != Access::Public && route.groups.is_empty() && route.users.is_empty();
    let url = if line.address.contains('*') { String::new() } else { format!("{}/", line.address) };
    let is_editable = console_user.is_administrator() && edit_app::is_editable(ctx, name).await;
    let page = AppPage {
        inside: console_user.inside(ctx),
        app: &line,
        section,
        is_editable,
        is_configured: console_user.is_administrator() && !is_editable && edit_app::editable_file(ctx).is_some(),
        csrf: &console_user.csrf(ctx),
        open_sessions: &open_sessions,
        next: next.as_deref(),
        client: &format!("{INTERNAL_CLIENT}{name}"),
        check: &CheckForm { url: &url, method: "GET", ..CheckForm::default() },
        check_csrf: &console_user.visitor.csrf(ctx, &ctx.path(check_access::PAGE)),
        rules: &rules(app),
        groups: &groups,
        users: &users.into_iter().collect::<Vec<_>>(),
        is_for_all_users: app.routes.iter().any(|route| is_open(&route)),
        is_public: app.routes.iter().any(|route| route.access == Access::Public),
        refusals: &if section == AppSection::Refusals { refusals(ctx, app).await? } else { Vec::new() },
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns some of the open sessions, and the URL of the next ones.
async fn open_sessions(ctx: &RequestContext<'_>, app: &App) -> Result<(Vec<AppSessionLine>, Option<String>), Failure> {
    let after = ctx.cursor(SessionId::parse)?;
    let (sessions, next) = ctx.sealgate.store.sessions_at_app(&app.name, after, SESSIONS_PER_PAGE, ctx.now).await?;
    let (mut names, mut lines) = (EventNames::default(), Vec::with_capacity(sessions.len()));
    for session in sessions {
        lines.push(AppSessionLine {
            id: session.id.to_string(),
            who: names.user(ctx, session.subject).await?,
            created_at: session.created_at,
            expires_at: session.expires_at,
        });
    }
    let page = AppSection::Sessions.page(&app.name);
    Ok((lines, next.map(|next| ctx.path(&format!("{page}?{AFTER}={next}")))))
}

/// Ends a session at the application. Also succeeds if it has already ended.
///
/// Ignores the id of a session at another application.
async fn end_session(ctx: &RequestContext<'_>, console_user: &ConsoleUser, app: &App) -> Result<Response, Failure> {
    let form = console_user.form(ctx)?;
    let sid = form.one("end")?.and_then(SessionId::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    if ctx.sealgate.store.app_session(sid).await?.is_some_and(|session| session.value.app == app.name) {
        execute(ctx, console_user, Command::Session(SessionCommand::Revoke { sid })).await?;
    }
    Ok(Response::see_other(&visitor::done(ctx, &AppSection::Sessions.page(&app.name), Done::Session)))
}

/// Returns the rules in the order in which they decide: longer paths first. For one path, rules
/// with methods or networks come before rules without.
fn rules(app: &App) -> Vec<RuleLine> {
    let mut routes: Vec<&Route> = app.routes.iter().collect();
    routes.sort_by_key(|route| {
        (std::cmp::Reverse(route.path.len()), &route.path, route.methods.is_empty(), route.networks.is_empty())
    });
    let line = |route: &Route| RuleLine {
        path: route.path.clone(),
        methods: route.methods.clone(),
        access: route.access,
        groups: route.groups.clone(),
        users: route.users.iter().map(RuleUser::text).collect(),
        scopes: route.scopes.clone(),
        networks: route.networks.iter().map(ToString::to_string).collect(),
        levels: route.acr.clone(),
        max_age_minutes: route.max_age.map(|age| age.as_secs().div_ceil(60)),
    };
    routes.into_iter().map(line).collect()
}

/// Returns the recent refusals by an application, with the names of users.
async fn refusals(ctx: &RequestContext<'_>, app: &App) -> Result<Vec<RefusalLine>, Failure> {
    let (mut names, mut lines) = (EventNames::default(), Vec::new());
    for refusal in ctx.sealgate.refusals.of_app(&app.name) {
        let who = match refusal.subject {
            None => None,
            Some(id) => Some(match Subject::parse(&id) {
                Some(subject) => names.user(ctx, subject).await?,
                None => Named { id, name: None, has_page: false },
            }),
        };
        lines.push(RefusalLine {
            at: refusal.at,
            method: refusal.method,
            path: refusal.path,
            reason: refusal.reason,
            who,
            count: refusal.count,
        });
    }
    Ok(lines)
}
