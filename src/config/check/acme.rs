//! Checks of `[acme]`.

use std::path::{Path, PathBuf};

use url::Url;

use super::super::{
    AcmeChallenge, AcmeConfig, ExternalAccount, IssuerUrl, LETS_ENCRYPT, Presence, ServerConfig, StoreConfig, TlsConfig,
};
use super::address;
use crate::app_hosts::WILDCARD;
use crate::disk::Files;
use crate::file::Section;
use sealgate_domain::user::Email;

/// Maximum length of a certificate profile's name in bytes.
const MAX_PROFILE_LENGTH: usize = 64;
/// Maximum length of an external account's key identifier in bytes.
const MAX_ACCOUNT_ID_LENGTH: usize = 256;

/// Parses the section. Adds the certificates that the server will obtain to those of the listeners.
///
/// If the key `hosts` is absent, each of `all_hosts` (issuer and applications) gets a certificate,
/// except wildcards.
pub(super) fn acme(
    mut section: Section<'_, '_>,
    files: &Files,
    issuer: Option<&IssuerUrl>,
    all_hosts: &[String],
    store: Option<&StoreConfig>,
    server: &mut ServerConfig,
) -> Option<AcmeConfig> {
    let directory = section.text("directory", "write the URL of the authority's directory", directory);
    let agrees = section.flag("agree_to_terms", false);
    let terms = "read the authority's terms of service, and write true to accept them";
    if !section.has("agree_to_terms") {
        section.missing("agree_to_terms", terms);
    } else if !agrees {
        section.fault("agree_to_terms", &format!("is false; {terms}"));
    }
    let contact = section.text("contact", "write an address such as \"ops@example.com\"", |text| {
        let problem = || format!("{text:?} is not an e-mail address; write one such as \"ops@example.com\"");
        Email::parse(text).map(|email| email.as_str().to_owned()).ok_or_else(problem)
    });
    let external_account_id = section.text("external_account_id", "write the key identifier (EAB kid)", |text| {
        let is_valid =
            (1..=MAX_ACCOUNT_ID_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is not a key identifier of an authority"))
    });
    let external_account_key_file =
        section.text("external_account_key_file", "write the path of the file with the MAC key", |text| {
            files.mac_key(text)
        });
    section.require_both("external_account_id", "external_account_key_file");
    let hosts = section.some_texts("hosts", "write a list such as [\"id.example.com\"]", |text| {
        address::certificate_name(&text.to_ascii_lowercase())
    });
    let profile = section.text("profile", "write the name of a profile, such as \"shortlived\"", |text| {
        let is_valid =
            (1..=MAX_PROFILE_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is not the name of a profile"))
    });
    let challenges = [("tls-alpn-01", AcmeChallenge::TlsAlpn01), ("http-01", AcmeChallenge::Http01)];
    let challenge = section.choice("challenge", &challenges).unwrap_or(AcmeChallenge::TlsAlpn01);
    if challenge == AcmeChallenge::Http01 && server.redirect_listen.is_empty() {
        section.fault("challenge", "is \"http-01\", which is answered at port 80; set server.redirect_listen too");
    }
    let requires = server.client_certificates.as_ref().is_some_and(|clients| clients.demand == Presence::Required);
    if challenge == AcmeChallenge::TlsAlpn01 && requires {
        let problem = "the authority has no client certificate, which server.client_certificates requires; write \
            challenge = \"http-01\"";
        section.fault("challenge", problem);
    }
    let ca_file = section.text("ca_file", "write the file of a PEM certificate", |text| files.authorities(text));
    let path =
        section.text("path", "write the directory of the account and the certificates", |text| files.store(text));
    let path = path.or_else(|| beside(store?));
    if !section.has("path") && path.is_none() && store.is_some() {
        section.missing("path", "write a directory of this node, such as \"/var/lib/sealgate/acme\"");
    }
    if issuer.is_some_and(|issuer| !issuer.is_https()) {
        section.fault("directory", "the issuer says http; write https in the issuer, or leave [acme] out");
    }
    let config = AcmeConfig {
        directory: directory.unwrap_or_else(|| LETS_ENCRYPT.to_owned()),
        contact,
        external_account: external_account_id.zip(external_account_key_file).map(
            |(external_account_id, external_account_key_file)| ExternalAccount {
                external_account_id,
                external_account_key_file,
            },
        ),
        hosts: hosts.or_else(|| {
            let single = all_hosts.iter().filter(|host| !host.starts_with(WILDCARD));
            (!all_hosts.is_empty()).then(|| single.map(|host| bare(host)).collect())
        })?,
        profile,
        challenge,
        ca_file,
        path: path?,
    };
    server.tls.extend(
        config.hosts.iter().map(|host| TlsConfig { certificate: config.file(host), key: config.file(host) }.into()),
    );
    Some(config)
}

/// Returns the default directory for certificates, a sibling of the store's directory.
fn beside(store: &StoreConfig) -> Option<PathBuf> {
    match store {
        StoreConfig::Sled(store) => store.path.parent().map(Path::to_owned).map(|parent| parent.join("acme")),
        StoreConfig::Postgres(_) => None,
    }
}

/// Removes the brackets of an IPv6 address.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

fn directory(text: &str) -> Result<String, String> {
    let problem = || format!("{text:?} is not an https URL; write one such as {LETS_ENCRYPT:?}");
    Url::parse(text).ok().filter(|url| url.scheme() == "https").map(|_| text.to_owned()).ok_or_else(problem)
}
