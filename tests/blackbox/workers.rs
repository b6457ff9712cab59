//! Tests one of several threads that serve connections: readiness names it while it hangs, and its end
//! ends the program.

use std::fs;
use std::path::PathBuf;

use crate::ready::readiness;
use crate::support::{Instance, Settings, preloaded, wait_until};

/// Starts a server with two threads, and returns the files that make the second one hang or end.
fn start() -> (Instance, PathBuf, PathBuf) {
    let mut instance = Instance::prepare(&Settings::default());
    let config = fs::read_to_string(instance.config()).unwrap().replace("[server]", "[server]\nthreads = 2");
    fs::write(instance.config(), config).unwrap();
    let library = preloaded(instance.directory.path(), "worker.c");
    let file = |name| instance.directory.path().join(name);
    let (hangs, dies) = (file("hangs"), file("dies"));
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    instance.environment = vec![
        ("LD_PRELOAD", text(&library)),
        ("WORKER_NAME", "public-1".to_owned()),
        ("WORKER_HANGS", text(&hangs)),
        ("WORKER_DIES", text(&dies)),
    ];
    instance.start();
    assert_eq!(readiness(&instance), (200, "ready\n".to_owned()));
    (instance, hangs, dies)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_thread_is_named_until_it_serves_again() {
    let (mut instance, hangs, _dies) = start();
    fs::write(&hangs, "").unwrap();
    let mut said = String::new();
    wait_until("/readyz answers 503", || {
        let (status, body) = readiness(&instance);
        said = body;
        status == 503
    });
    let why = "the thread public-1 does not serve its connections: no answer within 2s";
    assert!(said.contains(why), "{said}");
    instance.tells(&format!("not ready: {why}"));
    fs::remove_file(&hangs).unwrap();
    wait_until("the server is ready again", || readiness(&instance).0 == 200);
    assert_eq!(instance.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_thread_ends_the_program() {
    let (mut instance, _hangs, dies) = start();
    fs::write(&dies, "").unwrap();
    // A readiness check makes the thread wait again.
    readiness(&instance);
    assert!(instance.wait_for_end().is_some_and(|status| status != 0));
    let why = "the thread public-1 has ended, and its connections with it";
    let log = instance.log();
    assert!(log.contains(&format!("{why}; the server stops")), "{log}");
    // The stop is in order, so the store is closed.
    assert!(log.contains("stopped"), "{log}");
}
