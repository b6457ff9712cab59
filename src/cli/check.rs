//! `sealgate check`: reports the errors that would prevent startup.

use std::path::Path;

use chrono::{DateTime, SecondsFormat};
use clap::Args;
use serde_json::json;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::key;
use super::output::Output;
use crate::app::{defined_clients, relying_party, sealing};
use crate::cli::output::printable;
use sealgate_admin::Answer;
use sealgate_admin::command::{ClientCommand, Command};
use sealgate_config::{CertificateEnd, Config, StoreConfig};
use sealgate_domain::client::ClientId;
use sealgate_store::postgres::{FormatSurvey, PostgresSettings, Survey, survey};
use sealgate_system::clock::{Clock, OsEntropy, SystemClock, wall_clock_seconds};

/// Scope of the check.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Check only the configuration file and the files it refers to, not the token and the store
    #[arg(long)]
    file_only: bool,
}

pub(super) fn run(
    arguments: &CheckArguments,
    config: Config,
    file: &Path,
    output: &Output,
) -> Result<(), CommandFailure> {
    let now = SystemClock.now();
    let expiring = config.expiring(i64::try_from(now.seconds()).unwrap_or(i64::MAX));
    let overdue = config.overdue_maintenance(now);
    let mut warnings: Vec<_> =
        config.warnings.iter().chain(&expiring).chain(&overdue).map(ToString::to_string).collect();
    let mut database = None;
    let mut checked: Vec<_> = config.certificate_ends.iter().map(certificate_line).collect();
    if !arguments.file_only {
        checked.push(format!("token: {} ({})", config.hsm.token_label, config.hsm.module.display()));
        let store = match &config.store {
            StoreConfig::Sled(settings) => format!("store: {}", settings.path.display()),
            StoreConfig::Postgres(_) => "store: PostgreSQL".to_owned(),
        };
        let access = StoreAccess::open(config)?;
        // Check the database first: if it acknowledges no commit, it would delay the other checks.
        database = survey_database(&access)?;
        warnings.extend(database.iter().flat_map(|survey| survey.setup.warnings()));
        let keys = key::check::find(&access)?;
        if !keys.faults.is_empty() {
            return Err(CommandFailure::Failed(keys.faults));
        }
        checked.extend(keys.signing().map(|kid| format!("signing key: {kid}")));
        checked.push(store);
        warnings.extend(keys.warnings);
        warnings.extend(data_key_opens(&access)?);
        keys_stay_usable(&access)?;
        ids_are_free(&access)?;
    }
    let mut result =
        json!({ "config": file.display().to_string(), "ok": true, "checked": checked, "warnings": warnings });
    if let Some(survey) = &database {
        result["database"] = serde_json::to_value(survey).map_err(CommandFailure::line)?;
    }
    output.result(&result, || {
        let lines = checked
            .iter()
            .cloned()
            .chain(database.iter().flat_map(lines))
            .chain(warnings.iter().map(|line| format!("warning: {line}")));
        let lines = lines.map(|line| printable(&line)).chain([format!("{}: ok\n", file.display())]);
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn certificate_line(certificate: &CertificateEnd) -> String {
    let ends = DateTime::from_timestamp(certificate.ends, 0)
        .map_or_else(|| certificate.ends.to_string(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    format!("certificate: {}, valid until {ends}", certificate.file.display())
}

/// Examines the database server of the nodes. Returns `None` for a file-based store.
fn survey_database(access: &StoreAccess) -> Result<Option<Survey>, CommandFailure> {
    let StoreConfig::Postgres(settings) = &access.config().store else { return Ok(None) };
    let settings = PostgresSettings::from_config(settings, None).map_err(CommandFailure::line)?;
    let settings = PostgresSettings { wall_clock: Some(wall_clock_seconds), ..settings };
    let survey = access.block_on(survey(&settings)).map_err(CommandFailure::line)?;
    let faults = survey.faults();
    if faults.is_empty() { Ok(Some(survey)) } else { Err(CommandFailure::Failed(faults)) }
}

/// Formats the result of the examination as text.
fn lines(survey: &Survey) -> Vec<String> {
    let setup = &survey.setup;
    let standbys = setup.standbys.iter().map(|standby| {
        let known = [&standby.address, &standby.state, &standby.sync_state].into_iter().flatten();
        known.fold(standby.name.clone(), |line, word| format!("{line} {word}"))
    });
    let mut standbys = standbys.collect::<Vec<_>>().join(", ");
    if standbys.is_empty() {
        standbys.push_str("none");
    }
    let role = &setup.role;
    let unseen = if setup.sees_standbys {
        String::new()
    } else {
        format!(" (the role {role} cannot read their state: GRANT pg_read_all_stats TO {role})")
    };
    let owns = if survey.owns_tables { "; it owns tables, which is not necessary" } else { "" };
    let names = Some(setup.synchronous_standby_names.as_str()).filter(|names| !names.is_empty());
    let mut lines = vec![
        format!("database: {}, timeline {}, PostgreSQL {}", survey.host, survey.timeline, setup.version),
        format!("rights: the role {role} has all required privileges{owns}"),
        format!("synchronous_standby_names: {}", names.unwrap_or("none")),
        format!("standbys: {standbys}{unseen}"),
        format!("lock slots: {} ({} needed, nodes: {})", setup.lock_slots, setup.lock_slots_needed, setup.nodes),
        format!("round trip: {:.2} ms (the median of 20)", survey.round_trip_seconds * 1000.0),
    ];
    lines.push(format_line(&survey.formats));
    // The addition of 0.0 turns a negative zero into zero.
    let clock = survey.clock_offset_seconds.map(|offset| (offset * 1000.0).round() + 0.0);
    lines.extend(clock.map(|offset| format!("clock: {offset:+} ms from this machine's")));
    lines
}

fn format_line(formats: &FormatSurvey) -> String {
    let FormatSurvey { format, reads_from, reads_to, nodes_read_to } = formats;
    let format = format.map_or_else(|| "none until the first node starts".to_owned(), |format| format.to_string());
    let more = match (formats.next(), nodes_read_to) {
        (Some(next), _) => format!("; all nodes support format {next}; to use it, run: sealgate store upgrade"),
        (None, Some(most)) if most < reads_to => {
            format!("; one node supports formats only up to {most}; see: sealgate node list")
        }
        _ => String::new(),
    };
    format!("format: {format} (this version serves {reads_from} to {reads_to}{more})")
}

/// Checks that users' security keys and passkeys work with the issuer of the file.
fn keys_stay_usable(access: &StoreAccess) -> Result<(), CommandFailure> {
    let fault = |fault: &dyn std::fmt::Display| CommandFailure::line(fault);
    if access.is_served() {
        let Answer::Status(status) = access.ask_server(&Command::Status)? else {
            return Err(CommandFailure::other_answer());
        };
        return relying_party::compare(access.config(), status.keys_of, None).map_err(|error| fault(&error));
    }
    access.block_on(async {
        let Some(store) = access.open_stopped_store().await? else { return Ok(()) };
        relying_party::check(access.config(), &store).await.map_err(|error| fault(&error))
    })
}

/// Checks that no client of the file has the ID of a client that was registered in another way.
fn ids_are_free(access: &StoreAccess) -> Result<(), CommandFailure> {
    let clients = access.config().clients.iter().filter(|defined| !defined.adopt).map(|defined| &defined.client.id);
    let conflicting_ids = if access.is_served() {
        let of_server = |id: &ClientId| {
            let show = Command::Client(ClientCommand::Show(id.clone().into()));
            // The server answers with an error if there is no such client.
            matches!(access.ask_server(&show), Ok(Answer::Client(client)) if client.from_configuration.is_none())
        };
        clients.filter(|id| of_server(id)).cloned().collect()
    } else {
        access.block_on(async {
            let Some(store) = access.open_stopped_store().await? else { return Ok(Vec::new()) };
            store.clients_not_defined(clients).await.map_err(CommandFailure::line)
        })?
    };
    if conflicting_ids.is_empty() {
        Ok(())
    } else {
        Err(CommandFailure::Failed(conflicting_ids.iter().map(defined_clients::id_conflict).collect()))
    }
}

/// Returns the reason why a server could not encrypt secrets, if there is one. A running server has
/// already decrypted the data key.
fn data_key_opens(access: &StoreAccess) -> Result<Option<String>, CommandFailure> {
    if access.is_served() {
        return Ok(None);
    }
    access.block_on(async {
        let Some(store) = access.open_stopped_store().await? else { return Ok(None) };
        let unsealed = sealing::check(&access.config().hsm, &store, &OsEntropy).await.map_err(CommandFailure::line)?;
        // At startup, a server accepts a data key that another node has sent.
        let was_sent = match access.config().token_holder() {
            Some(holder) => store.data_key_envelope(&holder.node).await.map_err(CommandFailure::line)?.is_some(),
            None => false,
        };
        Ok(unsealed.filter(|_| !was_sent).map(|unsealed| unsealed.to_string()))
    })
}
