//! `sealgate reload`.

use std::path::Path;

use tokio::runtime::Builder;

use super::failure::CommandFailure;
use super::output::{Output, printable};
use crate::admin::command::Command;
use crate::admin::{self, AskError};
use crate::config::{Config, Reach};

/// What `--help` says.
pub(super) const ABOUT: &str = "\
Have the running server take over its configuration file, without dropping a connection.

Applications, routes, upstreams, rate limits, limits on failed sign-ins, pages, the log's filter, certificates and most \
lifetimes change at once; requests under way end as they began; open WebSockets and streams go on while the new rules \
still let them through. All of the file is taken over, or nothing: a fault, or a key that only a start reads (such as \
server.listen), is named, and everything stays as it was. SIGHUP does the same, and tells the log alone.";

/// The file may have faults, which the server is to tell of, in its log too: so no more is read of it here than where the
/// server is.
pub(super) fn run(file: &Path, output: &Output) -> Result<(), CommandFailure> {
    let Some(Reach { socket, store }) = Config::reach(file) else {
        let faults = Config::read(file).err().unwrap_or_default();
        return Err(not_reloaded(faults.iter().map(ToString::to_string).collect()));
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::line(format_args!("cannot start a runtime: {error}")))?;
    let answer = runtime.block_on(admin::ask(&socket, &store, &Command::Reload)).map_err(|error| match error {
        AskError::Refused(lines) => not_reloaded(lines),
        AskError::NobodyListens => CommandFailure::line(format_args!(
            "no server answers on {}; one that was started with another admin.socket or store.path has to be restarted",
            socket.display()
        )),
        error @ AskError::Failed(_) => CommandFailure::line(error),
    })?;
    output.result(&answer, || {
        let text = |name: &str| answer.members().get(name).and_then(|value| value.as_str()).unwrap_or_default();
        let mut told = format!("{}: reloaded\n", printable(text("config")));
        let changed = answer.members().get("changed").and_then(|value| value.as_array());
        let changed = changed.map(Vec::as_slice).unwrap_or_default();
        for change in changed {
            told.push_str(&printable(change.as_str().unwrap_or_default()));
            told.push('\n');
        }
        if changed.is_empty() {
            told.push_str("nothing has changed\n");
        }
        told
    })
}

fn not_reloaded(mut lines: Vec<String>) -> CommandFailure {
    lines.push("nothing was changed; the server goes on with the configuration that it has".to_owned());
    CommandFailure::Failed(lines)
}
