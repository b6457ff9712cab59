//! Checks of certificates and private keys that the configuration file names.

use super::address;
use crate::app_hosts::WILDCARD;
use crate::disk::{Files, Mismatch};
use crate::file::Section;
use crate::tls::token_key_label;
use crate::{
    CertificateEnd, CertificateKey, ClientCertificates, ConfigFault, Hsm, ListenerCertificate, Presence, TlsConfig,
    TokenKeyUse, Upstream, UpstreamTls, disk,
};

const CHAIN: &str = "write the path of the certificate chain, PEM";
const KEY: &str = "write the path of the private key, PEM";
const LISTENER_KEY: &str = "write the path of the private key, PEM, or \"pkcs11:object=LABEL\"";
const AUTHORITIES: &str = "write the path of the CA certificates, PEM";

/// Certificate chain of the listeners, and its path in the configuration file for error messages.
pub(super) struct CertificateChain {
    pub(super) files: ListenerCertificate,
    chain: disk::Chain,
    path: String,
}

/// Parses `server.tls`: a table, or a list of tables.
///
/// This check does not access the token. The server compares a key in the token with its
/// certificate when it starts.
pub(super) fn certificates(server: &mut Section<'_, '_>, files: &Files, hsm: Option<&Hsm>) -> Vec<CertificateChain> {
    enum Key {
        File(disk::PrivateKey),
        Token(String),
    }
    let allowed = "write { certificate = \"FILE\", key = \"FILE\" }, or a list of them";
    let read = |mut section: Section<'_, '_>| {
        let certificate = section.required_text("certificate", CHAIN, |text| files.certificate(text));
        let key = section.required_text("key", LISTENER_KEY, |text| match token_key_label(text) {
            None => files.key(text).map(Key::File),
            Some(label) => {
                let label = label?;
                hsm.map_or(Ok(()), |hsm| hsm.allow_tls_key_label(&label))?;
                Ok(Key::Token(label))
            }
        });
        let chain = certificate?;
        let files = match key? {
            Key::File(key) => matching(&section, &chain, &key).into(),
            Key::Token(label) => {
                ListenerCertificate { certificate: chain.path.clone(), key: CertificateKey::Token(label) }
            }
        };
        Some(CertificateChain { files, chain, path: section.path_of("certificate") })
    };
    server.one_or_more_sections("tls", allowed).into_iter().filter_map(read).collect()
}

/// Parses whether clients must present a certificate, and which authorities sign it.
pub(super) fn clients(server: &mut Section<'_, '_>, files: &Files, acme: bool) -> Option<ClientCertificates> {
    let ca = server.text("client_ca", AUTHORITIES, |text| files.authorities(text));
    let demands = [("optional", Presence::Optional), ("required", Presence::Required)];
    let demand = server.choice("client_certificates", &demands);
    if server.has("client_certificates") && !server.has("client_ca") {
        server.fault("client_certificates", "requires client_ca; write both, or leave it out");
    }
    if server.has("client_ca") && !server.has("tls") && !acme {
        server.fault("client_ca", "requires tls; write both, or leave it out");
    }
    Some(ClientCertificates { ca: ca?, demand: demand.unwrap_or(Presence::Required) })
}

/// Returns warnings for hosts without a certificate, and for certificates that match no host.
///
/// Returns no warning if no certificate file was read. Both cases may be intended behind a load
/// balancer that does not verify certificates. `ordered` contains the hosts whose certificates the
/// server obtains itself.
pub(super) fn coverage(certificates: &[CertificateChain], hosts: &[String], ordered: &[&str]) -> Vec<ConfigFault> {
    let read = || certificates.iter().filter(|certificate| certificate.chain.was_read());
    let mut warnings = Vec::new();
    for CertificateChain { chain, path, .. } in read() {
        if !hosts.iter().any(|host| chain.is_for(host) || chain.is_for_part_of(host)) {
            let problem = format!(
                "{} is not valid for any of {}; use a certificate for one of them",
                chain.path.display(),
                hosts.join(", ")
            );
            warnings.push(ConfigFault::new(path.clone(), None, problem));
        }
    }
    // Their certificates show that the operator lists the hosts of a wildcard one by one.
    let further: Vec<&str> = ordered.iter().copied().filter(|host| !hosts.iter().any(|known| known == host)).collect();
    let is_covered = |host: &str| {
        ordered.contains(&host.trim_start_matches('[').trim_end_matches(']'))
            || read().any(|certificate| certificate.chain.is_for(host))
            || host.strip_prefix(WILDCARD).is_some_and(|rest| further.iter().any(|one| is_one_below(one, rest)))
    };
    for host in hosts.iter().filter(|host| !is_covered(host)) {
        let is_wildcard = host.starts_with(WILDCARD);
        if read().next().is_none() && (!is_wildcard || ordered.is_empty()) {
            continue;
        }
        let remedy = if is_wildcard && !ordered.is_empty() {
            "add one from files to server.tls, because the ACME authority verifies control over single hosts only"
        } else {
            "add one"
        };
        let problem = format!("no certificate is valid for {host}, so browsers cannot connect; {remedy}");
        warnings.push(ConfigFault::new("server.tls".to_owned(), None, problem));
    }
    warnings
}

/// Returns whether the host has one label before `rest`.
fn is_one_below(host: &str, rest: &str) -> bool {
    host.split_once('.').is_some_and(|(_, of)| of == rest)
}

/// Returns when each certificate expires.
pub(super) fn ends(certificates: &[CertificateChain]) -> Vec<CertificateEnd> {
    let end = |CertificateChain { chain, path, .. }: &CertificateChain| {
        Some(CertificateEnd { path: path.clone(), file: chain.path.clone(), ends: chain.ends()? })
    };
    certificates.iter().filter_map(end).collect()
}

/// Returns the certificates whose keys are in the token, with the hosts for which they are valid.
pub(super) fn token_key_uses(certificates: &[CertificateChain], hosts: &[String]) -> Vec<TokenKeyUse> {
    let token_key_use = |CertificateChain { files, chain, .. }: &CertificateChain| match &files.key {
        CertificateKey::File(_) => None,
        CertificateKey::Token(label) => Some(TokenKeyUse {
            label: label.clone(),
            certificate: chain.path.clone(),
            hosts: hosts.iter().filter(|host| chain.is_for(host)).cloned().collect(),
        }),
    };
    certificates.iter().filter_map(token_key_use).collect()
}

fn matching(section: &Section<'_, '_>, certificate: &disk::Chain, key: &disk::PrivateKey) -> TlsConfig {
    match disk::belong_together(certificate, key) {
        Ok(()) => {}
        Err(Mismatch::Certificate(problem)) => section.fault("certificate", &problem),
        Err(Mismatch::Key(problem)) => section.fault("key", &problem),
    }
    TlsConfig { certificate: certificate.path.clone(), key: key.path.clone() }
}

/// Parses the TLS settings for an application's upstreams.
pub(super) fn upstream(app: &mut Section<'_, '_>, upstreams: &[Upstream], files: &Files) -> UpstreamTls {
    let allowed = "write { ca = \"FILE\" }, with certificate, key and server_name if the servers need them";
    let Some(mut section) = app.optional_section("upstream_tls", allowed) else {
        check_names(app, upstreams);
        return UpstreamTls::default();
    };
    let ca = section.text("ca", AUTHORITIES, |text| files.authorities(text));
    let certificate = section.text("certificate", CHAIN, |text| files.certificate(text));
    let key = section.text("key", KEY, |text| match token_key_label(text) {
        None => files.key(text),
        Some(_) => Err(format!("{text:?} is a key in the token, which only server.tls can use; {KEY}")),
    });
    let server_name =
        section.text("server_name", "write the name on the servers' certificate", address::certificate_name);
    section.require_both("certificate", "key");
    let client = certificate.zip(key).map(|(certificate, key)| matching(&section, &certificate, &key));
    drop(section);
    let speaks_tls = |upstream: &Upstream| matches!(upstream, Upstream::Url(url) if url.scheme() == "https");
    if !upstreams.is_empty() && !upstreams.iter().any(speaks_tls) {
        app.fault("upstream_tls", "no upstream uses TLS; write https:// in upstreams, or leave upstream_tls out");
    }
    if server_name.is_none() {
        check_names(app, upstreams);
    }
    UpstreamTls { ca, client, server_name }
}

/// Rejects upstream names with an underscore, because Pingora verifies their certificates against
/// another name.
fn check_names(app: &Section<'_, '_>, upstreams: &[Upstream]) {
    let is_invalid_name = |upstream: &&Upstream| matches!(upstream, Upstream::Url(url) if url.scheme() == "https" && url.host_str().is_some_and(|host| host.contains('_')));
    if let Some(Upstream::Url(url)) = upstreams.iter().find(is_invalid_name) {
        let problem = format!(
            "the host name in {url} cannot be in a certificate; write the name in the server's certificate \
             as server_name in upstream_tls"
        );
        app.fault("upstreams", &problem);
    }
}
