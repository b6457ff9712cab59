//! `sealgate reload`.

use std::path::Path;

use serde_json::json;
use tokio::runtime::Builder;

use super::failure::CommandFailure;
use super::output::Output;
use super::printable::printable;
use sealgate_admin as admin;
use sealgate_admin::command::Command;
use sealgate_admin::{Answer, AskError};
use sealgate_config::{Config, ServerAddress};

/// Reloads the configuration of the running server.
///
/// Reads only the server's location from the file, because the server reports errors in it, also in
/// its log.
pub(super) fn run(file: &Path, output: &Output) -> Result<(), CommandFailure> {
    let Some(ServerAddress { socket, owned }) = Config::reach(file) else {
        let faults = Config::read(file).err().unwrap_or_default();
        return Err(not_reloaded(faults.iter().map(ToString::to_string).collect()));
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::line(format_args!("cannot start a runtime: {error}")))?;
    let answer = runtime.block_on(admin::ask(&socket, &owned, &Command::Reload)).map_err(|error| match error {
        AskError::Refused(lines) => not_reloaded(lines),
        AskError::NobodyListens => CommandFailure::line(format_args!(
            "no server answers on {}; one that was started with another admin.socket or store.path has to be restarted",
            socket.display()
        )),
        error @ AskError::Failed(_) => CommandFailure::line(error),
    })?;
    let Answer::Reloaded(reloaded) = answer else { return Err(CommandFailure::other_answer()) };
    output.result(&json!(reloaded), || {
        let mut told = format!("{}: reloaded\n", printable(&reloaded.config.to_string_lossy()));
        for change in &reloaded.changed {
            told.push_str(&printable(change));
            told.push('\n');
        }
        if reloaded.changed.is_empty() {
            told.push_str("nothing has changed\n");
        }
        told
    })
}

fn not_reloaded(mut lines: Vec<String>) -> CommandFailure {
    lines.push("nothing was changed; the server goes on with the configuration that it has".to_owned());
    CommandFailure::Failed(lines)
}
