//! `sealgate serve`.

use std::path::Path;

use super::failure::CommandFailure;
use crate::app::server::StopSignal;
use crate::app::start;
use crate::app::start::ReloadInputs;
use sealgate_config::Config;
use sealgate_core::state::NotServing;
use sealgate_system::log;

pub(super) fn run(config: Config, file: &Path) -> Result<(), CommandFailure> {
    // Make the path absolute, so that reloads find the file from any working directory.
    let file =
        std::path::absolute(file).map_err(|error| CommandFailure::line(format_args!("{}: {error}", file.display())))?;
    let set_filter = log::start(&config.log).map_err(CommandFailure::line)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    start::run(config, ReloadInputs { file, set_filter }, StopSignal::Unix).map_err(
        |NotServing { lines, is_transient }| {
            if is_transient { CommandFailure::Unavailable(lines) } else { CommandFailure::Failed(lines) }
        },
    )
}
