//! `/console/new-app`: writes the `[[app]]` section of a new application, and checks it together
//! with the configuration file. The file does not change.

use std::path::{Path, PathBuf};

use http::{Method, StatusCode};

use crate::console::users::groups;
use crate::console::{ConsoleUser, edit_app, kept_form};
use sealgate_config::{Config, NewApp, Protected};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::console::{NewAppForm, NewAppPage, NewAppResult};
use sealgate_pages::html;

const PAGE: &str = "/console/new-app";

/// Maximum length of a field, in characters.
const MAX_LENGTH: usize = 500;

/// Maximum size of the configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Maximum number of errors that the page shows.
const MAX_FAULTS: usize = 20;

/// Shows the form (GET), or the section with the result of its check (POST).
pub(super) async fn new_app_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method == Method::POST {
        let form = console_user.form(ctx)?;
        let input = read(&form)?;
        if let Some(path) = edit_app::editable_file(ctx) {
            return add(ctx, console_user, &path, &input, &form).await;
        }
        let result = check(ctx, &input).await;
        return Ok(show(ctx, console_user, &input, Some(&result), None));
    }
    let input = match kept_form::take(ctx, console_user, PAGE).await? {
        Some(form) => read(&form)?,
        None => NewAppForm::default(),
    };
    let seen = match edit_app::editable_file(ctx) {
        Some(path) => edit_app::read(&path).await.ok().map(|file| file.digest()),
        None => None,
    };
    Ok(show(ctx, console_user, &input, None, seen.as_deref()))
}

/// Shows the change of the file of applications, or saves it if it is confirmed.
async fn add(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    path: &Path,
    input: &NewAppForm,
    form: &Params,
) -> Result<Response, Failure> {
    let seen = form.one("seen")?;
    let Ok(file) = edit_app::read(path).await else {
        return Ok(show(ctx, console_user, input, Some(&NewAppResult::Unreadable), seen));
    };
    match new_app(ctx, input) {
        Some(app) if !edit_app::is_socket(&app.upstream) => {
            edit_app::confirm(ctx, console_user, path, edit_app::addition(file, &app), form).await
        }
        _ => Ok(show(ctx, console_user, input, Some(&NewAppResult::Input), seen)),
    }
}

fn read(form: &Params) -> Result<NewAppForm, Failure> {
    let text = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim().to_owned()) };
    Ok(NewAppForm {
        host: text("host")?,
        upstream: text("upstream")?,
        name: text("name")?,
        title: text("title")?,
        groups: text("groups")?,
    })
}

fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &NewAppForm,
    result: Option<&NewAppResult>,
    seen: Option<&str>,
) -> Response {
    let file = ctx.sealgate.config.file.as_deref().unwrap_or(Path::new("sealgate.toml"));
    let page = NewAppPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.csrf(ctx),
        form,
        result,
        seen,
        file: &file.display().to_string(),
    };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Returns the application of the form, or `None` if a field is invalid.
fn new_app(ctx: &RequestContext<'_>, form: &NewAppForm) -> Option<NewApp> {
    let NewAppForm { host, upstream, name, title, .. } = form;
    let is_text = |text: &str| text.chars().count() <= MAX_LENGTH && !text.chars().any(char::is_control);
    let are_texts = [host, upstream, name, title].iter().all(|text| is_text(text));
    let groups = groups(&form.groups).filter(|_| are_texts && !host.is_empty() && !upstream.is_empty())?;
    let target = Protected::new(host, upstream);
    let used_names: Vec<&str> = ctx.sealgate.config.apps.iter().map(|app| app.name.as_str()).collect();
    Some(NewApp {
        name: if name.is_empty() { target.name(&used_names) } else { name.clone() },
        title: (!title.is_empty()).then(|| title.clone()),
        host: target.host,
        upstream: target.upstream,
        groups: groups.into_iter().collect(),
    })
}

async fn check(ctx: &RequestContext<'_>, form: &NewAppForm) -> NewAppResult {
    let Some(app) = new_app(ctx, form) else { return NewAppResult::Input };
    let section = app.section();
    let Some(file) = ctx.sealgate.config.file.clone() else { return NewAppResult::Unreadable };
    let text = section.clone();
    match tokio::task::spawn_blocking(move || added_faults(&file, &text)).await {
        Ok(Some(faults)) => NewAppResult::Section { text: section, faults },
        _ => NewAppResult::Unreadable,
    }
}

/// Returns the errors that the section adds to the configuration file. `None` if the file cannot be
/// read. Blocking I/O.
///
/// The check is the one of `sealgate check`, but does not read the files that the configuration
/// names: the section names none.
fn added_faults(file: &PathBuf, section: &str) -> Option<Vec<String>> {
    if std::fs::metadata(file).ok()?.len() > MAX_FILE_BYTES {
        return None;
    }
    let before = std::fs::read_to_string(file).ok()?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    let faults = |text: &str| -> Vec<String> {
        let faults = Config::parse(text, directory).err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect()
    };
    let known = faults(&before);
    let after = format!("{}\n\n{section}", before.trim_end());
    Some(faults(&after).into_iter().filter(|fault| !known.contains(fault)).take(MAX_FAULTS).collect())
}
