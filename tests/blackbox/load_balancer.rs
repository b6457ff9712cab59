//! Sealgate behind HAProxy as a TCP load balancer, with the documented configuration.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::program::program;
use crate::support::{Instance, Settings, Upstream, free_port, wait_until};

const CONFIGURATION: &str = include_str!("../../conf/proxies/haproxy-tcp.cfg");

/// A running HAProxy. It ends when dropped.
struct HaProxy(Child);

impl HaProxy {
    fn start(directory: &Path, port: u16, servers: [u16; 2]) -> Self {
        let mut text = CONFIGURATION.replace("0.0.0.0:443", &format!("127.0.0.1:{port}"));
        for (number, server) in (11..).zip(servers) {
            let documented = format!("10.0.0.{number}:443");
            assert!(text.contains(&documented));
            text = text.replace(&documented, &format!("127.0.0.1:{server}"));
        }
        let file = directory.join("haproxy.cfg");
        // The interval is also the timeout of a check.
        fs::write(&file, text.replace("inter 2s", "inter 1s")).unwrap();
        let log = fs::File::create(directory.join("haproxy.log")).unwrap();
        let mut command = Command::new(program("haproxy"));
        command.arg("-db").arg("-f").arg(&file).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests a path of the application through HAProxy, from one of the loopback addresses. Returns
/// the status, or an empty text if HAProxy closes the connection.
fn ask(port: u16, from: &str, path: &str) -> String {
    let url = format!("https://app.localhost:{port}{path}");
    let resolve = format!("app.localhost:{port}:127.0.0.1");
    let output = Command::new("curl")
        .args(["-sk", "--max-time", "10", "--interface", from, "--resolve", &resolve, "-o", "/dev/null", "-w"])
        .args(["%{http_code}", &url])
        .output()
        .expect("curl");
    String::from_utf8(output.stdout).unwrap().replace("000", "")
}

#[test]
fn haproxy_names_the_client_and_skips_a_server_that_is_not_ready() {
    let upstream = Upstream::start();
    let mut instance = Instance::prepare(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    instance.speak_tls();
    let text = fs::read_to_string(instance.config()).unwrap();
    let server = "[server]\nproxy_protocol = [\"127.0.0.1\"]\nhealth_path = \"/healthz\"\n";
    fs::write(instance.config(), text.replace("[server]\n", server)).unwrap();
    instance.start();
    let port = free_port();
    // No process listens at the second address.
    let _haproxy = HaProxy::start(instance.directory.path(), port, [instance.port, free_port()]);
    // HAProxy starts with all servers in use.
    let log = || fs::read_to_string(instance.directory.path().join("haproxy.log")).unwrap_or_default();
    wait_until("HAProxy has checked the second server", || log().contains("gate2 is DOWN"));
    wait_until("HAProxy uses the first server", || ask(port, "127.0.0.1", "/public/first") == "200");
    for number in 0..6 {
        assert_eq!(ask(port, "127.0.0.9", &format!("/public/from-nine-{number}")), "200");
    }
    let line = |path: &str| instance.log().lines().find(|line| line.contains(path)).map(str::to_owned);
    wait_until("the access log has the request", || line("/public/from-nine-5").is_some());
    let found = line("/public/from-nine-5").unwrap();
    assert!(found.contains("address=127.0.0.9 "), "{found}");
    assert!(!instance.log().contains("/healthz"), "health checks are not logged");
    // HAProxy sends no requests to a server whose check fails: it is stopping.
    instance.stop();
    wait_until("HAProxy has no server", || ask(port, "127.0.0.1", "/public/last").is_empty());
}
