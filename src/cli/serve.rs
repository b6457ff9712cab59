//! `sealgate serve`.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use crate::compose::{self, NotServing};
use crate::config::{Config, Log, LogFormat};
use crate::server::StopSignal;

pub(super) fn run(config: Config) -> Result<(), Failure> {
    start_log(&config.log)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    compose::run(config, StopSignal::Unix).map_err(
        |NotServing { lines, may_pass }| {
            if may_pass { Failure::Away(lines) } else { Failure::Failed(lines) }
        },
    )
}

/// Log lines go to standard error, with colours only where somebody watches.
fn start_log(log: &Log) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|error| Failure::line(format_args!("log.filter: {error}")))?;
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colours);
    let started = match log.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::line(format_args!("cannot start the log: {error}")))
}
