//! Certificates and keys, where the file names them.

use crate::config::disk::{self, Files, Mismatch};
use crate::config::file::Section;
use crate::config::{Tls, Upstream, UpstreamTls};

use super::address;

/// A certificate chain and its key, both.
pub(super) fn pair(mut section: Section<'_, '_>, files: &Files) -> Option<Tls> {
    let certificate = section.required_text("certificate", CHAIN, |text| files.certificate(text));
    let key = section.required_text("key", KEY, |text| files.key(text));
    Some(matching(&section, certificate?, key?))
}

const CHAIN: &str = "write the file of the chain, PEM";
const KEY: &str = "write the file of the private key, PEM";

fn matching(section: &Section<'_, '_>, certificate: disk::Chain, key: disk::Key) -> Tls {
    match disk::belong_together(&certificate, &key) {
        Ok(()) => {}
        Err(Mismatch::Certificate(problem)) => section.fault("certificate", &problem),
        Err(Mismatch::Key(problem)) => section.fault("key", &problem),
    }
    Tls { certificate: certificate.path, key: key.path }
}

/// TLS to the upstreams of an application.
pub(super) fn upstream(app: &mut Section<'_, '_>, upstreams: &[Upstream], files: &Files) -> UpstreamTls {
    let allowed = "write { ca = \"FILE\" }, with certificate, key and server_name where the servers need them";
    let Some(mut section) = app.optional_section("upstream_tls", allowed) else {
        check_names(app, upstreams);
        return UpstreamTls::default();
    };
    let ca = section.text("ca", "write the file of the authorities' certificates, PEM", |text| files.authorities(text));
    let certificate = section.text("certificate", CHAIN, |text| files.certificate(text));
    let key = section.text("key", KEY, |text| files.key(text));
    let server_name =
        section.text("server_name", "write the name on the servers' certificate", address::certificate_name);
    if section.has("certificate") != section.has("key") {
        let (lone, other) = if section.has("key") { ("key", "certificate") } else { ("certificate", "key") };
        section.fault(lone, &format!("stands alone; write {other} too, or leave both out"));
    }
    let client = certificate.zip(key).map(|(certificate, key)| matching(&section, certificate, key));
    drop(section);
    let speaks_tls = |upstream: &Upstream| matches!(upstream, Upstream::Url(url) if url.scheme() == "https");
    if !upstreams.is_empty() && !upstreams.iter().any(speaks_tls) {
        app.fault("upstream_tls", "no upstream speaks TLS; write https:// in upstreams, or leave upstream_tls out");
    }
    if server_name.is_none() {
        check_names(app, upstreams);
    }
    UpstreamTls { ca, client, server_name }
}

/// Pingora looks for another name on a certificate than for one with an underscore.
fn check_names(app: &Section<'_, '_>, upstreams: &[Upstream]) {
    let no_name = |upstream: &&Upstream| matches!(upstream, Upstream::Url(url) if url.scheme() == "https" && url.host_str().is_some_and(|host| host.contains('_')));
    if let Some(Upstream::Url(url)) = upstreams.iter().find(no_name) {
        let problem =
            format!("the name in {url} can be on no certificate; write that on its as server_name in upstream_tls");
        app.fault("upstreams", &problem);
    }
}
