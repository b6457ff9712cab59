//! SoftHSM behind the socket of a p11-kit server, as a model of a network HSM: the signing process
//! dies and returns, or stops responding. Needs p11-kit and p11-kit-modules.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;

use super::outage::outlives;
use super::world::{ANSWERED, BACK, Client, configure_hsm, settings};
use crate::MACHINE;
use crate::softhsm::MODULE;
use crate::support::{Instance, wait_until};

const SERVER: &str = "/usr/libexec/p11-kit/p11-kit-server";
const CLIENT: &str = "/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so";

/// A p11-kit server in front of an instance's SoftHSM. It starts a process for each connection; all
/// of them are in one process group.
struct Remote {
    socket: PathBuf,
    configuration: PathBuf,
    server: Option<Child>,
}

impl Remote {
    fn new(instance: &Instance) -> Self {
        let socket = instance.softhsm.root().join("p11.sock");
        let mut remote = Self { socket, configuration: instance.softhsm.configuration(), server: None };
        remote.start();
        remote
    }

    fn start(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        let server = Command::new(SERVER)
            .args(["-f", "-n"])
            .arg(&self.socket)
            .args(["--provider", MODULE, "pkcs11:"])
            .env("SOFTHSM2_CONF", &self.configuration)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{SERVER}: {error}; install p11-kit"));
        self.server = Some(server);
        let socket = self.socket.clone();
        wait_until("the p11-kit server listens", || socket.exists());
    }

    fn signal(&self, signal: Signal) {
        let server = self.server.as_ref().unwrap();
        kill_process_group(Pid::from_child(server), signal).unwrap();
    }

    /// Suspends all processes, and waits until they have stopped.
    fn suspend(&self) {
        self.signal(Signal::STOP);
        let group = self.server.as_ref().unwrap().id().to_string();
        let mut running = Command::new("pgrep");
        running.args(["--runstates", "R,S,D", "--pgroup", &group]).stdout(Stdio::null());
        // pgrep ends with 1 if no process matches.
        wait_until("the p11-kit server is suspended", || running.status().unwrap().code() == Some(1));
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.server.take().unwrap().wait().unwrap();
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill();
        }
    }
}

/// The p11-kit client supports few mechanisms, and AES-GCM is not among them. It lists a wrapping
/// key that was generated in the token, but cannot use it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_wrapping_key_is_reported_before_and_after_its_first_use() {
    let _shared = MACHINE.read().await;
    let mut instance = Instance::prepare(&settings());
    let remote = Remote::new(&instance);
    instance.environment.push(("P11_KIT_SERVER_ADDRESS", format!("unix:path={}", remote.socket.display())));
    let own = std::fs::read_to_string(instance.config()).unwrap();
    let config = instance.config();
    let through = |module| std::fs::write(&config, own.replace(MODULE, module)).unwrap();
    for used in [false, true] {
        if used {
            through(MODULE);
            instance.start();
            assert_eq!(instance.stop(), Some(0));
        }
        through(CLIENT);
        for command in [&["key", "check"][..], &["serve"]] {
            let refused = instance.try_run(command, "");
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(1), "{command:?}: {said}");
            let words = [
                "\"sealgate-wrap\"",
                "C_EncryptInit answered MechanismInvalid",
                "token's own module",
                "delete the key",
            ];
            for word in words {
                assert!(
                    said.contains(word) || used && said.contains(&word.replace("Encrypt", "Decrypt")),
                    "{word}: {said}"
                );
            }
            assert!(!said.contains("check that the device"), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_aes_gets_a_key_only_with_the_operators_consent() {
    let _shared = MACHINE.read().await;
    let mut instance = Instance::bare(&settings());
    let remote = Remote::new(&instance);
    instance.environment.push(("P11_KIT_SERVER_ADDRESS", format!("unix:path={}", remote.socket.display())));
    configure_hsm(&instance, CLIENT.as_ref(), "sessions = 1");
    let refused = instance.try_run(&["key", "generate"], "");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("CKM_AES_GCM") && said.contains("--without-wrapping-key"), "{said}");
    assert_eq!(instance.softhsm.secret_keys("sealgate"), 0, "the key that does not seal is gone again");
    assert_eq!(instance.json(&["key", "list"])["keys"], serde_json::json!([]));

    instance.run(&["key", "generate", "--without-wrapping-key"]);
    assert_eq!(instance.json(&["key", "check"])["wrapping_keys"], serde_json::json!([]));
}

async fn world() -> (Instance, Remote, Arc<Client>) {
    let mut instance = Instance::prepare(&settings());
    let secret = instance.add_confidential_client("web");
    let remote = Remote::new(&instance);
    instance.environment.push(("P11_KIT_SERVER_ADDRESS", format!("unix:path={}", remote.socket.display())));
    // Remove the key that this client cannot use.
    instance.softhsm.pkcs11_tool("sealgate", &["--delete-object", "--type", "secrkey", "--label", "sealgate-wrap"]);
    assert!(std::path::Path::new(CLIENT).exists(), "{CLIENT} is absent; install p11-kit-modules");
    // Only one call at a time. If p11-kit's server dies during two calls, and the call whose
    // response has begun fails, the client blocks one thread forever.
    configure_hsm(&instance, CLIENT.as_ref(), "sessions = 1");
    instance.start();
    let client = Arc::new(Client::new(&instance, &secret).await);
    (instance, remote, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_a_remote_tokens_server_loses_nothing() {
    let _shared = MACHINE.read().await;
    let (_instance, remote, client) = world().await;
    let remote = std::cell::RefCell::new(remote);
    outlives("a p11-kit server that died", &client, || remote.borrow_mut().kill(), || remote.borrow_mut().start())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_a_remote_token_loses_nothing() {
    let _shared = MACHINE.read().await;
    let (_instance, remote, client) = world().await;
    let mut family = client.family().await;
    remote.suspend();
    let stopped = Instant::now();
    let reply = client.refresh(&family).await;
    assert!(reply.is_later() && reply.took < ANSWERED, "{reply:?}");
    while client.ready().await {
        assert!(stopped.elapsed() < Duration::from_secs(5), "the hang is not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    remote.signal(Signal::CONT);
    client.back_within(BACK, &mut family, "a server that stopped answering").await;
}
