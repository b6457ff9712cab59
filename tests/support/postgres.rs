//! PostgreSQL servers of the installed package, each with a separate directory that is removed when
//! the test program ends.

#![allow(dead_code, reason = "each program of tests uses a part of this")]

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use sealgate_store::postgres::{PostgresSettings, initialise};
use tokio_postgres::{Client, NoTls};

use crate::port::free_port;

const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns the path of a PostgreSQL program. Debian installs one directory per version, outside of
/// `PATH`.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin").join(name))))
        .filter(|(_, file)| file.is_file())
        .collect();
    found.sort();
    let (_, file) =
        found.pop().unwrap_or_else(|| panic!("there is no {name} of PostgreSQL: .ci/install test fetches it"));
    file
}

fn command(name: &str) -> Command {
    as_owner(&program(name))
}

/// Returns a command that runs as the package's user if this process is root, because PostgreSQL
/// refuses to run as root. The command is killed when the thread that started it ends.
fn as_owner(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null());
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Creates a directory for a server. Removes the directories of test programs that have ended.
fn place() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // The directory is not below target, because the package's user may have no access to target.
    let tmp = std::env::temp_dir();
    for entry in fs::read_dir(&tmp).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let process = name.strip_prefix("sealgate-postgres-").and_then(|name| name.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // A second test program may be removing the directory too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let place = tmp.join(format!("sealgate-postgres-{}-{number}", std::process::id()));
    fs::create_dir(&place).unwrap();
    if is_root() {
        let id = |kind: &str| {
            let id = Command::new("id").args([kind, "postgres"]).output().unwrap();
            String::from_utf8(id.stdout).unwrap().trim().parse().expect("the package makes the user postgres")
        };
        chown(&place, Some(id("-u")), Some(id("-g"))).unwrap();
    }
    place
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A PostgreSQL server.
pub(crate) struct PostgresServer {
    place: PathBuf,
    pub(crate) port: u16,
    settings: Vec<String>,
    process: Option<Child>,
}

impl PostgresServer {
    /// Starts a new server with these settings, each `NAME=VALUE`.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let place = place();
        // `--no-sync`: only data from before the first start may be lost.
        let mut initdb = command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=sealgate", "--encoding=UTF8", "--locale=C", "--pgdata"]);
        run(initdb.arg(place.join("data")));
        Self::over(place, settings)
    }

    fn over(place: PathBuf, settings: &[&str]) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { place, port: free_port(), settings, process: None };
        server.start_again();
        server
    }

    /// Starts a standby of this server, which acknowledges commits as `name`.
    pub(crate) fn standby(&self, name: &str) -> Self {
        let place = place();
        let address = format!("host=127.0.0.1 port={} user=sealgate application_name={name}", self.port);
        let mut copy = command("pg_basebackup");
        copy.args(["--no-sync", "--write-recovery-conf", "--checkpoint=fast", "--dbname", &address, "--pgdata"]);
        run(copy.arg(place.join("data")));
        Self::over(place, &[])
    }

    /// Starts the server, also after [`PostgresServer::kill`], and waits until it accepts
    /// connections.
    pub(crate) fn start_again(&mut self) {
        let mut postgres = command("postgres");
        postgres.arg("-D").arg(self.place.join("data"));
        let own = [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            "shared_buffers=32MB".to_owned(),
            "max_connections=200".to_owned(),
        ];
        for setting in own.iter().chain(&self.settings) {
            postgres.args(["-c", setting]);
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(self.place.join("log")).unwrap();
        postgres.stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(spawn(postgres));
        let ready = || {
            let mut answers = command("pg_isready");
            answers.args(["--quiet", "--host=127.0.0.1", "--username=sealgate", "--port", &self.port.to_string()]);
            TcpStream::connect(("127.0.0.1", self.port)).is_ok() && answers.status().unwrap().success()
        };
        self.until("it takes connections", ready);
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            let log = || fs::read_to_string(self.place.join("log")).unwrap();
            assert!(started.elapsed() < START_TIMEOUT, "PostgreSQL: not yet: {what}\n{}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills all of its processes at once, like a power cut.
    pub(crate) fn kill(&mut self) {
        let all = self.processes();
        let Some(mut process) = self.process.take() else { return };
        signal("KILL", &all);
        process.wait().unwrap();
        // The kernel releases a killed process's port only after the process has ended.
        self.until("its processes are gone", || all.iter().all(|id| !is_running(*id)));
    }

    fn processes(&self) -> Vec<u32> {
        let Some(process) = &self.process else { return Vec::new() };
        let mut all = children(process.id());
        all.push(process.id());
        all
    }

    /// Suspends all of its processes. The kernel still accepts connections.
    pub(crate) fn hang(&self) {
        signal("STOP", &self.processes());
    }

    /// Resumes its processes.
    pub(crate) fn resume(&self) {
        signal("CONT", &self.processes());
    }

    /// Promotes a standby to primary.
    pub(crate) fn promote(&self) {
        let mut promote = command("pg_ctl");
        run(promote.args(["promote", "--wait", "--pgdata"]).arg(self.place.join("data")));
    }

    /// Creates a CA and a certificate for `localhost` in the server's directory. Returns the path
    /// of the CA certificate.
    pub(crate) fn certify(&self) -> PathBuf {
        let file = |name: &str| self.place.join(name).into_os_string().into_string().unwrap();
        let (ca, ca_key, certificate, key) = (file("ca.pem"), file("ca.key"), file("server.pem"), file("server.key"));
        let openssl = |arguments: &[&str]| {
            run(as_owner(Path::new("openssl")).args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"]).args(arguments));
        };
        openssl(&["-subj", "/CN=ca", "-keyout", &ca_key, "-out", &ca]);
        let names = "subjectAltName=DNS:localhost";
        let end = "basicConstraints=critical,CA:FALSE";
        openssl(&[
            "-subj",
            "/CN=server",
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-keyout",
            &key,
            "-out",
            &certificate,
            "-addext",
            names,
            "-addext",
            end,
        ]);
        // If the test runs as root, it can read the file regardless of its mode.
        PathBuf::from(ca)
    }

    /// Prepends rules to `pg_hba.conf`.
    pub(crate) fn rule(&self, rules: &str) {
        let file = self.place.join("data/pg_hba.conf");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{rules}\n{before}")).unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    pub(crate) fn url(&self, options: &str) -> String {
        format!("postgres://sealgate@127.0.0.1:{}/postgres{options}", self.port)
    }

    /// Opens a connection that bypasses the engine.
    pub(crate) async fn client(&self, options: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(options), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn signal(name: &str, processes: &[u32]) {
    let processes = processes.iter().map(ToString::to_string);
    // A process that has already ended is no error.
    Command::new("kill").arg(format!("-{name}")).args(processes).stderr(Stdio::null()).status().unwrap();
}

fn children(parent: u32) -> Vec<u32> {
    let file = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(file).unwrap_or_default();
    children.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Returns whether a process runs. A zombie (ended, but not waited for) does not.
fn is_running(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Starts a command on a thread that lives as long as this program. The kernel kills the command's
/// process when that thread ends.
fn spawn(command: Command) -> Child {
    type Order = (Command, mpsc::Sender<Child>);
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in orders {
                reply.send(command.spawn().unwrap()).unwrap();
            }
        });
        sender
    });
    let (reply, child) = mpsc::channel();
    starter.send((command, reply)).unwrap();
    child.recv().unwrap()
}

/// Returns the URL options that select one schema.
pub(crate) fn within(schema: &str) -> String {
    format!("?options=-csearch_path%3D{schema}")
}

/// Returns the server that the tests of this program share. Each test uses a separate schema.
pub(crate) fn shared() -> &'static PostgresServer {
    static SHARED: OnceLock<PostgresServer> = OnceLock::new();
    SHARED.get_or_init(|| PostgresServer::start(&[]))
}

/// Creates an empty schema on the shared server and returns its name.
pub(crate) async fn schema() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let server = tokio::task::spawn_blocking(shared).await.unwrap();
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    server.client("").await.batch_execute(&format!("CREATE SCHEMA {name}")).await.unwrap();
    name
}

/// Heartbeat timeout of tests that do not test heartbeats: on a busy machine a heartbeat may be
/// late.
pub(crate) const PATIENT: Duration = Duration::from_secs(30);

/// Creates an empty store on the shared server.
pub(crate) async fn empty_store() -> PostgresSettings {
    let schema = schema().await;
    let url = shared().url(&within(&schema));
    let settings = PostgresSettings { staleness: PATIENT, ..PostgresSettings::new(url.into()) };
    initialise(&settings).await.unwrap();
    settings
}
