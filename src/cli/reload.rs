//! `sealgate reload`: reloads the configuration of the running server.

use std::path::Path;

use serde_json::json;
use tokio::runtime::Builder;

use super::failure::CommandFailure;
use super::output::Output;
use crate::cli::output::printable;
use sealgate_admin as admin;
use sealgate_admin::answer::ReloadAnswer;
use sealgate_admin::command::Command;
use sealgate_admin::{Answer, AskError};
use sealgate_config::{Config, ServerAddress};

/// Result of a reload.
pub(super) enum ReloadOutcome {
    Done(ReloadAnswer),
    /// No server answers.
    NoServer(CommandFailure),
    /// The reload failed and changed nothing.
    Failed(CommandFailure),
}

/// Reloads the configuration of the running server, and prints the changes.
pub(super) fn run(file: &Path, output: &Output) -> Result<(), CommandFailure> {
    match reload(file) {
        ReloadOutcome::Done(reloaded) => output.result(&json!(reloaded), || describe(&reloaded)),
        ReloadOutcome::NoServer(failure) | ReloadOutcome::Failed(failure) => Err(failure),
    }
}

/// Formats the result of a reload.
pub(super) fn describe(reloaded: &ReloadAnswer) -> String {
    let mut text = format!("{}: reloaded\n", printable(&reloaded.config.to_string_lossy()));
    for change in &reloaded.changed {
        text.push_str(&printable(change));
        text.push('\n');
    }
    if reloaded.changed.is_empty() {
        text.push_str("no changes\n");
    }
    text
}

/// Reloads the configuration of the running server.
///
/// Reads only the server's location from the file. The server reports errors in the file, also in
/// its log.
pub(super) fn reload(file: &Path) -> ReloadOutcome {
    let Some(ServerAddress { socket, owned }) = Config::reach(file) else {
        let faults = Config::read(file).err().unwrap_or_default();
        return ReloadOutcome::Failed(not_reloaded(faults.iter().map(ToString::to_string).collect()));
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return ReloadOutcome::Failed(CommandFailure::line(format_args!("cannot start a runtime: {error}")));
        }
    };
    match runtime.block_on(admin::ask(&socket, &owned, &Command::Reload)) {
        Ok(Answer::Reloaded(reloaded)) => ReloadOutcome::Done(reloaded),
        Ok(_) => ReloadOutcome::Failed(CommandFailure::other_answer()),
        Err(AskError::Refused(lines)) => ReloadOutcome::Failed(not_reloaded(lines)),
        Err(AskError::NoServer) => ReloadOutcome::NoServer(CommandFailure::line(format_args!(
            "no server answers on {}; restart a server that was started with another admin.socket or store.path",
            socket.display()
        ))),
        Err(error @ AskError::Failed(_)) => ReloadOutcome::Failed(CommandFailure::line(error)),
    }
}

fn not_reloaded(mut lines: Vec<String>) -> CommandFailure {
    lines.push("nothing was changed; the server keeps its current configuration".to_owned());
    CommandFailure::Failed(lines)
}
