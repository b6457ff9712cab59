//! Tests `make run`, the first command of a new user.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::free_port;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

fn demo(run: &Path, port: u16) -> Command {
    let mut command = Command::new(format!("{REPOSITORY}/conf/demo.sh"));
    command
        .env("SEALGATE", env!("CARGO_BIN_EXE_sealgate"))
        .env("RUN", run)
        .env("PORT", port.to_string())
        .env("APP_PORT", free_port().to_string())
        .env("ADMIN_PORT", free_port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_port_in_use_is_reported_before_the_build() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let run = directory.path().join("run");
    // The command would fail if it built or created anything.
    let output = demo(&run, port).env("SEALGATE", "").env("CARGO", "/bin/false").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.contains(&format!("port {port} of this machine is taken")) && told.contains("make run PORT="),
        "{told}"
    );
    assert!(output.stdout.is_empty() && !run.exists());
}

#[test]
fn a_demonstration_on_another_port_serves_the_sample_application() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (run, port) = (directory.path().join("run"), free_port());
    let mut child = demo(&run, port).stderr(Stdio::inherit()).spawn().unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !said.contains("Stop with Ctrl-C") {
        said += &(lines.next().expect("the demonstration ended").unwrap() + "\n");
    }
    let application = format!("http://app.localhost:{port}/public/hello");
    let at = format!("app.localhost:{port}:127.0.0.1");
    let arguments = ["-sf", "--retry", "100", "--retry-connrefused", "--retry-delay", "1", "--retry-max-time", "30"];
    let answer = Command::new("curl").args(arguments).args(["--resolve", &at, &application]).output().unwrap();
    let own = |pid: u32| rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let server = fs::read_to_string(run.join("store/lock")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(own(server), rustix::process::Signal::TERM).unwrap();
    let ended = child.wait().unwrap();
    assert!(answer.status.success() && ended.success(), "{said}");
    assert!(said.contains(&format!("http://localhost:{port}/console")) && said.contains("a debug build"), "{said}");
    let password = fs::read_to_string(run.join("password")).unwrap();
    assert!(said.contains(password.trim()), "{said}");
}
