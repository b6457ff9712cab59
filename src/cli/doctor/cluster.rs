//! Checks of the database and the nodes of a cluster.

use std::fmt::Display;

use tokio::runtime::Builder;

use super::{Finding, Topic};
use sealgate_config::{Config, StoreConfig};
use sealgate_store::postgres::{ClusterMember, PostgresSettings, members, survey};
use sealgate_system::clock::wall_clock_seconds;

/// Reads from the database. If that fails, returns a finding with the reason.
fn read<T, E: Display>(
    topic: Topic,
    config: &Config,
    query: impl AsyncFnOnce(&PostgresSettings) -> Result<T, E>,
) -> Result<T, Vec<Finding>> {
    let StoreConfig::Postgres(settings) = &config.store else { return Err(Vec::new()) };
    let settings = PostgresSettings::from_config(settings, None)
        .map_err(|fault| vec![Finding::of_fault(topic, fault.to_string())])?;
    let settings = PostgresSettings { wall_clock: Some(wall_clock_seconds), ..settings };
    let failed = |error: &dyn Display| vec![Finding::problem(topic, error.to_string())];
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
    runtime.block_on(query(&settings)).map_err(|error| failed(&error))
}

/// Judges the setup of the database server, as `sealgate check` does.
pub(super) fn database(config: &Config) -> Vec<Finding> {
    let survey = match read(Topic::Database, config, survey) {
        Ok(survey) => survey,
        Err(findings) => return findings,
    };
    let mut findings: Vec<_> =
        survey.faults().into_iter().map(|fault| Finding::problem(Topic::Database, fault)).collect();
    findings.extend(survey.setup.warnings().into_iter().map(|warning| Finding::warning(Topic::Database, warning)));
    if findings.is_empty() {
        let round_trip = survey.round_trip_seconds * 1000.0;
        let message = format!("{}, PostgreSQL {}, round trip {round_trip:.1} ms", survey.host, survey.setup.version);
        findings.push(Finding::ok(Topic::Database, message));
    }
    findings
}

/// Judges each node.
pub(super) fn nodes(config: &Config) -> Vec<Finding> {
    match read(Topic::Nodes, config, members) {
        Ok(members) => members.iter().filter(|node| !node.removed).map(node).collect(),
        Err(findings) => findings,
    }
}

fn node(node: &ClusterMember) -> Finding {
    let ClusterMember { name, version, silent, .. } = node;
    let silent = silent.max(0.0);
    if !node.is_heard_of() {
        let message = format!(
            "the node {name} sent no heartbeat for {silent:.0} seconds: start it; if it does not return, \
             run: sealgate node remove {name}"
        );
        return Finding::problem(Topic::Nodes, message);
    }
    let own = env!("CARGO_PKG_VERSION");
    if version != own {
        let message = format!("the node {name} has the version {version}, this program {own}: complete the upgrade");
        return Finding::warning(Topic::Nodes, message);
    }
    Finding::ok(Topic::Nodes, format!("the node {name} sent a heartbeat {silent:.1} seconds ago"))
}
