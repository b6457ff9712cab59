//! A TPM 2.0, emulated by swtpm, through tpm2-pkcs11: a slow device with one session.
//!
//! It signs with `CKM_SHA256_RSA_PKCS` only, because tpm2-pkcs11 implements `CKM_RSA_PKCS` as a
//! decryption, which the keys do not permit. Needs swtpm, swtpm-tools, libtpm2-pkcs11-1 and
//! libtss2-tcti-swtpm0.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::outage::outlives;
use super::world::{Client, configure_hsm, settings};
use crate::MACHINE;
use crate::softhsm::PIN;
use crate::support::{Instance, free_port, wait_until};
use crate::token_certificate::{configure_tls, issue, make_authority, openssl, serial, table};

const MODULE: &str = "/usr/lib/x86_64-linux-gnu/pkcs11/libtpm2_pkcs11.so";
const SO_PIN: &str = "73105526";

/// An emulated TPM and the store of its module.
struct Tpm {
    directory: PathBuf,
    port: u16,
    emulator: Option<Child>,
}

impl Tpm {
    fn new(directory: &Path) -> Self {
        let directory = directory.join("tpm");
        for part in ["state", "store"] {
            fs::create_dir_all(directory.join(part)).unwrap();
        }
        let state = directory.join("state");
        succeed(Command::new("swtpm_setup").args(["--tpm2", "--overwrite", "--tpmstate"]).arg(&state), "swtpm-tools");
        let mut tpm = Self { directory, port: two_ports(), emulator: None };
        tpm.start();
        tpm
    }

    fn start(&mut self) {
        let address = |port| format!("type=tcp,port={port},bindaddr=127.0.0.1");
        let emulator = Command::new("swtpm")
            .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear", "--tpmstate"])
            .arg(format!("dir={}", self.directory.join("state").display()))
            .args(["--server", &address(self.port), "--ctrl", &address(self.port + 1)])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("swtpm: {error}; install swtpm"));
        self.emulator = Some(emulator);
        // A connection would take the only one that the emulator accepts.
        wait_until("the TPM listens", || TcpListener::bind(("127.0.0.1", self.port + 1)).is_err());
    }

    fn kill(&mut self) {
        let mut emulator = self.emulator.take().unwrap();
        emulator.kill().unwrap();
        emulator.wait().unwrap();
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("TPM2_PKCS11_TCTI", format!("swtpm:host=127.0.0.1,port={}", self.port)),
            ("TPM2_PKCS11_STORE", self.directory.join("store").display().to_string()),
        ]
    }

    /// Prepares an instance whose token is in this TPM, with a signing key.
    fn instance(&self, mut instance: Instance) -> Instance {
        self.tool(&["--init-token", "--label", "sealgate", "--so-pin", SO_PIN]);
        self.tool(&["--token-label", "sealgate", "--init-pin", "--so-pin", SO_PIN, "--login", "--pin", PIN]);
        instance.environment = self.environment();
        configure_hsm(&instance, MODULE.as_ref(), "mechanism = \"sha256-rsa-pkcs\"\nsessions = 1\nqueue = 28");
        let refused = instance.try_run(&["key", "generate"], "");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains("--without-wrapping-key"), "it has no AES: {said}");
        instance.run(&["key", "generate", "--without-wrapping-key"]);
        instance
    }

    /// Runs `pkcs11-tool`, as in the key ceremony.
    fn tool(&self, arguments: &[&str]) {
        assert!(Path::new(MODULE).exists(), "{MODULE} is absent; install libtpm2-pkcs11-1");
        let mut command = Command::new("pkcs11-tool");
        command.args(["--module", MODULE]).args(arguments).envs(self.environment());
        succeed(&mut command, "opensc");
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        if self.emulator.is_some() {
            self.kill();
        }
    }
}

/// Returns two consecutive free ports.
fn two_ports() -> u16 {
    loop {
        let (first, second) = (free_port(), free_port());
        if second == first + 1 {
            return first;
        }
    }
}

fn succeed(command: &mut Command, package: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; install {package}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}{said}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tpm_signs_and_its_outage_under_load_loses_nothing() {
    let _shared = MACHINE.read().await;
    let instance = Instance::bare(&settings());
    let tpm = Tpm::new(instance.directory.path());
    let mut instance = tpm.instance(instance);
    let check = instance.json(&["key", "check"]);
    assert_eq!(check["ok"], true, "{check}");
    let person = ["user", "add", "anna@example.test", "--name", "Anna", "--email-verified", "--password-stdin"];
    instance.run_with_input(&person, crate::support::PASSWORD);
    let secret = instance.add_confidential_client("web");
    instance.start();
    let client = Arc::new(Client::new(&instance, &secret).await);
    let mut family = client.family().await;
    for _ in 0..20 {
        let reply = client.refresh(&family).await;
        assert!(reply.is_tokens(), "{reply:?}");
        family = reply.refresh_token();
    }
    let tpm = std::cell::RefCell::new(tpm);
    outlives("a TPM that was lost", &client, || tpm.borrow_mut().kill(), || tpm.borrow_mut().start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tpm_keeps_the_key_of_the_tls_certificate() {
    let _shared = MACHINE.read().await;
    let instance = Instance::bare(&settings());
    let directory = instance.directory.path().to_owned();
    let mut tpm = Tpm::new(&directory);
    let mut instance = tpm.instance(instance);
    make_authority(&directory);
    instance.run(&["key", "generate-tls-key", "tls"]);
    issue(&instance, "tls", "localhost", "server.pem");
    configure_tls(&instance, &table("server.pem", "pkcs11:object=tls"));
    let issued = openssl(&directory, &["x509", "-in", "server.pem", "-noout", "-serial"]);
    let handshake_of_tls_1_2 = |port: u16| {
        let address = format!("127.0.0.1:{port}");
        let client = ["s_client", "-tls1_2", "-connect", &address, "-servername", "localhost"];
        openssl(&directory, &[&client[..], &["-CAfile", "ca.pem", "-verify_return_error"]].concat())
    };
    // The second start finds the key in the TPM.
    for _ in 0..2 {
        // There is no resource manager, which would remove the objects that a process leaves in the TPM.
        // With those of the ceremony, or of a server that stopped during a call, it has no room for the keys.
        tpm.kill();
        tpm.start();
        instance.start();
        assert_eq!(serial(&instance, "localhost").unwrap(), issued);
        assert!(handshake_of_tls_1_2(instance.port).contains("Verify return code: 0 (ok)"));
        instance.stop();
    }
}
