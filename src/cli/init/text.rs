//! Text of a new configuration. It contains only settings that differ from the defaults.

use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

use super::place::Place;
use crate::cli::config_file::{add_app, quoted};
use crate::cli::failure::CommandFailure;
use sealgate_config::{Config, IssuerUrl, LETS_ENCRYPT, NewApp, Protected};

/// Paths at which distributions install SoftHSM's module.
const SOFTHSM_MODULES: [&str; 6] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/lib64/softhsm/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
];

const HEAD: &str = "\
# Written by `sealgate init`. Other keys have their defaults: see docs/reference/configuration.md, or
# /usr/share/doc/sealgate/examples/sealgate.toml. `sealgate check` validates this file, `sealgate reload`
# applies it, `sealgate app` adds and removes applications.
";

/// Component that terminates TLS.
pub(super) enum TlsTermination {
    /// No component, because the issuer is a loopback host.
    Http,
    Tls {
        certificate: PathBuf,
        key: PathBuf,
    },
    /// The server, with certificates from ACME.
    Acme {
        directory: String,
        ca: Option<PathBuf>,
    },
    /// A proxy with this address or network.
    BehindProxy(String),
}

impl TlsTermination {
    pub(super) fn tls(certificate: &Path, key: &Path) -> Result<Self, CommandFailure> {
        Ok(Self::Tls { certificate: absolute(certificate)?, key: absolute(key)? })
    }

    pub(super) fn acme(directory: String, ca: Option<&Path>) -> Result<Self, CommandFailure> {
        Ok(Self::Acme { directory, ca: ca.map(absolute).transpose()? })
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CommandFailure> {
    std::path::absolute(path).map_err(|error| CommandFailure::line(format_args!("{}: {error}", path.display())))
}

/// Settings of a new configuration.
pub(super) struct Draft {
    pub(super) issuer: String,
    pub(super) transport: TlsTermination,
    pub(super) listen: Option<String>,
    pub(super) module: PathBuf,
    pub(super) token_label: String,
    /// Whether `init` creates the token in the state directory.
    pub(super) makes_token: bool,
    pub(super) protect: Vec<Protected>,
}

impl Draft {
    pub(super) fn text(&self, place: &Place) -> Result<String, CommandFailure> {
        let url = IssuerUrl::parse(&self.issuer)
            .map_err(|problem| CommandFailure::line(format_args!("--issuer: {problem}")))?;
        let port = url.url().port_or_known_default().unwrap_or(443);
        let mut text = format!("{HEAD}\nissuer = {}\n\n[server]\n", quoted(&self.issuer));
        let listen = self.listen.clone().unwrap_or_else(|| match &self.transport {
            TlsTermination::Http => format!("127.0.0.1:{port}"),
            TlsTermination::Tls { .. } | TlsTermination::Acme { .. } => format!("0.0.0.0:{port}"),
            TlsTermination::BehindProxy(_) => "127.0.0.1:8080".to_owned(),
        });
        let mut line = |line: String| text.extend([line.as_str(), "\n"]);
        line(format!("listen = [{}]", quoted(&listen)));
        let terminates_tls = matches!(self.transport, TlsTermination::Tls { .. } | TlsTermination::Acme { .. });
        if terminates_tls && port == 443 && self.listen.is_none() {
            line("redirect_listen = [\"0.0.0.0:80\"]".to_owned());
        }
        match &self.transport {
            TlsTermination::Http => {}
            TlsTermination::Acme { directory, ca } => {
                line("\n[acme]\nagree_to_terms = true".to_owned());
                if directory != LETS_ENCRYPT {
                    line(format!("directory = {}", quoted(directory)));
                }
                if let Some(ca) = ca {
                    line(format!("ca_file = {}", quoted(ca.display())));
                }
            }
            TlsTermination::Tls { certificate, key } => {
                let (certificate, key) = (quoted(certificate.display()), quoted(key.display()));
                line(format!("tls = {{ certificate = {certificate}, key = {key} }}"));
            }
            TlsTermination::BehindProxy(proxy) => line(format!("trusted_proxies = [{}]", quoted(proxy))),
        }
        if place.is_installed {
            line("\n[admin]\nsocket = \"/run/sealgate/admin.sock\"".to_owned());
        }
        line("\n[hsm]".to_owned());
        line(format!("module = {}", quoted(self.module.display())));
        line(format!("token_label = {}", quoted(&self.token_label)));
        line(format!("pin_file = {}", quoted(place.pin_setting())));
        if self.makes_token {
            line(format!("softhsm_conf = {}", quoted(place.softhsm_conf().display())));
        }
        line(format!("\n[store]\npath = {}", quoted(place.state.join("store").display())));
        line("\n[console]\nenabled = true".to_owned());
        let mut document: DocumentMut = text.parse().map_err(CommandFailure::line)?;
        let mut names: Vec<String> = Vec::new();
        for app in &self.protect {
            let used_names: Vec<&str> = names.iter().map(String::as_str).collect();
            let name = app.name(&used_names);
            names.push(name.clone());
            let (host, upstream) = (app.host.clone(), app.upstream.clone());
            add_app(&mut document, &NewApp { name, title: None, host, upstream, groups: Vec::new() })?;
        }
        Ok(document.to_string())
    }
}

/// Returns whether the token of this configuration is one that `init` creates.
pub(super) fn makes_token(config: &Config, place: &Place) -> bool {
    config.hsm.softhsm_conf.as_ref() == Some(&place.softhsm_conf())
}

/// Finds SoftHSM's module.
pub(super) fn softhsm_module() -> Result<PathBuf, CommandFailure> {
    let module_file = SOFTHSM_MODULES.iter().map(PathBuf::from).find(|module| module.is_file());
    module_file.ok_or_else(|| {
        CommandFailure::line(
            "SoftHSM is not installed: install the package softhsm2, give --module FILE, or use another token with --token existing",
        )
    })
}
