//! `sealgate init`: sets up an installation with one command.
//!
//! Each step is skipped if its result exists. A second run therefore continues where the first run
//! stopped. The steps that use the token and the store run in another process
//! ([`super::provision`]), as the service's user and with the environment that SoftHSM reads.

mod place;
mod questions;
mod text;

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use self::place::{Place, systemctl};
use self::questions::Questions;
use self::text::{Draft, TlsTermination};
use super::config_file::NewFile;
use super::failure::CommandFailure;
use super::output::Output;
use super::outside;
use super::provision::{Provisioned, email};
use crate::cli::output::printable;
use sealgate_admin::hex;
use sealgate_config::{Config, LETS_ENCRYPT, Protected, read_secret_file};
use sealgate_domain::user::Email;
use sealgate_system::clock::{OsEntropy, random};

/// Text of `--help`.
pub(super) const ABOUT: &str = "\
Set up an installation: configuration, token, keys and first administrator.

Creates a short configuration file (validated before it is written), a SoftHSM token with its PIN file, the signing and the \
wrapping key, and the first administrator, whose one-time link it prints. Objects that exist are not changed, so a second run \
continues where the first run stopped. Where systemd runs, the command starts the service. Then it checks names, ports and \
applications, and prints the next steps. On a terminal, it asks for missing arguments.

As root it sets up the service of the package: /etc/sealgate/sealgate.toml, /etc/sealgate/pkcs11-pin and /var/lib/sealgate. \
With --config FILE --state DIR, all files are in these places and belong to the caller.";

#[derive(Debug, Args)]
pub(super) struct InitArguments {
    /// URL of the sign-in page; it is part of every token and should never change
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Application to protect: its public host and its upstream; can be repeated
    #[arg(long, value_name = "HOST=URL", value_parser = Protected::parse)]
    protect: Vec<Protected>,
    /// First administrator; a link to choose a password or a passkey is printed
    #[arg(long, value_name = "EMAIL", value_parser = email)]
    admin: Option<Email>,
    /// Full name of the administrator (default: the address before the @)
    #[arg(long, value_name = "NAME")]
    admin_name: Option<String>,
    /// Token for the keys
    #[arg(long, value_enum, default_value_t)]
    token: TokenChoice,
    /// PKCS#11 module [default: SoftHSM's]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Label of the token
    #[arg(long, value_name = "LABEL", default_value = "sealgate")]
    token_label: String,
    /// File with the user PIN of an existing token; its content is copied
    #[arg(long, value_name = "FILE")]
    pin_file: Option<PathBuf>,
    /// Certificate chain and private key, PEM files that the service's user can read
    #[arg(long, value_name = "CERT,KEY", value_parser = pair, group = "transport")]
    tls: Option<(PathBuf, PathBuf)>,
    /// Obtain certificates from Let's Encrypt, or from the authority with this directory, and accept its terms of service
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = LETS_ENCRYPT,
        group = "transport")]
    acme: Option<String>,
    /// CA of the authority's server, PEM, if this machine does not trust it
    #[arg(long, value_name = "FILE", requires = "acme")]
    acme_ca: Option<PathBuf>,
    /// Address or network of a reverse proxy that terminates TLS
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1",
        group = "transport")]
    behind_proxy: Option<String>,
    /// Address to listen on [default: from the issuer; 127.0.0.1:8080 behind a proxy]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Directory for the store, the token and the PIN, for a trial without root; requires --config
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum TokenChoice {
    /// Create a SoftHSM token, in software
    #[default]
    Softhsm,
    /// Use an initialised token, such as an HSM's: requires --module and a PIN
    Existing,
}

/// Parses `CERT,KEY`.
fn pair(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once(',') {
        Some((certificate, key)) if !certificate.is_empty() && !key.is_empty() => Ok((certificate.into(), key.into())),
        _ => Err("write CERT,KEY: the files of the certificate chain and of its key".to_owned()),
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Step {
    #[serde(rename = "step")]
    what: &'static str,
    object: String,
    state: &'static str,
}

/// Actions of the run, done or planned.
struct Report {
    steps: Vec<Step>,
    warnings: Vec<String>,
}

impl Report {
    fn step(&mut self, what: &'static str, object: impl Display, state: &'static str) {
        self.steps.push(Step { what, object: object.to_string(), state });
    }

    /// Adds the hosts that get certificates by ACME to the report.
    fn certificates(&mut self, config: &Config, state: &'static str) {
        if let Some(acme) = &config.acme {
            self.step("certificates", acme.hosts.join(", "), state);
        }
    }
}

pub(super) fn run(mut arguments: InitArguments, file: &Path, output: &Output) -> Result<(), CommandFailure> {
    let place = Place::find(file, arguments.state.as_deref(), arguments.dry_run)?;
    let (config, new) = if place.config.exists() {
        let config = super::read(&place.config)?;
        refuse_other_issuer(&arguments, &config, &place)?;
        (config, None)
    } else {
        let draft = draft(&mut arguments, &place, Questions::new(output))?;
        let base = place.config.parent().unwrap_or(Path::new("/"));
        (Config::parse(&draft, base).map_err(|faults| CommandFailure::from_lines(&faults))?, Some(draft))
    };
    if arguments.dry_run {
        return show_plan(&arguments, &place, &config, new.as_deref(), output);
    }
    let mut report = Report { steps: Vec::new(), warnings: missing_apps(&arguments, &config, &place) };
    let makes_token = text::makes_token(&config, &place);
    place.directory(&place.state)?;
    if makes_token {
        prepare_token(&place, &mut report)?;
    } else {
        prepare_pin(&arguments, &place, &mut report)?;
    }
    write_config(&place, new.as_deref(), &mut report)?;
    let done = provision(&arguments, &place, makes_token)?;
    tell(&done, &config, makes_token, &mut report);
    report.certificates(&config, "ordered by the server, which logs each result");
    report.warnings.extend(outside::survey(&config, done.is_served));
    let is_running = start(&place, done.is_served, &mut report)?;
    show(&done, &place, &config, is_running, &report, output)
}

/// Returns the text of the new configuration. Asks for missing values.
fn draft(arguments: &mut InitArguments, place: &Place, questions: Questions) -> Result<String, CommandFailure> {
    let issuer = match arguments.issuer.take() {
        Some(issuer) => issuer,
        None => questions.required("--issuer URL", "URL of the sign-in page, such as https://id.example.com")?,
    };
    if arguments.protect.is_empty()
        && let Some(answer) =
            questions.optional("Application to protect, such as wiki.example.com=http://127.0.0.1:8081 (or nothing)")?
    {
        arguments.protect.push(Protected::parse(&answer).map_err(CommandFailure::line)?);
    }
    if arguments.admin.is_none()
        && let Some(answer) = questions.optional("E-mail address of the first administrator (or nothing)")?
    {
        arguments.admin = Some(email(&answer).map_err(CommandFailure::line)?);
    }
    let transport = match (arguments.tls.take(), arguments.acme.take(), arguments.behind_proxy.take()) {
        (Some((certificate, key)), ..) => TlsTermination::tls(&certificate, &key)?,
        (_, Some(directory), _) => TlsTermination::acme(directory, arguments.acme_ca.as_deref())?,
        (_, _, Some(proxy)) => TlsTermination::BehindProxy(proxy),
        _ if issuer.starts_with("http://") => TlsTermination::Http,
        _ => {
            let question = "Certificate chain and key, as CERT,KEY; acme to obtain certificates from Let's Encrypt and accept its \
                         terms of service (or nothing, behind a proxy that terminates TLS)";
            match questions.choice("--tls CERT,KEY, --acme or --behind-proxy", question)? {
                Some(answer) if answer == "acme" => TlsTermination::acme(LETS_ENCRYPT.to_owned(), None)?,
                Some(answer) => {
                    let (certificate, key) = pair(&answer).map_err(CommandFailure::line)?;
                    TlsTermination::tls(&certificate, &key)?
                }
                None => TlsTermination::BehindProxy("127.0.0.1".to_owned()),
            }
        }
    };
    let module = match (arguments.token, arguments.module.take()) {
        (_, Some(module)) => module,
        (TokenChoice::Softhsm, None) => text::softhsm_module()?,
        (TokenChoice::Existing, None) => questions.required("--module FILE", "PKCS#11 module of the token")?.into(),
    };
    Draft {
        issuer,
        transport,
        listen: arguments.listen.take(),
        module,
        token_label: arguments.token_label.clone(),
        makes_token: arguments.token == TokenChoice::Softhsm,
        protect: arguments.protect.clone(),
    }
    .text(place)
}

fn refuse_other_issuer(arguments: &InitArguments, config: &Config, place: &Place) -> Result<(), CommandFailure> {
    match &arguments.issuer {
        Some(issuer) if issuer != config.issuer.as_str() => Err(CommandFailure::line(format_args!(
            "{} exists, with the issuer {}: this command does not change the file; edit the file, or \
             remove it to start over",
            place.config.display(),
            config.issuer.as_str()
        ))),
        _ => Ok(()),
    }
}

/// Returns a warning for each requested application that an existing configuration does not have.
fn missing_apps(arguments: &InitArguments, config: &Config, place: &Place) -> Vec<String> {
    let is_missing = |protected: &&Protected| !config.apps.iter().any(|app| app.host == protected.host);
    let describe = |app: &Protected| {
        let Protected { host, upstream } = app;
        let command = place.command(&format!("app add {host}={upstream}"));
        format!("{} has no application with the host {host}: {command}", place.config.display())
    };
    arguments.protect.iter().filter(is_missing).map(describe).collect()
}

/// Creates the files that a new SoftHSM token needs.
fn prepare_token(place: &Place, report: &mut Report) -> Result<(), CommandFailure> {
    place.directory(&place.softhsm())?;
    place.directory(&place.tokens())?;
    let has_token = fs::read_dir(place.tokens()).is_ok_and(|mut entries| entries.next().is_some());
    if has_token && !place.pin.exists() {
        return Err(CommandFailure::line(format_args!(
            "{} has a token, but the file with its PIN is missing: restore {}, or remove {} to create another token, which \
             invalidates authenticator apps and issued tokens",
            place.tokens().display(),
            place.pin.display(),
            place.softhsm().display()
        )));
    }
    let is_new = place.pin_file(&secret())?;
    place.file(&place.so_pin(), &secret())?;
    let conf = format!(
        "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\nslots.removable = false\n",
        place.tokens().display()
    );
    place.file(&place.softhsm_conf(), &conf)?;
    report.step("PIN file", place.pin.display(), state(is_new));
    Ok(())
}

/// Copies the PIN of an existing token.
fn prepare_pin(arguments: &InitArguments, place: &Place, report: &mut Report) -> Result<(), CommandFailure> {
    let is_new = match &arguments.pin_file {
        _ if place.pin.exists() => false,
        Some(file) => {
            let pin = read_secret_file(file, "the token's user PIN")
                .map_err(|reason| CommandFailure::line(format_args!("--pin-file: {} {reason}", file.display())))?;
            place.pin_file(&pin)?
        }
        // An existing configuration may name another PIN file.
        None if place.config.exists() => return Ok(()),
        None => {
            return Err(CommandFailure::line(format_args!(
                "the PIN of the token is missing: write it to {}, mode 600, or give --pin-file FILE",
                place.pin.display()
            )));
        }
    };
    report.step("PIN file", place.pin.display(), state(is_new));
    Ok(())
}

/// Returns a random PIN.
fn secret() -> String {
    let bytes: [u8; 16] = random(&OsEntropy);
    hex(&bytes)
}

/// Checks the configuration as the server would, then renames it to its final name.
fn write_config(place: &Place, new: Option<&str>, report: &mut Report) -> Result<(), CommandFailure> {
    let check = place::arguments(&["check", "--file-only"]);
    let check: Vec<&OsStr> = check.iter().map(AsRef::as_ref).collect();
    let config = &place.config;
    let file_failure = |error| CommandFailure::line(format_args!("{}: {error}", config.display()));
    let checked = match new {
        Some(text) => {
            let directory = config.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(file_failure)?;
            let new = NewFile::write(config, text, 0o644).map_err(file_failure)?;
            let checked = place.run(&new.path, &check)?;
            new.create(config).map_err(file_failure)?;
            checked
        }
        None => place.run(config, &check)?,
    };
    let warnings = checked["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    report.warnings.extend(warnings.map(ToOwned::to_owned));
    report.step("configuration", config.display(), state(new.is_some()));
    Ok(())
}

fn provision(arguments: &InitArguments, place: &Place, makes_token: bool) -> Result<Provisioned, CommandFailure> {
    let so_pin = place.so_pin();
    let mut words: Vec<&OsStr> = vec![OsStr::new("provision")];
    if makes_token {
        words.extend([OsStr::new("--so-pin-file"), so_pin.as_os_str()]);
    }
    let address = arguments.admin.as_ref().map(|admin| admin.as_str().to_owned());
    let name = arguments.admin_name.clone();
    let name = name.or_else(|| address.as_ref().and_then(|address| Some(address.rsplit_once('@')?.0.to_owned())));
    if let (Some(address), Some(name)) = (&address, &name) {
        words.extend(["--admin", address, "--admin-name", name].map(OsStr::new));
    }
    serde_json::from_value(place.run(&place.config, &words)?).map_err(CommandFailure::line)
}

/// Reports the results of [`super::provision`].
fn tell(done: &Provisioned, config: &Config, makes_token: bool, report: &mut Report) {
    let label = &config.hsm.token_label;
    report.step("token", label, if makes_token { state(done.new_token) } else { "exists" });
    for key in &done.keys {
        report.step("signing key", key, state(done.new_key));
    }
    report.warnings.extend(done.warnings.iter().cloned());
    match &done.admin {
        Some(admin) => {
            let is_open = admin.link.is_some() && !admin.is_new;
            let state = if is_open { "invited again; the earlier link is invalid" } else { state(admin.is_new) };
            report.step("administrator", &admin.email, state);
            if !admin.has_role {
                let email = &admin.email;
                report
                    .warnings
                    .push(format!("{email} is a user without the role admin: sealgate user set {email} --role admin"));
            }
        }
        None => report.warnings.push("no administrator was named: run this again with --admin EMAIL".to_owned()),
    }
}

/// Starts the service if systemd runs. Returns whether a server runs.
fn start(place: &Place, is_served: bool, report: &mut Report) -> Result<bool, CommandFailure> {
    if !place.has_service() {
        return Ok(is_served);
    }
    if !systemctl(&["enable", "--now", "--quiet", "sealgate.service"]) {
        let mut lines = report.warnings.clone();
        lines.push(
            "the service does not start: `journalctl -u sealgate` shows the reason; correct it, and run this again"
                .to_owned(),
        );
        return Err(CommandFailure::Failed(lines));
    }
    report.step("service", "sealgate", if is_served { "runs" } else { "started" });
    Ok(true)
}

fn state(is_new: bool) -> &'static str {
    if is_new { "created" } else { "exists" }
}

fn show(
    done: &Provisioned,
    place: &Place,
    config: &Config,
    is_running: bool,
    report: &Report,
    output: &Output,
) -> Result<(), CommandFailure> {
    let link = done.admin.as_ref().and_then(|admin| admin.link.as_deref());
    let expires_at = done.admin.as_ref().and_then(|admin| admin.link_expires_at);
    let mut next = Vec::new();
    if !is_running {
        next.push(if place.is_installed {
            "Start the service: `sealgate serve`, as the user sealgate".to_owned()
        } else {
            format!("Start the server: {}", place.command("serve"))
        });
    }
    if let Some(link) = link {
        let until = expires_at.and_then(|at| DateTime::from_timestamp(i64::try_from(at).ok()?, 0));
        let until = until.map(|until| until.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default();
        next.push(format!("Choose a password or a passkey; the link works once, until {until}:\n     {link}"));
    }
    for origin in config.apps.iter().filter_map(|app| app.origin(&config.issuer)) {
        next.push(format!("Open {origin}/ and sign in"));
    }
    if config.console.enabled {
        next.push(format!("Manage users and clients: {}/console", config.issuer.as_str()));
    }
    next.push(format!("Protect another application: {}", place.command("app add HOST=URL")));
    let Report { steps, warnings } = report;
    let result = json!({
        "config": place.config, "steps": steps, "warnings": warnings, "link": link, "link_expires_at": expires_at, "next": next,
    });
    output.result(&result, || {
        let mut text = lines(steps, warnings);
        text.push_str("\nNext:\n");
        text.extend(next.iter().enumerate().map(|(number, line)| format!("  {}. {line}\n", number + 1)));
        text
    })
}

fn lines(steps: &[Step], warnings: &[String]) -> String {
    let line = |step: &Step| format!("{:14} {} {}\n", step.what, printable(&step.object), step.state);
    let warnings = warnings.iter().map(|warning| format!("warning: {}\n", printable(warning)));
    steps.iter().map(line).chain(warnings).collect()
}

/// Prints the steps of a run without executing them.
fn show_plan(
    arguments: &InitArguments,
    place: &Place,
    config: &Config,
    new: Option<&str>,
    output: &Output,
) -> Result<(), CommandFailure> {
    let mut report = Report { steps: Vec::new(), warnings: missing_apps(arguments, config, place) };
    let planned = |exists: bool| if exists { "exists" } else { "would be created" };
    report.step("PIN file", place.pin.display(), planned(place.pin.exists()));
    report.step("configuration", place.config.display(), planned(new.is_none()));
    let has_store = place.state.join("store/db").exists();
    report.step("token", &config.hsm.token_label, planned(has_store || !text::makes_token(config, place)));
    report.step("signing key", &config.hsm.key_label, planned(has_store));
    if let Some(admin) = &arguments.admin {
        report.step("administrator", admin.as_str(), "would be invited, unless the user exists");
    }
    report.certificates(config, "would be ordered");
    if place.has_service() {
        report.step("service", "sealgate", "would be enabled and started");
    }
    report.warnings.extend(outside::survey(config, false));
    let Report { steps, warnings } = &report;
    output.result(&json!({ "dry_run": true, "steps": steps, "warnings": warnings, "configuration": new }), || {
        let mut text = lines(steps, warnings);
        if let Some(new) = new {
            text.extend([format!("\n{}:\n\n", place.config.display()).as_str(), new]);
        }
        text
    })
}
