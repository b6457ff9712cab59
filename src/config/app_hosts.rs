//! Hosts of applications: exact hosts, and wildcards of one label (`*.example.com`).
//!
//! An exact host has precedence over a wildcard, whatever its port is, because browsers send the
//! cookies of a host to all its ports. The names of the issuer and of passkeys (`factors.rp_id`)
//! belong to no wildcard.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::app::{App, host_name};
use super::issuer::{IssuerUrl, authority};
use super::settings::Config;

/// Start of a host with a wildcard.
pub(super) const WILDCARD: &str = "*.";
/// Maximum length of a label and of a host name, in bytes (RFC 1035 §2.3.4).
pub(super) const MAX_LABEL_LENGTH: usize = 63;
pub(super) const MAX_HOST_LENGTH: usize = 253;

/// Host name that the wildcard of an application covers, in lower case and without a port.
///
/// It names the host of one request, and is part of everything that must not be used at another
/// host of the wildcard: the application's session, the callback URL and the client id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredHost(String);

impl CoveredHost {
    /// Returns the host name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the label at the place of the `*`.
    pub fn label(&self) -> &str {
        self.0.split_once('.').map_or("", |(label, _)| label)
    }
}

/// Splits a host into its first label and the rest. Returns `None` if the label cannot be part of a
/// host name.
fn split_label(host: &str) -> Option<(&str, &str)> {
    let (label, rest) = host.split_once('.')?;
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let is_label = (1..=MAX_LABEL_LENGTH).contains(&label.len())
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-');
    (is_label && host_name(host).len() <= MAX_HOST_LENGTH).then_some((label, rest))
}

impl App {
    /// Returns whether the host is a wildcard.
    pub fn is_wildcard(&self) -> bool {
        self.host.starts_with(WILDCARD)
    }

    /// Returns the covered host of a `Host` header. `None` if the application has an exact host, or
    /// if its wildcard does not cover the host.
    ///
    /// Another application or the issuer may have precedence: see [`AppHosts::app`].
    pub fn covered_host(&self, authority: &str) -> Option<CoveredHost> {
        let suffix = self.host.strip_prefix(WILDCARD)?;
        let authority = lower_case(authority);
        let (_, rest) = split_label(&authority)?;
        let is_covered = rest == suffix || host_name(rest) == suffix;
        is_covered.then(|| CoveredHost(host_name(&authority).to_owned()))
    }

    /// Returns whether a host name without a port belongs to the application, or to a wildcard of
    /// the application.
    pub fn has_host_name(&self, name: &str) -> bool {
        let own = host_name(&self.host);
        own == name
            || own.strip_prefix(WILDCARD).is_some_and(|rest| split_label(name).is_some_and(|(_, of)| of == rest))
    }

    /// Returns the application's public origin, in the form of an `Origin` header. `None` for a
    /// wildcard, which has an origin for each covered host.
    pub fn origin(&self, issuer: &IssuerUrl) -> Option<String> {
        (!self.is_wildcard()).then(|| self.origin_pattern(issuer))
    }

    /// Returns the application's public origin at the covered host of a request. An application with
    /// an exact host has no covered hosts and always the same origin.
    pub fn origin_at(&self, issuer: &IssuerUrl, host: Option<&CoveredHost>) -> String {
        let origin = self.origin_pattern(issuer);
        match host {
            Some(host) => origin.replacen('*', host.label(), 1),
            None => origin,
        }
    }

    /// Returns the application's public origin for operators to read. That of a wildcard has `*` in
    /// the place of the label.
    ///
    /// If `url` is not configured, this is the application's host with the issuer's scheme and
    /// port. A port in the host takes precedence over the port of the issuer.
    pub fn origin_pattern(&self, issuer: &IssuerUrl) -> String {
        if let Some(url) = &self.url {
            return format!("{}://{}", url.scheme(), authority(url));
        }
        match (super::app::split_port(&self.host).1, issuer.port()) {
            (None, Some(port)) => format!("{}://{}:{port}", issuer.scheme(), self.host),
            _ => format!("{}://{}", issuer.scheme(), self.host),
        }
    }
}

impl Config {
    /// Returns whether a host name without a port is the issuer's, or that of passkeys.
    pub fn is_own_host_name(&self, name: &str) -> bool {
        [self.issuer.host(), self.rp_id()].contains(&name)
    }

    /// Returns why the console must not give a host to the application with this name. `None` if it
    /// may, or if the application has the host already.
    ///
    /// A page on the host of the issuer, at any port, can act as the user at the provider. A host of
    /// another application's wildcard has the cookies and the storage of that application.
    pub fn refusal_of_host(&self, name: &str, host: &str) -> Option<String> {
        if self.apps.iter().any(|app| app.name == name && app.host == host) {
            return None;
        }
        if host.starts_with(WILDCARD) {
            return Some(format!("{host:?} is a wildcard; only the operator can add one in the file"));
        }
        let host_name = host_name(host);
        if self.is_own_host_name(host_name) {
            return Some(format!(
                "{host:?} is the host of the sign-in pages; only the operator can use it in the file"
            ));
        }
        let wildcard =
            self.apps.iter().find(|app| app.name != name && app.is_wildcard() && app.has_host_name(host_name))?;
        Some(format!(
            "{host:?} is covered by {:?} of the application {}; only the operator can use it in the file",
            wildcard.host, wildcard.name
        ))
    }

    /// Returns the host of a wildcard with this label. `None` if the application has an exact host, if
    /// the label cannot be part of a host name, or if the host belongs to the issuer or another
    /// application.
    pub fn covered_host(&self, app: &App, label: &str) -> Option<CoveredHost> {
        let authority = format!("{label}.{}", app.host.strip_prefix(WILDCARD)?);
        let index = AppHosts::from_config(self).app(&authority)?;
        let is_its = self.apps.get(index).is_some_and(|found| found.name == app.name);
        app.covered_host(&authority).filter(|host| is_its && host.label() == label)
    }
}

/// Index of the applications by host.
#[derive(Debug)]
pub struct AppHosts {
    exact: HashMap<String, usize>,
    /// Index by the host of the wildcard, without `*.`.
    wildcards: HashMap<String, usize>,
    /// Names that no wildcard covers. Empty if there are no wildcards.
    reserved: HashSet<String>,
}

impl AppHosts {
    /// Creates the index of a configuration.
    pub fn from_config(config: &Config) -> Self {
        let mut hosts = Self { exact: HashMap::new(), wildcards: HashMap::new(), reserved: HashSet::new() };
        for (index, app) in config.apps.iter().enumerate() {
            match app.host.strip_prefix(WILDCARD) {
                Some(rest) => hosts.wildcards.insert(rest.to_owned(), index),
                None => hosts.exact.insert(app.host.clone(), index),
            };
        }
        if !hosts.wildcards.is_empty() {
            let exact = hosts.exact.keys().map(|host| host_name(host));
            let own = [config.issuer.host(), config.rp_id()];
            hosts.reserved = exact.chain(own).map(str::to_owned).collect();
        }
        hosts
    }

    /// Returns the index of the application for a `Host` header.
    ///
    /// An application that is configured without a port is found for every port (see
    /// [`App::matches_host`]). No two applications have the same host.
    pub fn app(&self, authority: &str) -> Option<usize> {
        let host = lower_case(authority);
        let exact = self.exact.get(&*host).or_else(|| self.exact.get(host_name(&host)));
        exact.copied().or_else(|| self.wildcard(&host))
    }

    /// Returns the index of the application with a wildcard that covers this host, in lower case.
    fn wildcard(&self, host: &str) -> Option<usize> {
        if self.wildcards.is_empty() || self.reserved.contains(host_name(host)) {
            return None;
        }
        let (_, rest) = split_label(host)?;
        self.wildcards.get(rest).or_else(|| self.wildcards.get(host_name(rest))).copied()
    }
}

/// Returns the host in lower case.
///
/// Host names are case-insensitive (RFC 9110 §4.2.3). Only ASCII letters are folded: `İ` must not
/// become `i`.
fn lower_case(host: &str) -> Cow<'_, str> {
    let upper = host.bytes().any(|byte| byte.is_ascii_uppercase());
    if upper { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) }
}
