//! `sealgate serve` and commands to the server, both with the real program.

use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sealgate_domain::user::Email;

use crate::site::{PASSWORD, Site};

const PATIENCE: Duration = Duration::from_mins(1);

/// A server process. It is killed when dropped.
pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn start(site: &Site) -> Self {
        let config = site.config();
        let mut command = site.program(&["serve", "--config", config.to_str().unwrap()]);
        let server = Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let end = Instant::now() + PATIENCE;
        // The server answers commands shortly before it handles SIGTERM.
        while site.run(&["status"], "").status.code() != Some(0) || !server.catches_sigterm() {
            assert!(Instant::now() < end, "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn catches_sigterm(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (Signal::TERM.as_raw() - 1)) != 0
    }

    /// Sends SIGTERM. Returns the exit code and the log.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let mut log = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.0.wait().unwrap().code(), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server has already ended if the test stopped it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn commands_go_to_the_server_while_it_runs_and_to_the_store_before_and_after() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let before = site.add_user("anna@example.test");
    let server = Server::start(&site);
    let during = site.add_user("ben@example.test");
    let subs = |site: &Site| -> Vec<String> {
        let list = site.json(&["user", "list"]);
        list["users"].as_array().unwrap().iter().map(|user| user["sub"].as_str().unwrap().to_owned()).collect()
    };
    let mut expected = vec![before, during.clone()];
    expected.sort_unstable();
    assert_eq!(subs(&site), expected);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains(&during), "{log}");
    assert!(!log.contains(PASSWORD) && !log.contains('\u{1b}'), "no secret and no colours: {log}");
    assert!(!site.socket().exists());
    assert_eq!(subs(&site), expected);
    let ben = site.store().await.user_by_email(&Email::parse("ben@example.test").unwrap()).await.unwrap();
    assert!(ben.is_some_and(|ben| ben.password.is_some()));
}

#[test]
fn a_second_server_on_the_same_store_is_refused() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let server = Server::start(&site);
    let errors = site.errors(&["serve"], "");
    let process = format!("by process {}", server.0.id());
    assert!(errors.len() == 1 && errors[0].contains(&process), "{errors:?}");
}

#[test]
fn a_server_without_a_key_does_not_start() {
    let site = Site::with_token();
    let errors = site.errors(&["serve"], "");
    assert!(errors.len() == 1 && errors[0].contains("sealgate key generate"), "{errors:?}");
}
