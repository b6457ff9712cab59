//! `/console/apps/{name}/edit` and `/console/apps/{name}/rule`: changes of the applications in
//! `console.applications_file`.
//!
//! A form changes only the keys that [`AppFields`] and [`RuleFields`] have. The page shows the change of
//! the file and the result of the check of the whole configuration. After the confirmation, the file is
//! replaced and the server reloads its configuration. If the reload is refused, the previous content is
//! restored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{Method, StatusCode};

use crate::console::actions::EditAppAction;
use crate::console::confirmation::{fields, is_confirmed};
use crate::console::{ConsoleUser, kept_form, segment_before_last};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect};
use sealgate_config::{AppFields, ApplicationsFile, Config, EditableApp, NewApp, RuleFields, SaveError, host_name};
use sealgate_core::reload::{ReloadFault, ReloadRequest};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::console::{
    AppChangePage, AppSection, EditAppForm, EditAppPage, EditProblem, EditRuleForm, EditRuleLine, EditRulePage,
};
use sealgate_pages::{Done, Problem, html};

/// Maximum length of a field with one value, in characters.
const MAX_LENGTH: usize = 500;

/// Maximum number of values in a list.
const MAX_VALUES: usize = 100;

/// Maximum number of errors that a page shows.
const MAX_FAULTS: usize = 20;

/// Change of the file of applications, before it is saved.
pub(super) struct Edit {
    pub(super) name: String,
    pub(super) file: ApplicationsFile,
    /// Names of the changed keys, or the kind of the change, for the audit log.
    pub(super) detail: String,
    /// Paths that receive the form, and that a cancelled confirmation opens.
    pub(super) action: String,
    pub(super) cancel: String,
    /// Path to open after the change.
    pub(super) next: String,
}

/// Returns the file that the console may change.
pub(super) fn editable_file(ctx: &RequestContext<'_>) -> Option<PathBuf> {
    let console = &ctx.sealgate.config.console;
    console.applications_file.clone().filter(|_| console.edit_applications)
}

/// Returns whether the console can change the application: it is in the file of applications.
pub(super) async fn is_editable(ctx: &RequestContext<'_>, name: &str) -> bool {
    match editable_file(ctx) {
        Some(path) => read(&path).await.is_ok_and(|file| file.app(name).is_some()),
        None => false,
    }
}

/// Reads the file of applications.
pub(super) async fn read(path: &Path) -> Result<ApplicationsFile, EditProblem> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || (ApplicationsFile::read(&path), path)).await;
    match read {
        Ok((Ok(file), _)) => Ok(file),
        Ok((Err(problem), path)) => {
            tracing::error!(file = %path.display(), problem, "cannot read the file of applications");
            Err(EditProblem::Disk)
        }
        Err(_) => Err(EditProblem::Disk),
    }
}

/// Returns the file and the application of a page about it.
///
/// # Errors
/// 404 if the console cannot change the application.
async fn open(ctx: &RequestContext<'_>, name: &str) -> Result<(PathBuf, ApplicationsFile, EditableApp), Failure> {
    let not_found = || Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound);
    let path = editable_file(ctx).ok_or_else(not_found)?;
    let file = read(&path).await.map_err(|_| not_found())?;
    let app = file.app(name).ok_or_else(not_found)?;
    Ok((path, file, app))
}

/// Shows the settings of an application (GET), or a change of it or of its rules (POST).
pub(super) async fn edit_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let name = segment_before_last(ctx);
    let page = AppSection::Edit.page(name);
    let (path, file, app) = match open(ctx, name).await {
        Ok(opened) => opened,
        // The form that removed the application may be sent again.
        Err(failure) if ctx.head.method == Method::POST => {
            let form = console_user.form(ctx)?;
            return submission::once(ctx, &console_user.visitor, &form, async { Err(failure) }).await;
        }
        Err(failure) => return Err(failure),
    };
    if ctx.head.method != Method::POST {
        return match kept_form::take(ctx, console_user, &page).await? {
            Some(form) => change(ctx, console_user, &path, file, &app, &form).await,
            None => Ok(show_app(ctx, console_user, &file, &app, None, None)),
        };
    }
    let form = console_user.form(ctx)?;
    change(ctx, console_user, &path, file, &app, &form).await
}

/// Shows the form of a rule. The query parameter `at` is the number of the rule; without it, the form is
/// for a new rule.
pub(super) async fn rule_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let name = segment_before_last(ctx);
    let (_, file, app) = open(ctx, name).await?;
    let at = match ctx.query()?.one("at")? {
        None => None,
        Some(text) => {
            let at = text.parse::<usize>().ok().filter(|at| *at < app.rules.len());
            Some(at.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?)
        }
    };
    Ok(show_rule(ctx, console_user, &file, &app, at, None, None))
}

/// Shows a change of a form, or saves it if it is confirmed.
async fn change(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    path: &Path,
    mut file: ApplicationsFile,
    app: &EditableApp,
    form: &Params,
) -> Result<Response, Failure> {
    let action = EditAppAction::read(form)?;
    let seen = form.one("seen")?.unwrap_or_default();
    let at = match form.one("rule")?.unwrap_or_default() {
        "" => None,
        text => Some(text.parse::<usize>().map_err(|_| Failure::page(Problem::InvalidRequest))?),
    };
    let is_new = at.is_none();
    let (app_form, rule_form) = (app_form(form)?, rule_form(form)?);
    let unchanged = file.clone();
    // A confirmed form that is sent again finds a changed file: `submission::once` answers it.
    let is_changed = seen != file.digest() && !is_confirmed(form);
    let edited = match action {
        _ if is_changed => Err(EditProblem::Changed),
        EditAppAction::Save => app_fields(&app_form, app, has_fixed_servers(ctx, app)).map(|fields| {
            let changed = file.set_app(&app.name, &fields).unwrap_or_default();
            changed.join(", ")
        }),
        EditAppAction::Remove => {
            file.remove(&app.name);
            Ok("removed".to_owned())
        }
        EditAppAction::SaveRule => rule_fields(&rule_form).and_then(|fields| {
            let what = if is_new { "added" } else { "changed" };
            let is_set = file.set_rule(&app.name, at, &fields);
            is_set.then(|| format!("rule {} {what}", fields.path)).ok_or(EditProblem::Changed)
        }),
        EditAppAction::RemoveRule => match at.map(|at| (at, app.rules.get(at))) {
            Some((at, Some(rule))) => {
                let is_removed = file.remove_rule(&app.name, at);
                is_removed.then(|| format!("rule {} removed", rule.fields.path)).ok_or(EditProblem::LastRule)
            }
            _ => Err(EditProblem::Changed),
        },
    };
    let page = AppSection::Edit.page(&app.name);
    let detail = match edited {
        Ok(detail) => detail,
        Err(problem) => {
            let is_about_rule = matches!(action, EditAppAction::SaveRule | EditAppAction::RemoveRule);
            return Ok(if is_about_rule && at.is_none_or(|at| at < app.rules.len()) {
                let typed = (action == EditAppAction::SaveRule).then_some(&rule_form);
                show_rule(ctx, console_user, &unchanged, app, at, typed, Some(problem))
            } else {
                let typed = (action == EditAppAction::Save).then_some(&app_form);
                show_app(ctx, console_user, &unchanged, app, typed, Some(problem))
            });
        }
    };
    let next = if action == EditAppAction::Remove { "/console/apps".to_owned() } else { page.clone() };
    let cancel = page.clone();
    let edit = Edit { name: app.name.clone(), file, detail, action: page, cancel, next };
    confirm(ctx, console_user, path, edit, form).await
}

/// Shows the change with the result of the check, or saves it if the form is confirmed.
pub(super) async fn confirm(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    path: &Path,
    edit: Edit,
    form: &Params,
) -> Result<Response, Failure> {
    let next = edit.next.clone();
    if edit.file.difference().is_empty() {
        return Ok(Response::see_other(&ctx.path(&next)));
    }
    if !is_confirmed(form) {
        let faults = faults(ctx, &edit).await;
        return Ok(show_change(ctx, console_user, path, &edit, form, &faults));
    }
    let work = Box::pin(async {
        if form.one("seen")?.unwrap_or_default() != edit.file.digest() {
            return Ok(Effect::Refused(show_change(ctx, console_user, path, &edit, form, &[CHANGED.to_owned()])));
        }
        let mut faults = faults(ctx, &edit).await;
        if faults.is_empty() {
            faults = save(ctx, console_user, path, &edit).await?;
        }
        if !faults.is_empty() {
            return Ok(Effect::Refused(show_change(ctx, console_user, path, &edit, form, &faults)));
        }
        Ok(Effect::Done { page: format!("{next}?done={}", Done::App.as_str()), secret: None })
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

/// Error after a change of the file by another user.
const CHANGED: &str = "the file of applications has changed in the meantime; open the page again";

/// Returns the errors of the whole configuration with the change. A change of anything else but this
/// application is an error too: the reload would apply it. So is a host that the console must not use.
async fn faults(ctx: &RequestContext<'_>, edit: &Edit) -> Vec<String> {
    let Some(main) = ctx.sealgate.config.file.clone() else {
        return vec!["the server cannot read its configuration file".to_owned()];
    };
    if edit.file.is_too_large() {
        return vec!["the file of applications would be too large".to_owned()];
    }
    let text = edit.file.text();
    let loaded = tokio::task::spawn_blocking(move || Config::load_with_applications(&main, &text)).await;
    let config = match loaded {
        Ok(Ok(config)) => config,
        Ok(Err(faults)) => return faults.iter().take(MAX_FAULTS).map(ToString::to_string).collect(),
        Err(error) => return vec![format!("the check failed: {error}")],
    };
    let app = config.apps.iter().find(|app| app.name == edit.name);
    match app.and_then(|app| ctx.sealgate.config.refusal_of_host(&app.name, &app.host)) {
        Some(refusal) => vec![format!("app {}: host: {refusal}", edit.name)],
        None => other_changes(ctx, &edit.name, &config),
    }
}

/// Returns an error for each change of the running configuration but those of this application.
fn other_changes(ctx: &RequestContext<'_>, name: &str, config: &Config) -> Vec<String> {
    let difference = ctx.sealgate.config.difference(config);
    let of_app = format!("app {name}: ");
    let others = difference.reloadable.into_iter().filter(|change| !change.starts_with(&of_app));
    let fault = |change| format!("{change}: this change is not applied yet; reload the configuration first");
    difference.restart.into_iter().chain(others).take(MAX_FAULTS).map(fault).collect()
}

/// Saves the file and reloads the configuration. Returns the reasons why nothing was changed.
///
/// # Errors
/// If the user has lost the session or the role since the request began.
async fn save(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    path: &Path,
    edit: &Edit,
) -> Result<Vec<String>, Failure> {
    ctx.sealgate.store.require_permission().await?;
    let (file, target) = (edit.file.clone(), path.to_owned());
    match tokio::task::spawn_blocking(move || file.save(&target)).await {
        Ok(Ok(())) => {}
        Ok(Err(SaveError::Changed)) => return Ok(vec![CHANGED.to_owned()]),
        Ok(Err(SaveError::Disk(error))) => {
            tracing::error!(file = %path.display(), %error, "cannot write the file of applications");
            return Ok(vec![format!("{} cannot be written ({error}); nothing was changed", path.display())]);
        }
        Err(error) => return Ok(vec![format!("the file was not written: {error}")]),
    }
    let refused = match reload(ctx, console_user, &edit.name).await {
        Ok(()) => {
            let event = console_user.event(ctx, AuditKind::AppChanged).in_app(&edit.name);
            ctx.sealgate.audit.note(event.with_detail(edit.detail.clone()));
            return Ok(Vec::new());
        }
        Err(ReloadFault::NotPermitted(error)) => Err(error.into()),
        Err(fault) => Ok(fault.into_lines()),
    };
    let (file, target) = (edit.file.clone(), path.to_owned());
    if !matches!(tokio::task::spawn_blocking(move || file.restore(&target)).await, Ok(Ok(()))) {
        tracing::error!(file = %path.display(), "cannot restore the file of applications; see its .previous file");
    }
    refused
}

async fn reload(ctx: &RequestContext<'_>, console_user: &ConsoleUser, name: &str) -> Result<(), ReloadFault> {
    let pending = ctx.sealgate.reload.pending().await.map_err(ReloadFault::Refused)?;
    let others = other_changes(ctx, name, &pending.config);
    if !others.is_empty() {
        return Err(ReloadFault::Refused(others));
    }
    let event = console_user.event(ctx, AuditKind::ConfigurationReloaded);
    let (fingerprint, store) = (pending.config.fingerprint(), Arc::clone(&ctx.sealgate.store));
    ctx.sealgate.reload.reload(ReloadRequest::new(event, fingerprint, store)).await.map(drop)
}

fn show_change(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    path: &Path,
    edit: &Edit,
    form: &Params,
    faults: &[String],
) -> Response {
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let page = AppChangePage {
        inside,
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(&edit.action)),
        name: &edit.name,
        file: &path.display().to_string(),
        difference: &edit.file.difference(),
        faults,
        fields: &fields(form, &once),
        action: &edit.action,
        cancel: &edit.cancel,
    };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Returns the access of a rule with its groups and users, as in the file.
fn access_of(fields: &RuleFields) -> String {
    let named = |key: &str, names: &[String]| (!names.is_empty()).then(|| format!("{key} {}", names.join(", ")));
    let parts = [Some(fields.access.clone()), named("groups", &fields.groups), named("users", &fields.users)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn show_app(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    file: &ApplicationsFile,
    app: &EditableApp,
    typed: Option<&EditAppForm>,
    problem: Option<EditProblem>,
) -> Response {
    let AppFields { title, description, host, upstreams } = app.fields.clone();
    let form = EditAppForm { title, description, host, upstreams: upstreams.join("\n") };
    let rule = |(at, rule): (usize, &sealgate_config::EditableRule)| EditRuleLine {
        url: ctx.path(&format!("/console/apps/{}/rule?at={at}", app.name)),
        path: rule.fields.path.clone(),
        access: access_of(&rule.fields),
        methods: rule.fields.methods.join(" "),
    };
    let page = EditAppPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(&AppSection::Edit.page(&app.name))),
        name: &app.name,
        title: title_of(app),
        form: typed.unwrap_or(&form),
        has_fixed_servers: has_fixed_servers(ctx, app),
        other_keys: &app.other_keys,
        rules: &app.rules.iter().enumerate().map(rule).collect::<Vec<_>>(),
        seen: &file.digest(),
        problem,
    };
    Response::page(StatusCode::OK, html(&page), None)
}

fn show_rule(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    file: &ApplicationsFile,
    app: &EditableApp,
    at: Option<usize>,
    typed: Option<&EditRuleForm>,
    problem: Option<EditProblem>,
) -> Response {
    let rule = at.and_then(|at| app.rules.get(at));
    let fields = rule.map(|rule| rule.fields.clone()).unwrap_or_default();
    let form = EditRuleForm {
        path: fields.path,
        access: fields.access,
        methods: fields.methods.join(" "),
        groups: fields.groups.join("\n"),
        users: fields.users.join("\n"),
        networks: fields.networks.join(" "),
        acr: fields.acr.join(" "),
        max_age_seconds: fields.max_age_seconds.map(|seconds| seconds.to_string()).unwrap_or_default(),
    };
    let page = EditRulePage {
        inside: console_user.inside(ctx),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(&AppSection::Edit.page(&app.name))),
        name: &app.name,
        title: title_of(app),
        at,
        form: typed.unwrap_or(&form),
        other_keys: rule.map(|rule| rule.other_keys.as_slice()).unwrap_or_default(),
        seen: &file.digest(),
        problem,
    };
    Response::page(StatusCode::OK, html(&page), None)
}

fn title_of(app: &EditableApp) -> &str {
    if app.fields.title.is_empty() { &app.name } else { &app.fields.title }
}

fn text(form: &Params, name: &str) -> Result<String, Failure> {
    Ok(form.one(name)?.unwrap_or_default().trim().to_owned())
}

fn app_form(form: &Params) -> Result<EditAppForm, Failure> {
    Ok(EditAppForm {
        title: text(form, "title")?,
        description: text(form, "description")?,
        host: text(form, "host")?,
        upstreams: text(form, "upstreams")?,
    })
}

fn rule_form(form: &Params) -> Result<EditRuleForm, Failure> {
    Ok(EditRuleForm {
        path: text(form, "path")?,
        access: text(form, "access")?,
        methods: text(form, "methods")?,
        groups: text(form, "groups")?,
        users: text(form, "users")?,
        networks: text(form, "networks")?,
        acr: text(form, "acr")?,
        max_age_seconds: text(form, "max_age_seconds")?,
    })
}

fn is_text(text: &str) -> bool {
    text.chars().count() <= MAX_LENGTH && !text.chars().any(char::is_control)
}

/// Returns the lines of a list, or the words if `by_word`.
fn list(text: &str, by_word: bool) -> Result<Vec<String>, EditProblem> {
    let values: Vec<String> = if by_word {
        text.split_whitespace().map(str::to_owned).collect()
    } else {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let are_texts = values.len() <= MAX_VALUES && values.iter().all(|value| is_text(value));
    if are_texts { Ok(values) } else { Err(EditProblem::Input) }
}

/// Returns whether an upstream is a file of the machine.
pub(super) fn is_socket(upstream: &str) -> bool {
    !(upstream.starts_with("http://") || upstream.starts_with("https://"))
}

/// Returns whether only the operator changes the servers of the application: another server would
/// receive credentials, or have pages on the host of the sign-in pages.
fn has_fixed_servers(ctx: &RequestContext<'_>, app: &EditableApp) -> bool {
    app.sends_credentials() || ctx.sealgate.config.is_own_host_name(host_name(&app.fields.host))
}

/// Returns the settings of the form. The check of the configuration checks the values; this function
/// refuses those that the console must not write.
fn app_fields(form: &EditAppForm, before: &EditableApp, has_fixed_servers: bool) -> Result<AppFields, EditProblem> {
    let EditAppForm { title, description, host, upstreams } = form;
    let upstreams = list(upstreams, false)?;
    let are_texts = [title, description, host].iter().all(|text| is_text(text));
    if !are_texts || host.is_empty() || upstreams.is_empty() {
        return Err(EditProblem::Input);
    }
    if upstreams.iter().any(|upstream| is_socket(upstream) && !before.fields.upstreams.contains(upstream)) {
        return Err(EditProblem::Socket);
    }
    if has_fixed_servers && upstreams != before.fields.upstreams {
        return Err(EditProblem::FixedServers);
    }
    let host = host.to_ascii_lowercase();
    Ok(AppFields { title: title.clone(), description: description.clone(), host, upstreams })
}

fn rule_fields(form: &EditRuleForm) -> Result<RuleFields, EditProblem> {
    let max_age_seconds = match form.max_age_seconds.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| EditProblem::Input)?),
    };
    if form.path.is_empty() || !is_text(&form.path) || !is_text(&form.access) {
        return Err(EditProblem::Input);
    }
    Ok(RuleFields {
        path: form.path.clone(),
        access: form.access.clone(),
        methods: list(&form.methods, true)?,
        groups: list(&form.groups, false)?,
        users: list(&form.users, false)?,
        networks: list(&form.networks, true)?,
        acr: list(&form.acr, true)?,
        max_age_seconds,
    })
}

/// Returns the addition of an application to the file.
pub(super) fn addition(mut file: ApplicationsFile, app: &NewApp) -> Edit {
    file.add(app);
    let page = "/console/new-app".to_owned();
    Edit {
        name: app.name.clone(),
        file,
        detail: "added".to_owned(),
        action: page.clone(),
        cancel: page,
        next: AppSection::Edit.page(&app.name),
    }
}
