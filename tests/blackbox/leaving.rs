//! Tests the exit of the process: exit handlers of libraries do not run, because threads of theirs
//! are still running.

use crate::support::{Instance, Settings, preloaded};

#[test]
fn no_exit_handler_of_a_library_runs_after_a_stop_or_a_command() {
    let mut instance = Instance::prepare(&Settings::default());
    let library = preloaded(instance.directory.path(), "handlers.c");
    instance.environment = vec![("LD_PRELOAD", library.to_str().unwrap().to_owned())];
    instance.start();
    assert_eq!(instance.stop(), Some(0));
    for (words, status) in [(&["key", "list"][..], 0), (&["user", "show", "a@b.test"], 1), (&["steal"], 2)] {
        let output = instance.try_run(words, "");
        assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
        // The output was written nevertheless.
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{words:?}");
    }
}
