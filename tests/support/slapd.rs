//! OpenLDAP servers of the Debian package, each with a directory of its own that is removed when the
//! test ends.

#![allow(dead_code, reason = "each program of tests uses a part of this")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::port::free_port;
use crate::program::program;

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Base of the tree, the account for searches, and its password.
pub(crate) const BASE: &str = "dc=example,dc=test";
pub(crate) const SERVICE_DN: &str = "cn=sealgate,ou=services,dc=example,dc=test";
pub(crate) const SERVICE_PASSWORD: &str = "service password";
const ADMIN_DN: &str = "cn=admin,dc=example,dc=test";
const ADMIN_PASSWORD: &str = "admin password";

/// Entries above the users and groups of a test.
const TREE: &str = "dn: dc=example,dc=test
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=people,dc=example,dc=test
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=test
objectClass: organizationalUnit
ou: groups

dn: ou=services,dc=example,dc=test
objectClass: organizationalUnit
ou: services

dn: cn=sealgate,ou=services,dc=example,dc=test
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: sealgate
userPassword: service password

";

/// A running OpenLDAP server.
pub(crate) struct Slapd {
    directory: TempDir,
    program: PathBuf,
    /// Port for LDAP and StartTLS, and port for LDAPS.
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    process: Option<Child>,
}

/// Returns the LDIF of a user with the password `password of UID`.
pub(crate) fn user(uid: &str, more: &str) -> String {
    format!(
        "dn: uid={uid},ou=people,{BASE}\nobjectClass: inetOrgPerson\n{more}uid: {uid}\ncn: {uid}\nsn: {uid}\n\
         mail: {uid}@example.test\nuserPassword: password of {uid}\n\n"
    )
}

/// Returns the LDIF of a group with these members.
pub(crate) fn group(name: &str, members: &[&str]) -> String {
    let mut ldif = format!("dn: cn={name},ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: {name}\n");
    for member in members {
        let _ = writeln!(ldif, "member: {member},{BASE}");
    }
    ldif.push('\n');
    ldif
}

impl Slapd {
    /// Starts a server with these entries below [`BASE`], for `localhost`.
    pub(crate) fn start(entries: &str) -> Self {
        Self::with(entries, "", "localhost")
    }

    /// Starts a server with further lines of slapd.conf. Its certificate is for `host`.
    pub(crate) fn with(entries: &str, settings: &str, host: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = program("slapd");
        let mut server = Self { directory, program, port: free_port(), tls_port: free_port(), process: None };
        server.make_certificate(host);
        server.configure(settings);
        let ldif = server.path("entries.ldif");
        fs::write(&ldif, format!("{TREE}{entries}")).unwrap();
        fs::create_dir(server.path("db")).unwrap();
        let mut load = server.command();
        let output =
            load.args(["-Ta", "-q", "-f"]).arg(server.path("slapd.conf")).arg("-l").arg(&ldif).output().unwrap();
        assert!(output.status.success(), "slapadd: {}", String::from_utf8_lossy(&output.stderr));
        server.start_again();
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the root of the file system, or of the unpacked package.
    fn root(&self) -> PathBuf {
        let slapd = fs::canonicalize(&self.program).unwrap();
        slapd.ancestors().nth(3).unwrap().to_owned()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // The unpacked package has a library of its own.
        command.env("LD_LIBRARY_PATH", self.root().join("usr/lib/x86_64-linux-gnu"));
        command.stdin(Stdio::null());
        command
    }

    fn configure(&self, settings: &str) {
        let (root, place) = (self.root(), self.directory.path().display());
        let schema = root.join("etc/ldap/schema");
        let schema = schema.display();
        let module = root.join("usr/lib/ldap");
        let module = module.display();
        let text = format!(
            "include {schema}/core.schema\ninclude {schema}/cosine.schema\ninclude {schema}/nis.schema\n\
             include {schema}/inetorgperson.schema\nmodulepath {module}\nmoduleload back_mdb\nmoduleload memberof\nmoduleload ppolicy\n\
             TLSCACertificateFile {place}/ca.pem\nTLSCertificateFile {place}/server.pem\n\
             TLSCertificateKeyFile {place}/server.key\npidfile {place}/pid\ndatabase mdb\n\
             suffix \"{BASE}\"\nrootdn \"{ADMIN_DN}\"\nrootpw \"{ADMIN_PASSWORD}\"\ndirectory {place}/db\n\
             dbnosync\nindex uid,mail,member,entryUUID eq\n\
             access to attrs=userPassword by anonymous auth by * none\n\
             access to * by dn.exact=\"{SERVICE_DN}\" read by * none\n{settings}\n"
        );
        fs::write(self.path("slapd.conf"), text).unwrap();
    }

    /// Creates an authority in `ca.pem`, and a certificate for the host.
    fn make_certificate(&self, host: &str) {
        let openssl = |arguments: &[&str]| {
            let output = Command::new("openssl").args(arguments).current_dir(self.directory.path()).output().unwrap();
            assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
        };
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "20"];
        let authority =
            ["-addext", "keyUsage=critical,keyCertSign", "-subj", "/CN=Test CA", "-keyout", "ca.key", "-out", "ca.pem"];
        openssl(&[&["req", "-x509"][..], &key, &authority].concat());
        let name = format!("subjectAltName=DNS:{host}");
        let extensions = ["-addext", &name, "-addext", "basicConstraints=critical,CA:FALSE"];
        let signed =
            ["-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=slapd", "-keyout", "server.key", "-out", "server.pem"];
        openssl(&[&["req", "-x509"][..], &key, &extensions, &signed].concat());
    }

    /// Starts the server, also after [`Slapd::kill`], and waits until it accepts connections.
    pub(crate) fn start_again(&mut self) {
        let urls = format!("ldap://127.0.0.1:{}/ ldaps://127.0.0.1:{}/", self.port, self.tls_port);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        let mut slapd = self.command();
        slapd.args(["-d", "stats", "-h", &urls, "-f"]).arg(self.path("slapd.conf"));
        self.process = Some(slapd.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        let deadline = Instant::now() + START_TIMEOUT;
        let is_ready = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
        while !(is_ready(self.port) && is_ready(self.tls_port)) {
            let log = fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "slapd does not start: {log}");
            let ended = self.process.as_mut().and_then(|process| process.try_wait().unwrap());
            assert_eq!(ended, None, "slapd ended: {log}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the server's process. Its entries remain.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Suspends the server's process. Its sockets still accept connections.
    ///
    /// Waits until all its threads have stopped, because a signal is delivered later than it is sent.
    /// Until then, a thread could still answer a request.
    pub(crate) fn suspend(&self) {
        self.signal("-STOP");
        let deadline = Instant::now() + STOP_TIMEOUT;
        while !self.has_stopped() {
            assert!(Instant::now() < deadline, "slapd does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns whether all threads of the process are stopped. Their state follows the name in
    /// parentheses (proc(5)).
    fn has_stopped(&self) -> bool {
        let process = self.process.as_ref().expect("the server runs").id();
        fs::read_dir(format!("/proc/{process}/task")).unwrap().all(|thread| {
            // A thread that has just ended has no file.
            let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('T'))
        })
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("the server runs").id();
        assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
    }

    /// Applies changes in LDIF as the administrator. Referrals are changed like other entries.
    pub(crate) fn change(&self, ldif: &str) {
        let url = format!("ldap://127.0.0.1:{}", self.port);
        let mut child = Command::new("ldapmodify")
            .args(["-x", "-M", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("`.ci/install test` installs ldapmodify");
        child.stdin.take().unwrap().write_all(ldif.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the log, which has a line for each operation.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// Returns the number of binds with a DN that begins with this text, from the log.
    pub(crate) fn binds(&self, dn: &str) -> usize {
        let log = self.log();
        log.lines().filter(|line| line.contains(&format!("BIND dn=\"{dn}")) && line.contains("method=128")).count()
    }

    /// Returns the file of the authority that signed the server's certificate.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Returns the URL for plain LDAP and StartTLS.
    pub(crate) fn url(&self) -> String {
        format!("ldap://localhost:{}", self.port)
    }

    /// Returns the URL for LDAPS.
    pub(crate) fn tls_url(&self) -> String {
        format!("ldaps://localhost:{}", self.tls_port)
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes a secret file that only this user can read.
pub(crate) fn write_secret(path: &Path, secret: &str) {
    fs::write(path, secret).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
