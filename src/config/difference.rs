//! What differs between two configurations, key by key, and what of it a running server can take over. Every field of every
//! section has its name here: one that is added does not compile before somebody has decided.

use super::{
    AdminConfig, App, AuditConfig, ClientCertificates, Config, Console, FormPost, ForwardAuth, Hsm, Identity,
    KeysConfig, Log, LoginConfig, PagesConfig, RateLimits, Registration, ServerConfig, SessionsConfig, StoreConfig,
    TokensConfig,
};
use crate::domain::key_ring::KeyTimes;

/// What a new configuration changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// What a running server takes over: keys such as `rate_limits.token`, and `app wiki: route, upstreams`.
    pub live: Vec<String>,
    /// Keys that are read at the start only, such as `server.listen`.
    pub restart: Vec<String>,
}

/// When a key takes effect.
#[derive(Clone, Copy)]
enum Takes {
    /// With a reload.
    Live,
    /// With a start.
    Restart,
    /// Its parts are compared one by one.
    ByParts,
}
use Takes::{ByParts, Live, Restart};

/// Notes which fields of a section differ. The pattern names all of them, or it does not compile.
macro_rules! compare {
    ($difference:expr, $table:literal, $old:expr, $new:expr, $section:ident { $($field:ident: $key:literal $takes:expr),+ $(,)? }) => {{
        let $section { $($field: _),+ } = $new;
        $(if $old.$field != $new.$field {
            $difference.note(concat!($table, ".", $key), $takes);
        })+
    }};
}

impl Config {
    /// What changes from this configuration to a new one.
    pub fn difference(&self, new: &Self) -> Difference {
        let mut found = Difference::default();
        // Every section by its name, as above.
        let Self {
            issuer,
            server,
            admin,
            hsm,
            store,
            tokens,
            keys,
            sessions,
            rate_limits,
            login,
            registration,
            pages,
            console,
            log,
            audit,
            forward_auth,
            form_post,
            trusted_issuers,
            apps,
            // They follow from the rest.
            warnings: _,
            certificate_ends: _,
        } = new;
        if self.issuer != *issuer {
            found.note("issuer", Restart);
        }
        found.server(&self.server, server);
        compare!(found, "admin", self.admin, admin, AdminConfig { listen: "listen" Restart, socket: "socket" Restart });
        found.hsm(&self.hsm, hsm);
        found.store(&self.store, store);
        compare!(found, "tokens", self.tokens, tokens, TokensConfig {
            access_token: "access_token_seconds" Restart,
            authorization_code: "authorization_code_seconds" Live,
            refresh_token: "refresh_token_seconds" Live,
            refresh_retry: "refresh_retry_seconds" Live,
            groups_scope: "groups_scope" Live,
        });
        compare!(found, "keys", self.keys, keys, KeysConfig {
            rotate: "rotate_seconds" Restart,
            times: "" ByParts,
            // It follows from publish_seconds.
            cache: "" ByParts,
        });
        compare!(found, "keys", self.keys.times, &keys.times, KeyTimes {
            publish: "publish_seconds" Restart,
            keep: "keep_seconds" Restart,
        });
        compare!(found, "sessions", self.sessions, sessions, SessionsConfig {
            idle: "idle_seconds" Live,
            absolute: "absolute_seconds" Live,
            interaction: "interaction_seconds" Live,
            max_interactions: "max_interactions" Restart,
            max_forms: "max_forms" Restart,
        });
        compare!(found, "rate_limits", self.rate_limits, rate_limits, RateLimits {
            authorize: "authorize" Live,
            sign_ins: "sign_ins" Live,
            token: "token" Live,
            userinfo: "userinfo" Live,
            discovery: "discovery" Live,
            jwks: "jwks" Live,
            revoke: "revoke" Live,
            logout: "logout" Live,
            register: "register" Live,
            pages: "pages" Live,
        });
        compare!(found, "login", self.login, login, LoginConfig {
            failures_per_account: "failures_per_account" Live,
            failures_per_address: "failures_per_address" Live,
            window: "window_seconds" Live,
            password_threads: "password_threads" Restart,
            password_queue: "password_queue" Restart,
        });
        compare!(found, "registration", self.registration, registration, Registration {
            mode: "mode" Live,
            max_clients: "max_clients" Live,
            unused: "unused_seconds" Live,
        });
        compare!(found, "pages", self.pages, pages, PagesConfig {
            operator: "operator" Live,
            default_language: "default_language" Live,
            logo: "logo" Live,
            accent: "accent" Live,
        });
        found.console(&self.console, console);
        compare!(found, "log", self.log, log, Log { format: "format" Restart, filter: "filter" Live });
        compare!(found, "audit", self.audit, audit, AuditConfig {
            keep: "keep_days" Restart,
            max_records: "max_records" Restart,
        });
        found.exchanges((&self.forward_auth, &self.form_post), (forward_auth, form_post));
        if self.trusted_issuers != *trusted_issuers {
            found.note("trusted_issuer", Restart);
        }
        found.apps(&self.apps, apps);
        found
    }
}

impl Difference {
    /// Whether both configurations say the same.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }

    fn note(&mut self, key: &str, takes: Takes) {
        match takes {
            Live => self.live.push(key.to_owned()),
            Restart => self.restart.push(key.to_owned()),
            ByParts => {}
        }
    }

    fn server(&mut self, old: &ServerConfig, new: &ServerConfig) {
        // The files can be others; whether TLS is spoken is settled when a listener is bound.
        let tls = if old.tls.is_empty() == new.tls.is_empty() { Live } else { Restart };
        compare!(self, "server", old, new, ServerConfig {
            listen: "listen" Restart,
            tls: "tls" tls,
            client_certificates: "" ByParts,
            redirect_listen: "redirect_listen" Restart,
            hsts: "hsts_seconds" Restart,
            trusted_proxies: "trusted_proxies" Restart,
            threads: "threads" Restart,
            header_timeout: "header_timeout_seconds" Restart,
            header_bytes: "header_bytes" Restart,
            body_timeout: "body_timeout_seconds" Restart,
            idle_timeout: "idle_timeout_seconds" Restart,
            max_connections: "max_connections" Restart,
            max_connections_per_peer: "max_connections_per_peer" Restart,
            shutdown_timeout: "shutdown_timeout_seconds" Restart,
        });
        let parts = |server: &ServerConfig| {
            server.client_certificates.clone().map(|ClientCertificates { ca, demand }| (ca, demand)).unzip()
        };
        let ((old_ca, old_demand), (ca, demand)) = (parts(old), parts(new));
        if old_ca != ca {
            self.note("server.client_ca", tls);
        }
        if old_demand != demand {
            self.note("server.client_certificates", tls);
        }
    }

    fn hsm(&mut self, old: &Hsm, new: &Hsm) {
        compare!(self, "hsm", old, new, Hsm {
            module: "module" Restart,
            token_label: "token_label" Restart,
            pin_file: "pin_file" Restart,
            key_label: "key_label" Restart,
            attestation: "attestation" Restart,
            sessions: "sessions" Restart,
            sign_timeout: "sign_timeout_seconds" Restart,
            queue: "queue" Restart,
            hang_abort: "hang_abort_seconds" Restart,
            mechanism: "mechanism" Restart,
            require_local: "require_local" Restart,
        });
    }

    fn console(&mut self, old: &Console, new: &Console) {
        compare!(self, "console", old, new, Console {
            enabled: "enabled" Live,
            developers: "developers" Live,
            admins: "admins" Live,
            sign_in: "sign_in_seconds" Live,
        });
    }

    fn exchanges(&mut self, old: (&ForwardAuth, &FormPost), new: (&ForwardAuth, &FormPost)) {
        compare!(self, "forward_auth", old.0, new.0, ForwardAuth { trusted: "trusted" Live });
        compare!(self, "form_post", old.1, new.1, FormPost { enabled: "enabled" Live, clients: "clients" Live });
    }

    fn store(&mut self, old: &StoreConfig, new: &StoreConfig) {
        compare!(self, "store", old, new, StoreConfig {
            engine: "engine" Restart,
            path: "path" Restart,
            cache_bytes: "cache_bytes" Restart,
            reserve_bytes: "reserve_bytes" Restart,
            queue: "queue" Restart,
        });
    }

    fn apps(&mut self, old: &[App], new: &[App]) {
        let among = |apps: &[App], name: &str| apps.iter().any(|app| app.name == name);
        for app in new {
            match old.iter().find(|old| old.name == app.name) {
                None => self.live.push(format!("app {}: added", app.name)),
                Some(before) if before != app => {
                    self.live.push(format!("app {}: {}", app.name, changed_keys(before, app).join(", ")));
                }
                Some(_) => {}
            }
        }
        for app in old.iter().filter(|app| !among(new, &app.name)) {
            self.live.push(format!("app {}: removed", app.name));
        }
        // Of two applications that could answer to a host, the first does.
        let kept = old.iter().filter(|app| among(new, &app.name));
        if !kept.map(|app| &app.name).eq(new.iter().filter(|app| among(old, &app.name)).map(|app| &app.name)) {
            self.live.push("app: their order".to_owned());
        }
    }
}

/// The keys in which two applications differ, by the names in the file.
fn changed_keys(old: &App, new: &App) -> Vec<String> {
    let mut found = Difference::default();
    compare!(found, "", old, new, App {
        name: "name" Live,
        title: "title" Live,
        description: "description" Live,
        icon: "icon" Live,
        host: "host" Live,
        url: "url" Live,
        upstreams: "upstreams" Live,
        upstream_tls: "upstream_tls" Live,
        routes: "route" Live,
        audience: "audience" Live,
        clients: "clients" Live,
        trusted_issuers: "trusted_issuers" Live,
        identity: "" ByParts,
        preserve_host: "preserve_host" Live,
        max_requests: "max_requests" Live,
        max_requests_per_client: "max_requests_per_client" Live,
        reads_bodies_whole: "reads_bodies_whole" Live,
        connect_timeout: "connect_timeout_seconds" Live,
        read_timeout: "read_timeout_seconds" Live,
        write_timeout: "write_timeout_seconds" Live,
    });
    compare!(found, "", old.identity, new.identity.as_ref(), Identity {
        headers: "identity_headers" Live,
        pass: "pass_headers" Live,
        assertion: "assertion" Live,
        authorization: "authorization" Live,
        names: "names" Live,
        groups_delimiter: "groups_delimiter" Live,
    });
    found.live.iter().map(|key| key.trim_start_matches('.').to_owned()).collect()
}
