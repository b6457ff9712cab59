//! `sealgate app`: commands for the applications in the configuration file.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use super::config_file;
use super::failure::CommandFailure;
use super::output::Output;
use super::reload;
use super::test_login;
use sealgate_admin::answer::ReloadAnswer;
use sealgate_config::{App, Config, NewApp, Protected};

#[derive(Debug, Subcommand)]
pub(super) enum AppVerb {
    /// Add an application that requires a sign-in
    ///
    /// Adds an `[[app]]` section to the configuration file, and reloads the running server. The file keeps its comments.
    /// Edit the section for rules by path.
    Add(AddArguments),
    /// List the applications in the configuration file
    List,
    /// Remove an application from the configuration file
    ///
    /// Removes its `[[app]]` section, and reloads the running server.
    Remove {
        /// Application name (see `sealgate app list`)
        #[arg(value_name = "NAME", allow_hyphen_values = true)]
        name: String,
    },
    /// Try a recipe for an application's own login form
    ///
    /// Signs in to the application with the password on standard input, and prints each request. It prints names of form
    /// fields and cookies, never values. Needs no configuration. See docs/how-to/application-logins.md.
    TestLogin(test_login::TestLoginArguments),
}

#[derive(Debug, Args)]
pub(super) struct AddArguments {
    /// Public host of the application, and its upstream
    #[arg(value_name = "HOST=URL", value_parser = Protected::parse)]
    target: Protected,
    /// Name, for logs and metrics [default: the first part of the host]
    #[arg(long)]
    name: Option<String>,
    /// Name that users see
    #[arg(long)]
    title: Option<String>,
    /// Group that has access; can be repeated [default: all users]
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
}

pub(super) fn run(verb: AppVerb, file: &Path, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        AppVerb::Add(arguments) => add(arguments, file, output),
        AppVerb::List => list(file, output),
        AppVerb::Remove { name } => remove(&name, file, output),
        AppVerb::TestLogin(arguments) => test_login::run(&arguments, output),
    }
}

fn add(arguments: AddArguments, file: &Path, output: &Output) -> Result<(), CommandFailure> {
    let AddArguments { target, name, title, groups } = arguments;
    let config = super::read(file)?;
    let names: Vec<&str> = config.apps.iter().map(|app| app.name.as_str()).collect();
    let name = name.unwrap_or_else(|| target.name(&names));
    let app = NewApp { name: name.clone(), title, host: target.host, upstream: target.upstream, groups };
    let reloaded =
        config_file::change(file, &format!("app {name}: added"), |document| config_file::add_app(document, &app))?;
    let config = super::read(file)?;
    let url =
        config.apps.iter().find(|app| app.name == name).map(|app| format!("{}/", app.origin_pattern(&config.issuer)));
    output.result(&json!({ "name": name, "url": url, "reloaded": reloaded }), || {
        format!("Added application {name}, {}\n{}", url.unwrap_or_default(), describe(reloaded.as_ref()))
    })
}

fn remove(name: &str, file: &Path, output: &Output) -> Result<(), CommandFailure> {
    let reloaded = config_file::change(file, &format!("app {name}: removed"), |document| {
        if config_file::remove_app(document, name)? {
            return Ok(());
        }
        Err(CommandFailure::line(format_args!("no application is called {name:?}; `sealgate app list` shows all")))
    })?;
    output.result(&json!({ "name": name, "removed": true, "reloaded": reloaded }), || {
        format!("Removed application {name}\n{}", describe(reloaded.as_ref()))
    })
}

fn describe(reloaded: Option<&ReloadAnswer>) -> String {
    reloaded.map_or_else(|| "no server runs; the next start applies the change\n".to_owned(), reload::describe)
}

fn list(file: &Path, output: &Output) -> Result<(), CommandFailure> {
    let config = super::read(file)?;
    let rows: Vec<_> = config.apps.iter().map(|app| row(app, &config)).collect();
    output.list("apps", &rows, &["name", "url", "upstreams", "upstream_protocol", "title"])
}

fn row(app: &App, config: &Config) -> serde_json::Value {
    let upstreams = app.all_upstreams().into_iter().map(ToString::to_string);
    json!({
        "name": app.name,
        "title": app.title,
        "url": format!("{}/", app.origin_pattern(&config.issuer)),
        "host": app.host,
        "upstreams": upstreams.collect::<Vec<_>>(),
        "upstream_protocol": app.upstream_protocol.as_str(),
    })
}
