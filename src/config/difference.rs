//! Compares two configurations key by key, and reports which changes a running server can apply.
//!
//! Both configurations are serialised for the comparison. The result contains names of keys, never
//! values. A test fails if a key of the configuration is missing from the lists below.

use serde::Serialize;
use serde_json::Value;

use super::app::App;
use super::client::DefinedClient;
use super::settings::Config;
use sealgate_domain::client::ClientId;
use sealgate_domain::client_rules;

/// Changes between two configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Keys that a reload applies, such as `rate_limits.token` or `app wiki: route, upstreams`.
    pub reloadable: Vec<String>,
    /// Keys that need a restart, such as `server.listen`.
    pub restart: Vec<String>,
}

/// Name of a section, keys of the section that need a restart, and keys that a reload applies.
///
/// The lists determine the order of the report, so a section may appear more than once.
type Keys = (&'static str, &'static [&'static str], &'static [&'static str]);

const SECTIONS: &[Keys] = &[
    ("", &["issuer"], &[]),
    ("server", &["listen"], &["tls"]),
    ("server", &["redirect_listen", "hsts_seconds", "trusted_proxies", "proxy_protocol", "threads", "huge_pages"], &[]),
    ("server", &["health_path", "header_timeout_seconds", "header_bytes", "body_timeout_seconds"], &[]),
    ("server", &["idle_timeout_seconds", "max_connections"], &[]),
    ("server", &["max_connections_per_peer", "shutdown_timeout_seconds"], &["client_ca", "client_certificates"]),
    ("acme", &[], &["directory", "contact", "external_account_id", "external_account_key_file"]),
    ("acme", &[], &["hosts", "profile", "challenge", "ca_file", "path"]),
    ("admin", &["listen", "socket"], &[]),
    ("hsm", &["module", "token_label", "pin_file", "softhsm_conf", "key_label"], &[]),
    ("hsm", &["attestation", "sessions"], &[]),
    ("hsm", &["sign_timeout_seconds", "queue", "hang_abort_seconds", "mechanism", "require_local", "shared"], &[]),
    ("store", &["engine", "path", "cache_bytes", "reserve_bytes", "queue"], &[]),
    ("store", &["url_file", "ca_file", "writers", "durability"], &[]),
    ("cluster", &["node", "beat", "staleness_ms"], &[]),
    ("tokens", &["access_token_seconds"], &["authorization_code_seconds", "refresh_token_seconds"]),
    ("tokens", &[], &["refresh_retry_seconds", "groups_scope", "logout_networks"]),
    ("keys", &["algorithms", "rotate_seconds", "publish_seconds", "keep_seconds"], &[]),
    ("sessions", &["max_interactions", "max_forms"], &["idle_seconds", "absolute_seconds", "interaction_seconds"]),
    ("sessions", &[], &["keep_signed_in", "kept_session_seconds"]),
    ("rate_limits", &[], &["authorize", "sign_ins", "token", "userinfo", "discovery", "jwks", "revoke", "logout"]),
    ("rate_limits", &[], &["introspect", "register", "api", "pages"]),
    ("login", &["password_threads"], &["failures_per_account", "failures_per_address", "window_seconds"]),
    ("login", &["password_queue"], &["only_upstream"]),
    ("factors", &["rp_id"], &["level", "groups", "enrol_by", "enrolment", "abandon_keys_of"]),
    ("registration", &[], &["mode", "max_clients", "unused_seconds", "notify", "document_hosts"]),
    ("pages", &[], &["operator", "default_language", "logo", "accent"]),
    ("mail", &[], &["host", "port", "tls", "from", "reply_to", "username", "password_file", "hello"]),
    ("mail", &[], &["timeout_seconds", "per_minute", "ca_file"]),
    ("registration_of_people", &[], &["mode", "domains"]),
    ("console", &[], &["enabled", "developers", "admins", "auditors", "user_manager", "sign_in_seconds"]),
    ("api", &[], &["enabled"]),
    ("console", &[], &["applications_file", "edit_applications"]),
    ("log", &["format"], &["filter"]),
    ("telemetry", &["otlp", "sample", "service_name", "headers_file"], &[]),
    ("audit", &["keep_days", "max_records"], &[]),
    ("forward_auth", &[], &["trusted"]),
    ("form_post", &[], &["enabled", "clients"]),
    ("", &["trusted_issuer", "directory", "upstream"], &[]),
];

/// Keys of an application. A reload applies all of them.
const APP: &[&str] = &[
    "name",
    "title",
    "description",
    "icon",
    "host",
    "url",
    "upstreams",
    "upstream_protocol",
    "upstream_tls",
    "health_check",
    "sticky",
    "maintenance",
    "route",
    "login",
    "after_sign_out",
    "also_sign_in",
    "audience",
    "scopes",
    "issuer_audience",
    "agents",
    "alg",
    "clients",
    "client_hosts",
    "trusted_issuers",
    "acr",
    "preserve_host",
    "max_requests",
    "max_requests_per_client",
    "reads_bodies_whole",
    "max_body_bytes",
    "compression",
    "connect_timeout_seconds",
    "read_timeout_seconds",
    "stream_timeout_seconds",
    "write_timeout_seconds",
    "identity_headers",
    "pass_headers",
    "app_password_header",
    "request_headers",
    "request_header_files",
    "response_headers",
    "assertion",
    "authorization",
    "names",
    "groups_delimiter",
];

impl Config {
    /// Returns the changes from this configuration to a new one.
    pub fn difference(&self, new: &Self) -> Difference {
        let mut found = Difference::default();
        let (before, after) = (serialised(self), serialised(new));
        // A reload can replace certificates, but cannot switch a bound listener between TLS and
        // plain HTTP.
        let tls_stays = self.server.tls.is_empty() == new.server.tls.is_empty();
        for (section, restart, live) in SECTIONS {
            let changed = |keys| changed(&before, &after, section, keys);
            let name = |key| format!("{section}.{key}").trim_start_matches('.').to_owned();
            found.restart.extend(changed(*restart).map(name));
            let taken = if *section == "server" && !tls_stays { &mut found.restart } else { &mut found.reloadable };
            taken.extend(changed(*live).map(name));
        }
        found.clients(&self.clients, &new.clients);
        found.apps(&self.apps, &new.apps);
        found
    }
}

impl Difference {
    /// Returns whether the configurations are equal.
    pub fn is_empty(&self) -> bool {
        self.reloadable.is_empty() && self.restart.is_empty()
    }

    fn apps(&mut self, old: &[App], new: &[App]) {
        let among = |apps: &[App], name: &str| apps.iter().any(|app| app.name == name);
        for app in new {
            match old.iter().find(|old| old.name == app.name) {
                None => self.reloadable.push(format!("app {}: added", app.name)),
                Some(before) if before != app => {
                    let changed: Vec<_> = changed(&serialised(before), &serialised(app), "", APP).collect();
                    self.reloadable.push(format!("app {}: {}", app.name, changed.join(", ")));
                }
                Some(_) => {}
            }
        }
        for app in old.iter().filter(|app| !among(new, &app.name)) {
            self.reloadable.push(format!("app {}: removed", app.name));
        }
        // The order matters, because a request is for the first application that matches its host.
        let kept = old.iter().filter(|app| among(new, &app.name));
        if !kept.map(|app| &app.name).eq(new.iter().filter(|app| among(old, &app.name)).map(|app| &app.name)) {
            self.reloadable.push("app: their order".to_owned());
        }
    }

    fn clients(&mut self, old: &[DefinedClient], new: &[DefinedClient]) {
        let find = |all: &'_ [DefinedClient], id: &ClientId| all.iter().position(|other| other.client.id == *id);
        for DefinedClient { client, adopt } in new {
            let Some(before) = find(old, &client.id).and_then(|index| old.get(index)) else {
                self.reloadable.push(format!("client {}: added", client.id));
                continue;
            };
            let adopt = (before.adopt != *adopt).then_some("adopt");
            let changed: Vec<_> =
                client_rules::definition_changes(&before.client, client).into_iter().chain(adopt).collect();
            if !changed.is_empty() {
                self.reloadable.push(format!("client {}: {}", client.id, changed.join(", ")));
            }
        }
        for before in old.iter().filter(|before| find(new, &before.client.id).is_none()) {
            self.reloadable.push(format!("client {}: removed", before.client.id));
        }
    }
}

/// Returns the keys of a section whose values differ.
fn changed<'k>(before: &Value, after: &Value, section: &str, keys: &'k [&str]) -> impl Iterator<Item = &'k str> {
    let section = if section.is_empty() { String::new() } else { format!("/{section}") };
    keys.iter().copied().filter(move |key| {
        let place = format!("{section}/{}", field(key));
        before.pointer(&place) != after.pointer(&place)
    })
}

/// Returns whether a change of a documented key needs a restart.
pub(super) fn needs_restart(key: &str) -> bool {
    let is_listed = |name: &str| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    SECTIONS.iter().any(|(section, restart, _)| {
        restart.iter().any(|key| is_listed(format!("{section}.{key}").trim_start_matches('.')))
    })
}

/// Returns a configuration in serialised form, without applications and clients.
pub(super) fn current(config: &Config) -> Value {
    serialised(config)
}

/// Returns the place of a key in the serialised configuration, as a JSON pointer.
pub(super) fn pointer(key: &str) -> String {
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let section = if section.is_empty() { String::new() } else { format!("/{section}") };
    format!("{section}/{}", field(name))
}

/// Returns the name of the field for a key: the key without a suffix for the unit.
fn field(key: &str) -> &str {
    let seconds = key.strip_suffix("_seconds");
    seconds.or_else(|| key.strip_suffix("_days")).unwrap_or(key)
}

/// Serialises a value. This cannot fail, because map keys are strings and paths use
/// [`super::serialize`].
fn serialised(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;
    use crate::known_keys;

    const REQUIRED: &str = "issuer = \"https://id.test\"\nhsm = { module = \"m\", token_label = \"t\", pin_file = \"p\" }\n\
        store.path = \"s\"\n[server]\nlisten = [\"127.0.0.1:80\"]\ntls = { certificate = \"c\", key = \"k\" }\n\
        client_ca = \"ca\"\nclient_certificates = \"required\"\nredirect_listen = [\"127.0.0.1:81\"]\n\
        [acme]\nagree_to_terms = true\nchallenge = \"http-01\"\nca_file = \"ca\"\npath = \"acme\"\n\
        external_account_id = \"kid\"\nexternal_account_key_file = \"k\"\n\
        [mail]\nhost = \"smtp.test\"\nfrom = \"id@test\"\nusername = \"id\"\npassword_file = \"p\"\n\
        reply_to = \"a@test\"\nca_file = \"ca\"\n[telemetry]\notlp = \"https://otel.test\"\nheaders_file = \"h\"\n[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\n\
        upstreams = [\"unix:/x\"]\n[[app.route]]\npath = \"/\"\naccess = \"public\"\n";

    fn names(value: &Value) -> BTreeSet<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    /// Returns a configuration with the sections of both store engines, and its serialised form.
    fn every_section() -> (Config, Value) {
        let cluster = "store.engine = \"postgres\"\nstore.url_file = \"u\"\nstore.ca_file = \"c\"\ncluster.node = \"id-1\"\n\
            admin.socket = \"a\"\n";
        let shared = REQUIRED
            .replace("store.path = \"s\"\n", cluster)
            .replace("pin_file = \"p\" }", "pin_file = \"p\", shared = true }");
        let config = Config::parse(REQUIRED, Path::new("/etc")).unwrap();
        let mut all = serialised(&Config::parse(&shared, Path::new("/etc")).unwrap());
        let of_sled = serialised(&config.store);
        all["store"].as_object_mut().unwrap().extend(of_sled.as_object().unwrap().clone());
        (config, all)
    }

    #[test]
    fn every_field_is_listed_once() {
        let (config, all) = every_section();
        for section in names(&all) {
            let parts = SECTIONS.iter().filter(|(name, ..)| *name == section);
            let listed: Vec<_> = parts.flat_map(|(_, restart, live)| restart.iter().chain(*live)).collect();
            if listed.is_empty() {
                let top = SECTIONS.iter().filter(|(name, ..)| name.is_empty());
                assert!(top.flat_map(|(_, restart, _)| *restart).any(|key| *key == section), "{section}");
                continue;
            }
            let fields: BTreeSet<_> = listed.iter().map(|key| field(key)).collect();
            assert_eq!(fields, names(&all[section]), "{section}");
            assert_eq!(fields.len(), listed.len(), "{section} has a key twice");
        }
        assert_eq!(APP.iter().map(|key| field(key)).collect::<BTreeSet<_>>(), names(&serialised(&config.apps[0])));
    }

    #[test]
    fn every_listed_key_exists_in_the_file() {
        let sections = SECTIONS.iter().flat_map(|(section, restart, live)| {
            restart.iter().chain(*live).map(move |key| format!("{section}.{key}").trim_start_matches('.').to_owned())
        });
        let listed: BTreeSet<_> = sections.chain(APP.iter().map(|key| format!("app.{key}"))).collect();
        let known = known_keys();
        assert_eq!(listed.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new());
        // Keys without an entry in the tables. Keys of an inner table are compared as part of the
        // table, and keys of a derived value as part of its first key. `agree_to_terms` must always
        // be true. Another test changes each key of a client.
        let by_another = |key: &String| {
            let tables = key.match_indices('.').any(|(at, _)| listed.contains(&key[..at]));
            let is_table = known.iter().any(|other| other.starts_with(&format!("{key}.")));
            tables
                || is_table
                || key.starts_with("client.")
                || ["pages.accent_dark", "app.preset", "acme.agree_to_terms"].contains(&key.as_str())
        };
        let unlisted: Vec<_> = known.difference(&listed).filter(|key| !by_another(key)).collect();
        assert_eq!(unlisted, Vec::<&String>::new());
    }

    #[test]
    fn paths_that_are_not_utf_8_are_compared() {
        let parse = |base: &[u8]| Config::parse(REQUIRED, Path::new(OsStr::from_bytes(base))).unwrap();
        let found = parse(b"/etc/\xff").difference(&parse(b"/etc/\xfe"));
        assert_eq!(
            found.restart,
            ["admin.socket", "hsm.module", "hsm.pin_file", "store.path", "telemetry.headers_file"].map(str::to_owned)
        );
        assert_eq!(
            found.reloadable,
            [
                "server.tls",
                "server.client_ca",
                "acme.external_account_key_file",
                "acme.ca_file",
                "acme.path",
                "mail.password_file",
                "mail.ca_file"
            ]
            .map(str::to_owned)
        );
    }
}
