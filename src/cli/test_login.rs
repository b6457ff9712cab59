//! `sealgate app test-login`: tries a recipe for an application's login form.

use std::path::PathBuf;

use clap::Args;
use http::HeaderValue;
use serde_json::json;

use super::failure::CommandFailure;
use super::output::{Output, printable};
use super::password;
use sealgate_app_login::{AppLogin, LoginOutcome, LoginRecipe, LoginStep, LoginStepKind, LoginTarget, sign_in};
use sealgate_system::clock::{Clock, SystemClock};
use sealgate_system::login_exchange::WebExchange;

/// Default of `--user-agent`: the value of a common browser, because some applications refuse other
/// clients.
const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// Address in `X-Forwarded-For`, instead of the address of a user's browser.
const OWN_ADDRESS: &str = "127.0.0.1";

#[derive(Debug, Args)]
pub(super) struct TestLoginArguments {
    /// File of the recipe, TOML
    recipe: PathBuf,
    /// Scheme, host and port of the application's server
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// Username at the application
    #[arg(long, value_name = "NAME")]
    username: String,
    /// Public host of the application, for the Host header, or the public URL if its scheme is not
    /// https [default: the upstream's host]
    #[arg(long, value_name = "HOST|URL")]
    host: Option<String>,
    /// User-Agent header; the gateway sends the header of the user's browser
    #[arg(long, value_name = "TEXT", default_value = BROWSER)]
    user_agent: String,
    /// CA of the upstream's certificate, PEM, if this machine does not trust it
    #[arg(long, value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
}

pub(super) fn run(arguments: &TestLoginArguments, output: &Output) -> Result<(), CommandFailure> {
    let TestLoginArguments { recipe: file, upstream, username, host, user_agent, upstream_ca } = arguments;
    let in_file = |error: &dyn std::fmt::Display| CommandFailure::line(format_args!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| in_file(&error))?;
    let recipe = LoginRecipe::parse(&text).map_err(|error| in_file(&error))?;
    let target = LoginTarget::new(upstream).and_then(|target| match host {
        Some(host) => target.with_public(host, true),
        None => Ok(target),
    });
    let user_agent = HeaderValue::try_from(user_agent)
        .map_err(|_| CommandFailure::line("--user-agent: write printable characters in one line"))?;
    let target = target.map_err(CommandFailure::line)?.for_browser(OWN_ADDRESS, Some(&user_agent));
    let password = password::read()?;
    let web = WebExchange::new(upstream_ca.as_deref()).map_err(CommandFailure::line)?;
    let login = AppLogin { recipe: &recipe, target: &target, user: username, password: &password };

    let mut steps = Vec::new();
    let mut observe = |step: LoginStep| {
        // A closed standard output is reported with the result.
        let _ = output.sentence(&describe(&step));
        steps.push(step);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(CommandFailure::line)?;
    let outcome = runtime.block_on(sign_in(login, &web, SystemClock.now(), &mut observe));
    let (result, error, may_retry) = match &outcome {
        LoginOutcome::SignedIn(_) => ("signed_in", None, None),
        LoginOutcome::WrongPassword => {
            let line = "the application reports a wrong username or password; further attempts could lock the account";
            ("wrong_password", Some(line.to_owned()), Some(false))
        }
        LoginOutcome::Failed(fault) => ("failed", Some(fault.line.clone()), Some(fault.may_retry)),
    };
    let cookies: Vec<&str> = match &outcome {
        LoginOutcome::SignedIn(jar) => jar.names().collect(),
        _ => Vec::new(),
    };
    let members =
        json!({ "result": result, "error": error, "may_retry": may_retry, "cookies": cookies, "steps": steps });
    match error {
        None => output.result(&members, || {
            let names = if cookies.is_empty() { "none".to_owned() } else { cookies.join(", ") };
            printable(&format!("signed in as {username}, cookies: {names}")) + "\n"
        }),
        Some(_) if output.is_json() => {
            output.result(&members, String::new)?;
            Err(CommandFailure::Reported(1))
        }
        Some(error) => Err(CommandFailure::line(error)),
    }
}

/// Returns the line about a request.
fn describe(step: &LoginStep) -> String {
    let kind = match step.kind {
        LoginStepKind::Page => "page",
        LoginStepKind::Redirect => "redirect",
        LoginStepKind::Form => "form",
        LoginStepKind::Probe => "probe",
        LoginStepKind::Logout => "logout",
    };
    let mut parts = vec![format!("{kind}: {} {}: {}", step.method, step.path, step.status)];
    parts.extend(step.location.as_ref().map(|location| format!(" to {location}")));
    for (name, names) in [("fields", &step.fields), ("cookies", &step.cookies)] {
        if !names.is_empty() {
            parts.push(format!("; {name} {}", names.join(", ")));
        }
    }
    printable(&parts.concat())
}
