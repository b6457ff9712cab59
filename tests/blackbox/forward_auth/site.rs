//! Starts the proxies with the files of the documentation.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::program::program;
use crate::support::{Browser, Instance, Settings, Upstream, free_port, wait_until};

const NGINX: &str = include_str!("../../../conf/proxies/nginx.conf");
const CADDY: &str = include_str!("../../../conf/proxies/Caddyfile");
const TRAEFIK: &str = include_str!("../../../conf/proxies/traefik.yml");
const ENVOY: &str = include_str!("../../../conf/proxies/envoy.yaml");
const HAPROXY: &str = include_str!("../../../conf/proxies/haproxy-forward-auth.cfg");
const HAPROXY_ACTION: &str = include_str!("../../../conf/proxies/haproxy-forward-auth.lua");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Nginx,
    Caddy,
    Traefik,
    Haproxy,
    Envoy,
}

impl Kind {
    /// Returns whether the proxy sends refused requests to Sealgate, which answers them, instead of
    /// relaying the response to its own request.
    pub(super) fn sends_refused_requests(self) -> bool {
        matches!(self, Self::Nginx | Self::Haproxy)
    }
}

/// Proxy in front of two applications, with Sealgate for forward-auth: `app.localhost` is closed,
/// `www.localhost` is open. Stopped on drop.
pub(super) struct Site {
    pub(super) instance: Instance,
    pub(super) port: u16,
    /// Port for HTTP/2 without TLS.
    pub(super) http2: u16,
    child: Child,
    upstreams: Vec<Upstream>,
    directory: TempDir,
}

impl Site {
    pub(super) fn start(kind: Kind) -> Self {
        let upstreams = [Upstream::start(), Upstream::start()];
        let urls = [upstreams[0].url(), upstreams[1].url()];
        let mut site = Self::before(kind, &urls, |sealgate| sealgate);
        site.upstreams = upstreams.into();
        site
    }

    /// Starts the proxy before these applications. `route` receives Sealgate's port and returns the
    /// port at which the proxy connects to Sealgate.
    pub(super) fn before(kind: Kind, urls: &[String; 2], route: impl FnOnce(u16) -> u16) -> Self {
        let port = free_port();
        let http2 = if matches!(kind, Kind::Traefik | Kind::Envoy) { port } else { free_port() };
        let instance = Instance::started(&Settings { sections: sections(port, urls), ..Settings::default() });
        let sealgate = route(instance.port);
        let directory = tempfile::Builder::new().prefix("proxy-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Returns the documented file for an application of this name, on this host.
        let place = |text: &str, name: &str, host: &str, url: &str| {
            text.replace("http://wiki.example.com:80", &format!("http://{host}:{port}, http://{host}:{http2}"))
                .replace("wiki.example.com", host)
                .replace("wiki", name)
                .replace("127.0.0.1:80;", &format!("127.0.0.1:{port};\nlisten 127.0.0.1:{http2} http2;"))
                .replace("127.0.0.1:80 ", &format!("127.0.0.1:{port} "))
                .replace("127.0.0.1:8080", &format!("127.0.0.1:{sealgate}"))
                .replace("127.0.0.1:8081", url.trim_start_matches("http://"))
        };
        let both = |text: &str, second: &str| {
            let first = place(text, "wiki", "app.localhost", &urls[0]);
            (first, place(second, "www", "www.localhost", &urls[1]))
        };
        let mut command = match kind {
            Kind::Nginx => {
                let (first, second) = both(NGINX, NGINX.splitn(3, "server {").last().unwrap());
                // The cache stores all responses that do not forbid it, regardless of their
                // headers.
                let cache = cache(directory.path()) + "proxy_ignore_headers Cache-Control Set-Cookie Vary;\n";
                nginx(directory.path(), &format!("{cache}{first}server {{{second}"))
            }
            Kind::Caddy => {
                let (first, second) = both(CADDY, CADDY);
                caddy(directory.path(), http2, &format!("{first}{second}"))
            }
            Kind::Traefik => {
                // Both files name the same Sealgate server, and Traefik uses the first one.
                let (first, second) = both(TRAEFIK, TRAEFIK);
                traefik(directory.path(), port, &[&first, &second])
            }
            Kind::Haproxy => {
                let action = HAPROXY_ACTION.replace("127.0.0.1:8080", &format!("127.0.0.1:{sealgate}"));
                let file = directory.path().join("sealgate.lua");
                fs::write(&file, action).unwrap();
                let http2 = format!("bind 127.0.0.1:{port}\n    bind 127.0.0.1:{http2} proto h2");
                let text = HAPROXY.replace("/etc/haproxy/sealgate.lua", file.to_str().unwrap());
                let text = text.replace("bind 127.0.0.1:80\n", &format!("{http2}\n"));
                // The lines of an application in the frontend, and its backend.
                let (before, rest) = text.split_once("    acl wiki ").unwrap();
                let (lines, rest) = rest.split_once("\n\n").unwrap();
                let (between, backend) = rest.split_once("backend wiki\n").unwrap();
                let (first, second) = both(&format!("    acl wiki {lines}\n"), &format!("    acl wiki {lines}\n"));
                let backend = format!("\nbackend wiki\n{backend}");
                let (first_backend, second_backend) = both(&backend, &backend);
                let between = between.replace("127.0.0.1:8080", &format!("127.0.0.1:{sealgate}"));
                haproxy(directory.path(), &format!("{before}{first}{second}\n{between}{first_backend}{second_backend}"))
            }
            Kind::Envoy => {
                let text = ENVOY
                    .replace("port_value: 80 ", &format!("port_value: {port} "))
                    .replace("127.0.0.1:8080", &format!("127.0.0.1:{sealgate}"))
                    .replace("port_value: 8080 ", &format!("port_value: {sealgate} "));
                // The virtual host and the cluster of an application.
                let (before, rest) = text.split_once("            - name: wiki\n").unwrap();
                let (virtual_host, rest) = rest.split_once("  clusters:\n").unwrap();
                let (between, cluster) = rest.split_once("  - name: wiki\n").unwrap();
                let virtual_host = format!("            - name: wiki\n{virtual_host}");
                let cluster =
                    format!("  - name: wiki\n{cluster}").replace("port_value: 8081 ", "port_value: 127.0.0.1:8081 ");
                let (first, second) = both(&virtual_host, &virtual_host);
                let (first_cluster, second_cluster) = both(&cluster, &cluster);
                let clusters =
                    format!("{first_cluster}{second_cluster}").replace("port_value: 127.0.0.1:", "port_value: ");
                envoy(directory.path(), &format!("{before}{first}{second}  clusters:\n{between}{clusters}"))
            }
        };
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let spawned = command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).spawn();
        let child = spawned.expect("the proxy is installed: .ci/install test");
        let mut site = Self { instance, port, http2, child, upstreams: Vec::new(), directory };
        wait_until("the proxy listens", || {
            let ended = site.child.try_wait().unwrap();
            let log = fs::read_to_string(site.directory.path().join("log")).unwrap_or_default();
            assert!(ended.is_none(), "{kind:?} ended: {ended:?}\n{log}");
            // Traefik listens before it has loaded its routers.
            let reads = |host: &str| status(&raw(port, "/public/x", &format!("{host}:{port}"))) == 200;
            let routes = || reads("app.localhost") && reads("www.localhost");
            TcpStream::connect(("127.0.0.1", port)).is_ok() && (kind != Kind::Traefik || routes())
        });
        site
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://app.localhost:{}{path}", self.port)
    }

    /// Signs in Anna on her way to this page. Returns the browser and its final URL.
    pub(super) async fn signed_in(&self, path: &str) -> (Browser, String) {
        let browser = Browser::new(&self.instance);
        let sent = browser.get(&self.url(path)).await;
        assert_eq!(sent.status, 302, "{sent:?}");
        let page = browser.open(&sent.location().unwrap()).await;
        let back = browser.sign_in(&page).await;
        let end = browser.open(&back.location().unwrap()).await;
        assert_eq!(end.status, 200, "{end:?}");
        (browser, end.url)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sections(port: u16, urls: &[String; 2]) -> String {
    format!(
        r#"
        [forward_auth]
        trusted = ["127.0.0.1"]
        [[app]]
        name = "wiki"
        host = "app.localhost"
        url = "http://app.localhost:{port}"
        upstreams = ["{}"]
        assertion = true
        [[app.route]]
        path = "/public/"
        access = "public"
        [[app.route]]
        path = "/readings/"
        methods = ["GET"]
        access = "signed_in"
        [[app.route]]
        path = "/admins/"
        access = "signed_in"
        groups = ["admins"]
        [[app.route]]
        path = "/"
        access = "signed_in"
        cors_origins = ["https://www.test"]
        [[app]]
        name = "www"
        host = "www.localhost"
        url = "http://www.localhost:{port}"
        upstreams = ["{}"]
        [[app.route]]
        path = "/"
        access = "public"
        "#,
        urls[0], urls[1]
    )
}

/// Returns the configuration of an nginx cache for all proxied answers.
pub(crate) fn cache(directory: &Path) -> String {
    format!(
        "proxy_cache_path {}/cache keys_zone=all:1m;\nproxy_cache all;\nproxy_cache_valid any 10m;\n\
         proxy_cache_key $scheme$http_host$request_uri;\nadd_header X-Cache $upstream_cache_status always;\n",
        directory.display()
    )
}

/// Returns a command that runs nginx in the foreground, as one process, with all its files in the
/// directory.
pub(crate) fn nginx(directory: &Path, server: &str) -> Command {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", directory.display()))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{server}}}\n",
        directory.display()
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(program("nginx"));
    command.arg("-p").arg(directory).arg("-c").arg(file).args(["-e", "stderr"]);
    command
}

fn caddy(directory: &Path, http2: u16, site: &str) -> Command {
    let file = directory.join("Caddyfile");
    fs::write(
        &file,
        format!("{{\n\tadmin off\n\tauto_https off\n\tservers :{http2} {{\n\t\tprotocols h1 h2 h2c\n\t}}\n}}\n{site}"),
    )
    .unwrap();
    let mut command = Command::new(program("caddy"));
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    command.env("XDG_DATA_HOME", directory).env("XDG_CONFIG_HOME", directory).env("HOME", directory);
    command
}

/// Returns a command that runs Traefik, whose program is named in the environment. The routers'
/// files and a common file configure it.
fn traefik(directory: &Path, port: u16, files: &[&str]) -> Command {
    let routers = directory.join("routers");
    fs::create_dir(&routers).unwrap();
    for (number, text) in files.iter().enumerate() {
        fs::write(routers.join(format!("{number}.yml")), text).unwrap();
    }
    let text = format!(
        "global:\n  checkNewVersion: false\n  sendAnonymousUsage: false\nentryPoints:\n  web:\n    address: 127.0.0.1:{port}\n\
         providers:\n  file:\n    directory: {}\n",
        routers.display()
    );
    let file = directory.join("traefik.yml");
    fs::write(&file, text).unwrap();
    let program = std::env::var_os("SEALGATE_TRAEFIK").expect("SEALGATE_TRAEFIK names the program: make test-traefik");
    let mut command = Command::new(program);
    command.arg("--configFile").arg(file).current_dir(directory);
    command
}

fn haproxy(directory: &Path, text: &str) -> Command {
    let file = directory.join("haproxy.cfg");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(program("haproxy"));
    command.arg("-db").arg("-f").arg(file);
    command
}

/// Returns a command that runs Envoy, whose program is named in the environment.
fn envoy(directory: &Path, text: &str) -> Command {
    let file = directory.join("envoy.yaml");
    fs::write(&file, text).unwrap();
    let program = std::env::var_os("SEALGATE_ENVOY").expect("SEALGATE_ENVOY names the program: make test-envoy");
    let mut command = Command::new(program);
    command.arg("-c").arg(file).args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]);
    command
}

/// Sends a request with an unnormalized path.
pub(super) fn raw(port: u16, target: &str, host: &str) -> String {
    exchange(port, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

pub(super) fn exchange(port: u16, request: &str) -> String {
    use std::io::{Read, Write};
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A proxy that resets the connection has answered too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the status of an answer, or 0 without an answer.
pub(super) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
}
