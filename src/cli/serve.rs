//! `sealgate serve`.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::Path;

use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use crate::compose::{self, NotServing, Reloading};
use crate::config::{Config, Log, LogFormat};
use crate::reload::SetFilter;
use crate::server::StopSignal;

pub(super) fn run(config: Config, file: &Path) -> Result<(), Failure> {
    // Reloads find it wherever the working directory is by then.
    let file = std::path::absolute(file).map_err(|error| Failure::line(format_args!("{}: {error}", file.display())))?;
    let set_filter = start_log(&config.log)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    compose::run(config, Reloading { file, set_filter }, StopSignal::Unix)
        .map_err(|NotServing { lines, may_pass }| if may_pass { Failure::Away(lines) } else { Failure::Failed(lines) })
}

/// Log lines go to standard error, with colours only where somebody watches. Yields what sets another filter.
fn start_log(log: &Log) -> Result<SetFilter, Failure> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|error| Failure::line(format_args!("log.filter: {error}")))?;
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(colours).with_env_filter(filter);
    let (started, set_filter): (_, SetFilter) = match log.format {
        LogFormat::Text => {
            let lines = lines.with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.try_init(), Box::new(move |filter| set(filter, |filter| handle.reload(filter))))
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.try_init(), Box::new(move |filter| set(filter, |filter| handle.reload(filter))))
        }
    };
    started.map_err(|error| Failure::line(format_args!("cannot start the log: {error}")))?;
    Ok(set_filter)
}

fn set<E: Display>(filter: &str, reload: impl FnOnce(EnvFilter) -> Result<(), E>) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    reload(filter).map_err(|error| error.to_string())
}
