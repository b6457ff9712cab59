//! Running program with its files, token and store.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{PASSWORD, REDIRECT_URI, SIGNED_OUT_URI, free_port};
use crate::configuration::Configuration;
use crate::softhsm::{MODULE, SoftHsm};

/// Maximum time for the program to become ready, to stop, and for a condition. Longer than the lease of a
/// logout (30 s) and the pause after it, which a killed program leaves.
const PATIENCE: Duration = Duration::from_secs(90);

/// Settings of a test.
#[derive(Debug, Default, Clone)]
pub(crate) struct Settings {
    /// Whole sections of the configuration, such as `[tokens]`.
    pub(crate) sections: String,
    /// URL of the application behind the gateway, on the host `app.localhost`.
    pub(crate) upstream: Option<String>,
    /// Node of a cluster, if the instance is one.
    pub(crate) node: Option<Node>,
}

/// Node of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: &'static str,
    /// URL of the database.
    pub(crate) database: String,
    /// Port in the issuer, which all nodes share.
    pub(crate) issuer_port: Option<u16>,
}

/// Program with its token, its store and its files. Stopped on drop.
pub(crate) struct Instance {
    pub(crate) directory: TempDir,
    pub(crate) softhsm: SoftHsm,
    pub(crate) port: u16,
    pub(crate) admin_port: u16,
    /// Additional environment variables for the server and the commands.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Program to run: the binary under test, or another build of it.
    pub(crate) program: PathBuf,
    child: Option<Child>,
}

/// Returns a command of the program, with the token's configuration in its environment.
pub(crate) fn sealgate(softhsm: &SoftHsm, arguments: &[&str]) -> Command {
    run_with(&program(), softhsm, arguments)
}

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_sealgate").into()
}

fn run_with(program: &Path, softhsm: &SoftHsm, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("SOFTHSM2_CONF", softhsm.configuration()).stdin(Stdio::null());
    command
}

/// Compiles a C file in `tests/blackbox` to a shared library for `LD_PRELOAD`.
#[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
pub(crate) fn preloaded(directory: &Path, source: &str) -> PathBuf {
    let library = directory.join(source).with_extension("so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox").join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).args([&library, &source]);
    assert!(compiler.status().expect("a C compiler; install gcc").success());
    library
}

/// Waits for a condition, and panics if it is not met in time.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for a condition that needs requests.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Instance {
    /// Prepares an instance without starting it: a token with a key, a configuration, a user and
    /// two clients.
    pub(crate) fn prepare(settings: &Settings) -> Self {
        let instance = Self::bare(settings);
        instance.run(&["key", "generate"]);
        instance.add_anna();
        instance
    }

    pub(crate) fn add_anna(&self) {
        let person = ["user", "add", "anna@example.test", "--name", "Anna Şahin", "--email-verified"];
        self.run_with_input(
            &[person.as_slice(), &["--phone", "+90 212 555 01 01", "--group", "staff", "--password-stdin"]].concat(),
            PASSWORD,
        );
    }

    /// Prepares an instance with a token and a configuration only.
    pub(crate) fn bare(settings: &Settings) -> Self {
        let instance = Self {
            directory: tempfile::Builder::new().prefix("sealgate-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            softhsm: SoftHsm::with_token("sealgate"),
            port: free_port(),
            admin_port: free_port(),
            environment: Vec::new(),
            program: program(),
            child: None,
        };
        instance.configure(settings);
        instance
    }

    /// Prepares another node of the cluster of `first`, with the same token and issuer.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn beside(first: &Self, settings: &Settings) -> Self {
        let instance = Self {
            directory: tempfile::Builder::new().prefix("sealgate-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            softhsm: first.softhsm.shared(),
            port: free_port(),
            admin_port: free_port(),
            environment: Vec::new(),
            program: program(),
            child: None,
        };
        instance.configure(settings);
        instance
    }

    pub(crate) fn configure(&self, settings: &Settings) {
        let Self { port, admin_port, .. } = self;
        let app = settings.upstream.as_ref().map_or_else(String::new, |upstream| {
            format!(
                r#"
                [[app]]
                name = "legacy"
                host = "app.localhost"
                upstreams = ["{upstream}"]
                [[app.route]]
                path = "/public/"
                access = "public"
                [[app.route]]
                path = "/api/"
                access = "bearer"
                scopes = ["profile"]
                [[app.route]]
                path = "/"
                access = "signed_in"
                "#
            )
        });
        let (pin_file, store) = (self.softhsm.pin_file(), self.store());
        let configuration = Configuration {
            issuer: &format!(
                "http://localhost:{}",
                settings.node.as_ref().and_then(|node| node.issuer_port).unwrap_or(*port)
            ),
            listen: &format!("127.0.0.1:{port}"),
            module: MODULE,
            pin_file: path(&pin_file),
            store: path(&store),
        };
        let socket = self.directory.path().join("admin.sock");
        let admin = format!("[admin]\nlisten = \"127.0.0.1:{admin_port}\"\nsocket = \"{}\"", socket.display());
        let text = configuration.text(&admin, &format!("{}\n{app}", settings.sections));
        let text = match &settings.node {
            None => text,
            Some(node) => {
                let url_file = self.directory.path().join("database");
                fs::write(&url_file, &node.database).unwrap();
                fs::set_permissions(&url_file, fs::Permissions::from_mode(0o600)).unwrap();
                let files = format!("path = \"{}\"", path(&store));
                let database = format!("engine = \"postgres\"\nurl_file = \"{}\"", path(&url_file));
                let text = text.replace(&files, &database).replace("[hsm]\n", "[hsm]\nshared = true\n");
                format!("{text}\n[cluster]\nnode = \"{}\"\n", node.name)
            }
        };
        fs::write(self.config(), text).unwrap();
    }

    /// Creates `server.pem` and `server.key` in the directory: a self-signed certificate for localhost
    /// and app.localhost, valid for this number of days.
    pub(crate) fn make_certificate(&self, days: u32) {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", &days.to_string()])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:app.localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out", "server.pem", "-keyout", "server.key"])
            .current_dir(self.directory.path())
            .output()
            .expect("openssl");
        assert!(made.status.success());
    }

    /// Enables TLS with the certificate of [`Self::make_certificate`]. Must be called before the start.
    pub(crate) fn speak_tls(&self) {
        self.make_certificate(20);
        let text = fs::read_to_string(self.config()).unwrap().replace("issuer = \"http://", "issuer = \"https://");
        let tls = "[server]\ntls = { certificate = \"server.pem\", key = \"server.key\" }";
        fs::write(self.config(), text.replace("[server]", tls)).unwrap();
    }

    /// Returns the path of the configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join("sealgate.toml")
    }

    /// Returns the path of the store's directory.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// Returns the program's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Waits until the log contains these words: a line is written shortly after its event.
    #[track_caller]
    pub(crate) fn tells(&self, words: &str) {
        wait_until(&format!("the log tells: {words}"), || self.log().contains(words));
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Returns the URL of a path at the provider.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    /// Returns the URL of a path at the application.
    pub(crate) fn app_url(&self, path: &str) -> String {
        format!("http://app.localhost:{}{path}", self.port)
    }

    /// Returns the URL of a path at the admin listener.
    pub(crate) fn admin_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.admin_port)
    }

    /// Runs a command and returns its output. Panics if it fails.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_with_input(arguments, "")
    }

    /// Runs a command with text on standard input. Panics if it fails.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> String {
        let output = self.try_run(arguments, input);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}\n{}", self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command and returns its outcome.
    pub(crate) fn try_run(&self, arguments: &[&str], input: &str) -> Output {
        let config = self.config();
        let mut command = run_with(&self.program, &self.softhsm, arguments);
        command.args(["--config", path(&config)]).envs(self.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads no input may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Runs a command with `--json` and returns its object.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Registers a confidential client and returns its secret.
    pub(crate) fn add_confidential_client(&self, id: &str) -> String {
        let added = self.json(&[
            "client",
            "add",
            id,
            "--name",
            "A confidential client",
            "--type",
            "confidential",
            "--redirect-uri",
            REDIRECT_URI,
            "--post-logout-redirect-uri",
            SIGNED_OUT_URI,
        ]);
        added["client_secret"].as_str().unwrap().to_owned()
    }

    pub(crate) fn add_public_client(&self, id: &str) {
        self.json(&[
            "client",
            "add",
            id,
            "--name",
            "A public client",
            "--type",
            "public",
            "--redirect-uri",
            REDIRECT_URI,
            "--post-logout-redirect-uri",
            SIGNED_OUT_URI,
        ]);
    }

    /// Starts the server and waits until it is ready.
    pub(crate) fn start(&mut self) {
        self.launch();
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        wait_until("the server is ready", || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {ended:?}\n{}", self.log());
            ready(self.admin_port)
        });
    }

    /// Waits until the server is ready or has ended. Returns whether it is ready.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn is_ready_or_has_ended(&mut self) -> bool {
        let mut is_ready = false;
        wait_until("the server is ready or has ended", || {
            is_ready = ready(self.admin_port);
            is_ready || self.has_ended()
        });
        is_ready
    }

    /// Starts the server without waiting.
    pub(crate) fn launch(&mut self) {
        let config = self.config();
        let command = run_with(&self.program, &self.softhsm, &["serve", "--config", path(&config)]);
        self.launch_by(command);
    }

    /// Starts the server on a listening socket, as systemd does, and waits until it is ready.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn start_on(&mut self, socket: &TcpListener) {
        let config = self.config();
        // LISTEN_PID must name the process that becomes the server. The socket is passed as its
        // standard input.
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_sealgate"), "serve", "--config", path(&config)]);
        command.env("SOFTHSM2_CONF", self.softhsm.configuration());
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket.try_clone().unwrap())));
        self.launch_by(command);
        self.wait_until_ready();
    }

    /// Starts the server after these shell commands, and waits until it is ready.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn start_limited(&mut self, words: &str) {
        let config = self.config();
        let script = format!("{words}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_sealgate"), "serve", "--config", path(&config)]);
        command.env("SOFTHSM2_CONF", self.softhsm.configuration());
        self.launch_by(command);
        self.wait_until_ready();
    }

    /// Starts the server with its log redirected, and waits until it is ready.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn start_logging_to(&mut self, log: impl Into<Stdio>) {
        let config = self.config();
        let mut command = run_with(&self.program, &self.softhsm, &["serve", "--config", path(&config)]);
        command.envs(self.environment.iter().cloned());
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        self.wait_until_ready();
    }

    fn launch_by(&mut self, mut command: Command) {
        let log = self.open_log();
        command.envs(self.environment.iter().cloned());
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.child = Some(child);
    }

    /// Opens the log file for appending.
    pub(crate) fn open_log(&self) -> fs::File {
        fs::File::options().create(true).append(true).open(self.log_file()).unwrap()
    }

    /// Waits until the server has ended by itself, and returns its exit code.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn wait_for_end(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let mut code = None;
        wait_until("the server has ended", || {
            code = child.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|status| status.code())
    }

    /// Returns the id of the process.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Prepares and starts an instance.
    pub(crate) fn started(settings: &Settings) -> Self {
        let mut instance = Self::prepare(settings);
        instance.start();
        instance
    }

    /// Sends the server a signal, such as `HUP`.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Kills the server with SIGKILL, like a power cut or the kernel.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and use it")]
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns the server's peak resident memory in MiB.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Returns the server's anonymous resident memory in MiB.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn own_memory(&self) -> u64 {
        self.memory("RssAnon:")
    }

    /// Returns the number of times that the password threads have waited for a job. It grows with
    /// each password that is hashed.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn password_waits(&self) -> u64 {
        let pid = self.child.as_ref().unwrap().id();
        let mut waits = 0;
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let task = task.unwrap().path();
            if fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("password-")) {
                let status = fs::read_to_string(task.join("status")).unwrap();
                let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
                waits += line.unwrap().trim().parse::<u64>().unwrap();
            }
        }
        waits
    }

    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    fn memory(&self, field: &str) -> u64 {
        self.process_status(field).trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// Returns a value of the server process from `/proc/PID/status`.
    pub(crate) fn process_status(&self, field: &str) -> String {
        let pid = self.child.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().to_owned()
    }

    /// Returns whether the server has ended by itself.
    #[allow(dead_code, reason = "the tests of failing tokens share this fixture and use it")]
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Stops the server with SIGTERM and returns its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let sent = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(sent.success());
        let mut status = None;
        wait_until("the server stops", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Instance {
    #[expect(clippy::print_stderr, reason = "the log says why a test failed")]
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- log of the server\n{}", self.log());
        }
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns whether the admin listener reports readiness.
fn ready(port: u16) -> bool {
    use std::io::Read;
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    if stream.write_all(request.as_bytes()).is_err() {
        return false;
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer.starts_with("HTTP/1.1 200")
}
