//! Converts the configuration file to settings: checks keys and values, and sets defaults.
//!
//! All errors are collected. Each section reads all its keys even after an error, so that valid
//! keys are not reported as unknown.

mod acme;
mod address;
mod also_sign_in;
mod applications_file;
mod apps;
mod clients;
mod console;
mod directories;
mod factors;
mod fixed_headers;
mod health_check;
mod hsm;
mod identity;
mod login;
mod mail;
mod maintenance;
mod resources;
mod route_limits;
mod route_upstreams;
mod store;
mod telemetry;
mod tls;
mod trusted_issuers;
mod upstreams;

pub(crate) use applications_file::{MAX_BYTES as MAX_APPLICATIONS_BYTES, not_toml, read as read_applications};

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use tracing_subscriber::EnvFilter;

use super::disk::Files;
use super::file::{ConfigReader, Section};
use super::reference::ConfigText;
use super::settings::owned_place;
use super::{
    Accent, AdminConfig, Api, App, AuditConfig, ClusterConfig, Config, FactorsConfig, Hsm, IssuerUrl, KeysConfig,
    Language, Log, LogFormat, LoginConfig, PagesConfig, RateLimits, Registration, RegistrationMode, ServerAddress,
    ServerConfig, SessionsConfig, StoreConfig, TokensConfig, UpstreamSettings, UserRegistration, UserRegistrationMode,
    appearance, host_name,
};
use crate::ConfigFault;
use crate::check::address::{DAY, HOUR, MINUTE};
use sealgate_domain::client::{ClientId, MAX_REFRESH_RETRY};
use sealgate_domain::key_ring::KeyTimes;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::rate_limit::{MAX_PER_MINUTE, RateLimit};
use sealgate_domain::session::KeepSignedIn;
use sealgate_domain::source::SourceName;
use sealgate_domain::user::Email;
use tls::CertificateChain;

/// Maximum difference between the clocks of this machine and of a verifier of tokens, in seconds.
const MAX_CLOCK_DIFFERENCE: u64 = 5 * MINUTE;

/// Reads and checks the file at `path`. `files` creates the path resolver from the file's
/// directory.
///
/// `applications` replaces the content of the file of applications.
pub(super) fn file(
    path: &Path,
    files: impl FnOnce(PathBuf) -> Files,
    applications: Option<&str>,
) -> Result<Config, Vec<ConfigFault>> {
    let (content, base) =
        content(path).map_err(|problem| vec![ConfigFault::new(path.display().to_string(), None, problem)])?;
    let config = text(&content, &files(base), applications)?;
    Ok(Config { file: Some(path.to_owned()), ..config })
}

/// Reads the file, and returns its text and its directory.
fn content(path: &Path) -> Result<(String, PathBuf), String> {
    let content = fs::read(path)
        .map_err(|error| format!("cannot be read ({error}); name the file with --config FILE or SEALGATE_CONFIG"))?;
    let content = String::from_utf8(content).map_err(|_| "is not UTF-8 text".to_owned())?;
    let absolute = std::path::absolute(path).map_err(|error| format!("cannot be found ({error})"))?;
    Ok((content, absolute.parent().map(Path::to_owned).unwrap_or_default()))
}

/// Reads the file at `path`, and returns how to reach the server that runs with it.
pub(super) fn reach(path: &Path) -> Option<ServerAddress> {
    let (content, base) = content(path).ok()?;
    let (reading, files) = (ConfigReader::new(&content), Files::unchecked(base));
    let mut root = reading.recovered();
    let store = store::store(root.section("store"), &files)?;
    let admin = admin(root.section("admin"), &files, &[], Some(&store))?;
    let owned = owned_place(&store, &admin.socket).to_owned();
    Some(ServerAddress { socket: admin.socket, owned })
}

/// Checks the text of a configuration file. `applications` replaces the content of its file of
/// applications.
pub(super) fn text(text: &str, files: &Files, applications: Option<&str>) -> Result<Config, Vec<ConfigFault>> {
    let joined = applications_file::join(text, files, applications)?;
    let reading = ConfigReader::new(&joined.text);
    let config = reading.root().and_then(|root| config(root, files));
    match (config, reading.into_faults_and_warnings()) {
        (Some(mut config), (faults, warnings)) if faults.is_empty() => {
            config.warnings.splice(..0, joined.locate(warnings));
            config.text = ConfigText { text: joined.text.as_str().into(), lines: joined.lines() };
            Ok(config)
        }
        (_, (faults, _)) => Err(joined.locate(faults)),
    }
}

/// Returns all known keys, by reading a file that contains every table.
pub(super) fn known_keys() -> BTreeSet<String> {
    let reading = ConfigReader::new(
        "[server.tls]\n[acme]\n[cluster]\n[mail]\n[telemetry]\n[[console.user_manager]]\n[[trusted_issuer]]\n[[directory]]\n[directory.groups]\n[[upstream]]\n[[client]]\n[client.workload]\n[[client.service]]\n[[app]]\n[app.upstream_tls]\n[app.health_check]\n[app.maintenance]\n[app.login]\n[[app.login.group_accounts]]\n[[app.route]]\n",
    );
    if let Some(root) = reading.root() {
        config(root, &Files::unchecked(PathBuf::new()));
    }
    reading.keys()
}

fn config(mut root: Section<'_, '_>, files: &Files) -> Option<Config> {
    let issuer = root.required_text("issuer", "write the address that browsers reach, https://host", address::issuer);
    let acme = root.optional_section("acme", "write it as a table, [acme]");
    let acme_is_wanted = acme.is_some();
    let hsm = hsm::hsm(root.section("hsm"), files);
    let (mut server, certificates) =
        server(root.section("server"), files, issuer.as_ref(), acme_is_wanted, hsm.as_ref());
    let listen = [server.listen.as_slice(), &server.redirect_listen].concat();
    let store = store::store(root.section("store"), files);
    let is_cluster = matches!(store, Some(StoreConfig::Postgres(_)));
    let cluster = cluster(&mut root, store.is_some(), is_cluster);
    let admin = admin(root.section("admin"), files, &listen, store.as_ref());
    let tokens = tokens(root.section("tokens"));
    let keys = keys(root.section("keys"), &tokens);
    let hsm = hsm.map(|hsm| Hsm { algorithms: keys.algorithms.clone(), ..hsm });
    let sessions = sessions(root.section("sessions"));
    let rate_limits = rate_limits(root.section("rate_limits"));
    let factors = factors::factors(root.section("factors"), issuer.as_ref());
    let pages = pages(root.section("pages"), files);
    let mail = root.optional_section("mail", "write it as a table, [mail]");
    let mail_is_wanted = mail.is_some();
    let mail = mail.and_then(|section| mail::mail(section, files, issuer.as_ref()));
    let registration = registration(root.section("registration"), mail_is_wanted);
    let registration_of_people = registration_of_people(root.section("registration_of_people"), mail_is_wanted);
    let console = console::console(root.section("console"), files, is_cluster);
    let api = Api { enabled: root.section("api").flag("enabled", false) };
    let log = log(root.section("log"));
    let telemetry = root.optional_section("telemetry", "write it as a table, [telemetry]");
    let telemetry_is_wanted = telemetry.is_some();
    let telemetry = telemetry.and_then(|section| telemetry::telemetry(section, files));
    let audit = audit(root.section("audit"));
    let forward_auth = forward_auth(root.section("forward_auth"));
    let form_post = form_post(root.section("form_post"));
    let trusted_issuers = root.sections("trusted_issuer");
    let trusted_issuers = trusted_issuers::trusted_issuers(trusted_issuers, issuer.as_ref(), files);
    let trusted: Vec<&str> = trusted_issuers.iter().flatten().map(|issuer| issuer.terms.name.as_str()).collect();
    let admin_listen = admin.as_ref().and_then(|admin| admin.listen);
    let own_listeners: Vec<SocketAddr> = listen.into_iter().chain(admin_listen).collect();
    let own = apps::Own {
        issuer: issuer.as_ref(),
        listen: &own_listeners,
        socket: admin.as_ref().map(|admin| admin.socket.as_path()),
        trusted: &trusted,
    };
    let mut taken = directories::Taken::default();
    let directories = directories::directories(root.sections("directory"), files, &mut taken);
    let private_keys = upstreams::KeyUses { hsm: hsm.as_ref(), certificates: &server.tls };
    let upstreams = upstreams::upstreams(root.sections("upstream"), issuer.as_ref(), &private_keys, files, &mut taken);
    let login = login(root.section("login"), upstreams.as_deref());
    let apps = apps::apps(root.sections("app"), &own, files);
    networks(&root, apps.as_deref().unwrap_or_default(), &server.trusted_proxies, &forward_auth.trusted);
    let clients = clients::clients(&mut root, apps.as_deref(), &trusted, files);
    signed_by_configured(&root, &keys, apps.as_deref().unwrap_or_default(), clients.as_deref().unwrap_or_default());
    let hosts = hosts(issuer.as_ref(), apps.as_deref(), &factors);
    let acme = acme.map(|section| acme::acme(section, files, issuer.as_ref(), &hosts, store.as_ref(), &mut server));
    let (issuer, apps, hsm) = (issuer?, apps?, hsm?);
    let ordered = acme.iter().flatten().flat_map(|acme| &acme.hosts);
    let mut warnings = tls::coverage(&certificates, &hosts, &ordered.map(String::as_str).collect::<Vec<_>>());
    warnings.extend(factors::rp_id_of_an_application(&factors, &apps));
    warnings.extend(hsm::one_call_at_a_time(&hsm));
    Some(Config {
        issuer,
        server,
        acme: if acme_is_wanted { Some(acme??) } else { None },
        admin: admin?,
        hsm,
        store: store?,
        cluster: if is_cluster { Some(cluster?) } else { None },
        tokens,
        keys,
        sessions,
        rate_limits,
        login,
        factors,
        registration,
        pages,
        mail: if mail_is_wanted { Some(mail?) } else { None },
        registration_of_people,
        console,
        api,
        log,
        telemetry: if telemetry_is_wanted { Some(telemetry?) } else { None },
        audit,
        forward_auth,
        form_post,
        trusted_issuers: trusted_issuers?,
        directories: directories?,
        upstreams: upstreams?,
        apps,
        clients: clients?,
        file: None,
        text: ConfigText::default(),
        warnings,
        certificate_ends: tls::ends(&certificates),
        token_key_uses: tls::token_key_uses(&certificates, &hosts),
    })
}

fn cluster(root: &mut Section<'_, '_>, has_store: bool, is_cluster: bool) -> Option<ClusterConfig> {
    let cluster = root.optional_section("cluster", "write it as a table, [cluster]");
    if is_cluster && cluster.is_none() {
        root.missing("cluster", "name this node: [cluster] node = \"id-1\"");
    }
    if has_store && !is_cluster && cluster.is_some() {
        root.fault("cluster", "requires store.engine = \"postgres\"; leave it out");
    }
    cluster.and_then(store::cluster)
}

/// Returns each host that needs a certificate once, the issuer's first. Returns an empty list if a
/// host is invalid.
fn hosts(issuer: Option<&IssuerUrl>, apps: Option<&[App]>, factors: &FactorsConfig) -> Vec<String> {
    let (Some(issuer), Some(apps)) = (issuer, apps) else { return Vec::new() };
    let mut hosts: Vec<String> = Vec::new();
    let apps = apps.iter().map(|app| host_name(&app.host));
    for host in std::iter::once(issuer.host()).chain(apps).chain(factors.rp_id.as_deref()) {
        if !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }
    hosts
}

fn server(
    mut section: Section<'_, '_>,
    files: &Files,
    issuer: Option<&IssuerUrl>,
    acme: bool,
    hsm: Option<&Hsm>,
) -> (ServerConfig, Vec<CertificateChain>) {
    // If the issuer is invalid, do not report errors that depend on it.
    let https = issuer.is_none_or(IssuerUrl::is_https);
    let mut listen: Vec<SocketAddr> = Vec::new();
    section.required_texts("listen", "write a list such as [\"0.0.0.0:443\"]", |text| {
        listen.push(address::listener(text, &listen)?);
        Ok(())
    });
    let certificates = tls::certificates(&mut section, files, hsm);
    if section.has("tls") && !https {
        section.fault("tls", "the issuer uses http; write https in the issuer, or leave tls out");
    }
    let client_certificates = tls::clients(&mut section, files, acme);
    let mut taken = listen.clone();
    let redirect_listen = section.texts("redirect_listen", "write a list such as [\"0.0.0.0:80\"]", |text| {
        let address = address::listener(text, &taken)?;
        taken.push(address);
        Ok(address)
    });
    if section.has("redirect_listen") && !https {
        section
            .fault("redirect_listen", "the issuer uses http; write https in the issuer, or leave redirect_listen out");
    }
    let trusted_proxies = section.texts("trusted_proxies", "write a list such as [\"10.0.0.0/8\"]", address::proxies);
    let proxy_protocol = section.texts("proxy_protocol", "write a list such as [\"10.0.0.5\"]", address::proxies);
    let is_trusting = trusted_proxies.as_ref().is_some_and(|networks| !networks.is_empty());
    if issuer.is_some_and(IssuerUrl::is_https) && !section.has("tls") && !acme && !is_trusting {
        let problem = "the issuer uses https, but neither tls nor trusted_proxies is set, so all requests \
            seem to come over http from the proxy's address; write the proxy's addresses, or configure tls";
        section.warn("trusted_proxies", problem);
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let max_connections = section.number("max_connections", 8192, 1..=1_000_000);
    let server = ServerConfig {
        listen,
        tls: certificates.iter().map(|certificate| certificate.files.clone()).collect(),
        client_certificates,
        redirect_listen: redirect_listen.unwrap_or_default(),
        hsts: section.seconds("hsts_seconds", 365 * DAY, 0..=3660 * DAY),
        trusted_proxies: trusted_proxies.unwrap_or_default(),
        health_path: section.text("health_path", "write a path such as \"/healthz\"", |text| match text {
            "/" => Err("is the start page of every host; write, for example, \"/healthz\"".to_owned()),
            _ => address::route_path(text),
        }),
        proxy_protocol: proxy_protocol.unwrap_or_default(),
        threads: section.number("threads", cores, 1..=1024),
        huge_pages: section.flag("huge_pages", true),
        header_timeout: section.seconds("header_timeout_seconds", 10, 1..=5 * MINUTE),
        header_bytes: section.number("header_bytes", 32 * 1024, 4 * 1024..=256 * 1024),
        body_timeout: section.seconds("body_timeout_seconds", 30, 1..=10 * MINUTE),
        idle_timeout: section.seconds("idle_timeout_seconds", 65, 1..=HOUR),
        max_connections,
        max_connections_per_peer: section.number("max_connections_per_peer", max_connections.min(1024), 1..=1_000_000),
        shutdown_timeout: section.seconds("shutdown_timeout_seconds", 30, 0..=HOUR),
    };
    if server.max_connections_per_peer > server.max_connections {
        let problem = format!("is larger than the limit of all peers together; set at most {}", server.max_connections);
        section.fault("max_connections_per_peer", &problem);
    }
    (server, certificates)
}

fn admin(
    mut section: Section<'_, '_>,
    files: &Files,
    taken: &[SocketAddr],
    store: Option<&StoreConfig>,
) -> Option<AdminConfig> {
    let listen =
        section.text("listen", "write an address such as \"127.0.0.1:9100\"", |text| address::listener(text, taken));
    let socket = section.text("socket", "write a path", |text| files.path(text).and_then(|path| files.socket(path)));
    if socket.is_some() || section.has("socket") {
        return Some(AdminConfig { listen, socket: socket? });
    }
    let StoreConfig::Sled(store) = store? else {
        section.missing("socket", "write a path, such as \"/run/sealgate/admin.sock\"");
        return None;
    };
    match files.socket(store.path.join("admin.sock")) {
        Ok(socket) => Some(AdminConfig { listen, socket }),
        Err(problem) => {
            section.fault("socket", &format!("is missing, and the default cannot be used: {problem}"));
            None
        }
    }
}

fn tokens(mut section: Section<'_, '_>) -> TokensConfig {
    TokensConfig {
        access_token: section.seconds("access_token_seconds", 15 * MINUTE, 1..=DAY),
        // RFC 6749 §4.1.2 recommends a maximum of ten minutes.
        authorization_code: section.seconds("authorization_code_seconds", 5 * MINUTE, 1..=10 * MINUTE),
        refresh_token: section.seconds("refresh_token_seconds", 30 * DAY, 1..=366 * DAY),
        refresh_retry: section.seconds("refresh_retry_seconds", 0, 0..=MAX_REFRESH_RETRY),
        groups_scope: section.flag("groups_scope", false),
        logout_networks: section
            .texts("logout_networks", "write a list such as [\"10.0.0.0/8\"]", address::recipients)
            .unwrap_or_default(),
    }
}

fn keys(mut section: Section<'_, '_>, tokens: &TokensConfig) -> KeysConfig {
    let publish = section.seconds("publish_seconds", 25 * HOUR, 1..=30 * DAY);
    let shortest = tokens.access_token.as_secs();
    let keep = section.seconds("keep_seconds", shortest + MAX_CLOCK_DIFFERENCE, 1..=30 * DAY);
    if keep < tokens.access_token {
        let problem = format!("is shorter than tokens.access_token_seconds; set at least {shortest}");
        section.fault("keep_seconds", &problem);
    }
    let rotate = section.optional_seconds("rotate_seconds", 1..=3660 * DAY);
    // More frequent rotations would add keys faster than expired keys are removed.
    let soonest = publish + keep;
    if rotate.is_some_and(|rotate| rotate < soonest) {
        let problem = format!(
            "is shorter than publish_seconds and keep_seconds together; set at least {}, or less there",
            soonest.as_secs()
        );
        section.fault("rotate_seconds", &problem);
    }
    // Leave 1/25 of the publication time for responses that were in transit when the key was
    // published, and for differences between clocks.
    let cache = (publish * 24 / 25).min(Duration::from_secs(DAY));
    KeysConfig { algorithms: algorithms(&mut section), times: KeyTimes { publish, keep }, cache, rotate }
}

/// Parses `keys.algorithms`. Returns RS256 first, which OpenID Connect Core §15.1 requires.
fn algorithms(keys: &mut Section<'_, '_>) -> Vec<Algorithm> {
    let allowed = "write a list such as [\"RS256\", \"ES256\"]";
    let Some(listed) = keys.some_texts("algorithms", allowed, address::algorithm) else {
        return vec![Algorithm::Rs256];
    };
    if !listed.contains(&Algorithm::Rs256) {
        keys.fault("algorithms", "lacks RS256, which every client must be able to choose; add it");
    }
    let further = Algorithm::ALL
        .iter()
        .map(|(_, algorithm)| *algorithm)
        .filter(|algorithm| *algorithm != Algorithm::Rs256 && listed.contains(algorithm));
    [Algorithm::Rs256].into_iter().chain(further).collect()
}

/// Reports applications and clients whose algorithm has no keys.
fn signed_by_configured(root: &Section<'_, '_>, keys: &KeysConfig, apps: &[App], clients: &[crate::DefinedClient]) {
    let of_apps = apps.iter().map(|app| (app.alg, format!("alg of the application {}", app.name)));
    let of_clients = clients.iter().filter_map(|defined| {
        let key = format!("id_token_signed_response_alg of the client {}", defined.client.id);
        Some((defined.client.details.id_token_signed_response_alg?, key))
    });
    for (algorithm, what) in of_apps.chain(of_clients).filter(|(algorithm, _)| !keys.algorithms.contains(algorithm)) {
        root.fault("keys", &format!("algorithms lacks {algorithm}, which is the {what}; add it, or change that key"));
    }
}

fn sessions(mut section: Section<'_, '_>) -> SessionsConfig {
    let choices = [("off", KeepSignedIn::Off), ("on", KeepSignedIn::On), ("choice", KeepSignedIn::Choice)];
    let absolute = section.seconds("absolute_seconds", 7 * DAY, 1..=366 * DAY);
    let sessions = SessionsConfig {
        idle: section.seconds("idle_seconds", 8 * HOUR, 1..=366 * DAY),
        absolute,
        keep_signed_in: section.choice("keep_signed_in", &choices).unwrap_or(KeepSignedIn::Off),
        kept_session: section.seconds("kept_session_seconds", absolute.as_secs().max(30 * DAY), 1..=366 * DAY),
        interaction: section.seconds("interaction_seconds", 15 * MINUTE, 1..=DAY),
        max_interactions: section.number("max_interactions", 100_000, 1..=10_000_000),
        max_forms: section.number("max_forms", 1000, 0..=100_000),
    };
    if sessions.idle > sessions.absolute {
        let problem = format!("is longer than absolute_seconds; set at most {}", sessions.absolute.as_secs());
        section.fault("idle_seconds", &problem);
    }
    if sessions.kept_session < absolute {
        let problem = format!("is shorter than absolute_seconds; set at least {}", absolute.as_secs());
        section.fault("kept_session_seconds", &problem);
    }
    sessions
}

fn rate_limits(mut section: Section<'_, '_>) -> RateLimits {
    let mut limit = |key, default| {
        let requests = section.number_or("none", key, default, 1..=MAX_PER_MINUTE);
        requests.map_or(RateLimit::Unlimited, RateLimit::PerMinute)
    };
    RateLimits {
        authorize: limit("authorize", 100),
        sign_ins: limit("sign_ins", 600),
        token: limit("token", 50),
        userinfo: limit("userinfo", 200),
        discovery: limit("discovery", 1000),
        jwks: limit("jwks", 1000),
        revoke: limit("revoke", 50),
        introspect: limit("introspect", 3000),
        logout: limit("logout", 100),
        register: limit("register", 20),
        api: limit("api", 600),
        pages: limit("pages", 3000),
    }
}

fn login(mut section: Section<'_, '_>, upstreams: Option<&[UpstreamSettings]>) -> LoginConfig {
    let only_upstream = section.text("only_upstream", "write the name of an [[upstream]]", |text| {
        let name = SourceName::parse(text).ok_or_else(|| format!("{text:?} is not the name of an [[upstream]]"))?;
        // Upstreams with errors were reported.
        let is_unknown = upstreams.is_some_and(|upstreams| upstreams.iter().all(|upstream| upstream.name != name));
        if is_unknown { Err(format!("no [[upstream]] has the name {text:?}; write its name")) } else { Ok(name) }
    });
    LoginConfig {
        only_upstream,
        failures_per_account: section.number("failures_per_account", 10, 1..=1_000_000),
        failures_per_address: section.number("failures_per_address", 100, 1..=1_000_000),
        window: section.seconds("window_seconds", 15 * MINUTE, 1..=DAY),
        password_threads: section.number("password_threads", 2, 1..=256),
        password_queue: section.number("password_queue", 64, 1..=4096),
    }
}

/// Maximum number of e-mail addresses in `registration.notify`.
const MAX_NOTIFIED: usize = 10;

fn registration(mut section: Section<'_, '_>, sends_mail: bool) -> Registration {
    let mut notified = 0;
    let notify =
        section.texts("notify", "write e-mail addresses of accounts, such as [\"admin@example.com\"]", |text| {
            notified += 1;
            if notified > MAX_NOTIFIED {
                return Err(format!("there are more than {MAX_NOTIFIED} addresses"));
            }
            Email::parse(text).ok_or_else(|| format!("{text:?} is not an e-mail address"))
        });
    let notify = notify.unwrap_or_default();
    if !notify.is_empty() && !sends_mail {
        section.fault("notify", "requires [mail]; add it, or leave notify out");
    }
    let modes = [("off", RegistrationMode::Off), ("token", RegistrationMode::Token), ("open", RegistrationMode::Open)];
    let document_hosts = section.some_texts("document_hosts", apps::DOCUMENT_HOSTS, address::document_host);
    Registration {
        mode: section.choice("mode", &modes).unwrap_or(RegistrationMode::Token),
        max_clients: section.number("max_clients", 1000, 1..=1_000_000),
        unused: section.seconds("unused_seconds", 7 * DAY, HOUR..=365 * DAY),
        notify,
        document_hosts: document_hosts.unwrap_or_default(),
    }
}

fn registration_of_people(mut section: Section<'_, '_>, sends_mail: bool) -> UserRegistration {
    let modes = [("off", UserRegistrationMode::Off), ("open", UserRegistrationMode::Open)];
    let mode = section.choice("mode", &modes).unwrap_or(UserRegistrationMode::Off);
    if mode == UserRegistrationMode::Open && !sends_mail {
        let problem = "is \"open\", which requires [mail] to verify addresses; add [mail], or write mode = \"off\"";
        section.fault("mode", problem);
    }
    let allowed = "write domains of e-mail addresses, such as [\"example.com\"]";
    let domains = section.texts("domains", allowed, address::mail_domain).unwrap_or_default();
    UserRegistration { mode, domains }
}

fn pages(mut section: Section<'_, '_>, files: &Files) -> PagesConfig {
    let languages = [("en", Language::English), ("tr", Language::Turkish)];
    let operator = section.text("operator", "write the name of your organisation", address::name);
    let default_language = section.choice("default_language", &languages);
    let logo = section.text("logo", "write the path of a PNG or SVG picture", |text| files.logo(text));
    let light = section.text("accent", "write a colour such as \"#0a5c53\"", appearance::light);
    let dark = section.text("accent_dark", "write a colour such as \"#7fd6c6\"", appearance::dark);
    if section.has("accent_dark") && !section.has("accent") {
        section.fault("accent_dark", "requires accent, the colour for light pages; write both");
    }
    PagesConfig {
        operator: operator.unwrap_or_else(|| "Sealgate".to_owned()),
        default_language: default_language.unwrap_or(Language::English),
        logo: logo.flatten(),
        accent: light.map(|light| Accent::new(light, dark)),
    }
}

fn forward_auth(mut section: Section<'_, '_>) -> super::ForwardAuth {
    let trusted = section.texts("trusted", "write a list such as [\"127.0.0.1\"]", address::proxies);
    super::ForwardAuth { trusted: trusted.unwrap_or_default() }
}

/// Checks that the address of each client is known where routes depend on it.
fn networks(root: &Section<'_, '_>, apps: &[App], trusted_proxies: &[IpNet], forward_auth: &[IpNet]) {
    let networks: Vec<&IpNet> = apps.iter().flat_map(|app| &app.routes).flat_map(|route| &route.networks).collect();
    if networks.is_empty() {
        return;
    }
    let is_trusted = |proxy: &&IpNet| trusted_proxies.iter().any(|trusted| trusted.contains(*proxy));
    if let Some(proxy) = forward_auth.iter().find(|proxy| !is_trusted(proxy)) {
        let problem = format!(
            "{proxy} is not in server.trusted_proxies, so all its clients would have its address, and the networks of \
             routes would not be checked; add it there"
        );
        root.fault("forward_auth", &problem);
    }
    for proxies in trusted_proxies.iter().filter(|proxies| proxies.prefix_len() < proxies.max_prefix_len()) {
        let overlaps = |network: &&&IpNet| network.contains(proxies) || proxies.contains(**network);
        if let Some(network) = networks.iter().find(overlaps) {
            let problem = format!(
                "{proxies} contains more than one address, and overlaps {network} of a route: every machine in it can \
                 claim any address; write the addresses of your proxies"
            );
            root.warn("server", &problem);
        }
    }
}

fn form_post(mut section: Section<'_, '_>) -> super::FormPost {
    let enabled = section.flag("enabled", false);
    let clients = section.texts("clients", "write a list of client IDs", |text| {
        ClientId::parse(text).ok_or_else(|| format!("{text:?} is not a client ID; `sealgate client list` shows them"))
    });
    super::FormPost { enabled, clients: clients.unwrap_or_default() }
}

fn log(mut section: Section<'_, '_>) -> Log {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let filter = section.text("filter", "write a level, such as \"info\"", |text| {
        let problem = |error| {
            format!("{text:?} is not a filter ({error}); write, for example, \"info\" or \"warn,sealgate=debug\"")
        };
        EnvFilter::builder().parse(text).map(|_| text.to_owned()).map_err(problem)
    });
    Log {
        format: section.choice("format", &formats).unwrap_or(LogFormat::Text),
        filter: filter.unwrap_or_else(|| "info,pingora=warn,pingora_core=warn,pingora_proxy=warn".to_owned()),
    }
}

fn audit(mut section: Section<'_, '_>) -> AuditConfig {
    AuditConfig {
        keep: Duration::from_secs(DAY * section.number("keep_days", 90, 0..=3660)),
        max_records: section.number("max_records", 200_000, 1000..=100_000_000),
    }
}
