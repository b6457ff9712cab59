//! Server of an application: its address, connection settings and health.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use pingora::protocols::Digest;
use pingora::upstreams::peer::{H1UpgradePolicy, HttpPeer, HttpUpstreamRequestPolicy};
use pingora::{Error, ErrorType, Result as PingoraResult};

use super::super::proxy::http2_upstream::require_http2;
use super::super::proxy::upgrade::UpgradeConnector;
use super::affinity::server_number;
use super::fields::UpstreamFields;
use super::health::{ServerCheck, UpstreamHealth};
use super::source::{Address, UpstreamSource};
use super::trust::{NamedCertificate, UpstreamTrust};
use sealgate_config::{App, Upstream, UpstreamProtocol};
use sealgate_system::read_mostly::LocalRef;

/// Time for which an idle upstream connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Returns the settings for Pingora's changes to a request head. The proxy makes its own changes
/// afterwards.
///
/// The settings decide which fields of a client reach an application (RFC 9110 §7.6.1). All
/// settings are listed, because Pingora's defaults may change.
const fn request_policy(h1_upgrade: H1UpgradePolicy) -> HttpUpstreamRequestPolicy {
    HttpUpstreamRequestPolicy {
        strip_hop_by_hop: true,
        strip_connection_nominated: true,
        reject_malformed_connection_nominations: true,
        h1_upgrade,
    }
}

/// Server of a request, in a list that the request's thread keeps.
pub(crate) struct ServerRef {
    servers: LocalRef<Box<[Arc<UpstreamServer>]>>,
    index: usize,
}

impl ServerRef {
    /// Returns the server at this index, if there is one.
    pub(super) fn new(servers: LocalRef<Box<[Arc<UpstreamServer>]>>, index: usize) -> Option<Self> {
        (index < servers.len()).then_some(Self { servers, index })
    }
}

impl Deref for ServerRef {
    type Target = UpstreamServer;

    fn deref(&self) -> &UpstreamServer {
        &self.servers[self.index]
    }
}

/// One address of an upstream, with its settings and health.
pub(crate) struct UpstreamServer {
    pub(super) address: Address,
    /// Number of the address, for [`super::affinity`].
    pub(super) number: u64,
    pub(crate) configured: Arc<Upstream>,
    /// Whether connections use HTTP/2 only, instead of HTTP/1.1.
    pub(crate) uses_http2: bool,
    pub(super) peer: HttpPeer,
    /// Peer for `WebSocket` handshakes.
    pub(super) upgrade_peer: HttpPeer,
    /// Certificates in the configuration that the server may present itself. They need not be
    /// signed by an authority.
    named: Vec<NamedCertificate>,
    /// Whether the server presents one of `named`. Pingora would refuse it, so Pingora's
    /// verification is off for these connections, and [`UpstreamServer::check_certificate`]
    /// verifies them.
    presents_named: AtomicBool,
    /// `Host` of the upstream, if the client's `Host` must not be forwarded.
    pub(crate) host: Option<HeaderValue>,
    /// `Host` of the upstream.
    pub(super) own_host: HeaderValue,
    /// Fixed fields of requests and responses.
    pub(crate) fields: Arc<UpstreamFields>,
    /// Maximum time in which the server sends nothing, before and during a response.
    pub(crate) read_timeout: Duration,
    /// Timeout as in `read_timeout`, for a WebSocket or an event stream.
    pub(crate) stream_timeout: Duration,
    pub(super) check: Arc<ServerCheck>,
    pub(super) health: UpstreamHealth,
}

impl UpstreamServer {
    /// Creates the server at `address`, which belongs to `source`. If it uses TLS, it must present
    /// a certificate for the source's name.
    ///
    /// # Errors
    /// The reason why the server cannot be used.
    pub(super) fn new(
        app: &App,
        address: Address,
        source: &UpstreamSource,
        trust: &UpstreamTrust,
        fields: &Arc<UpstreamFields>,
        check: &Arc<ServerCheck>,
    ) -> Result<Self, String> {
        let tls = source.tls.as_deref();
        let name = tls.unwrap_or_default().to_owned();
        if tls.is_some() && name.is_empty() {
            // If the name were empty, Pingora would skip the verification of the certificate.
            return Err("there is no host name to verify its certificate against".to_owned());
        }
        let mut peer = match &address {
            Address::Ip(address) => HttpPeer::new(*address, tls.is_some(), name),
            Address::Socket(path) => {
                let path = path.to_str().ok_or("write the socket's path in UTF-8")?;
                HttpPeer::new_uds(path, false, String::new()).map_err(|error| error.to_string())?
            }
        };
        let mut named = Vec::new();
        if let Some(name) = tls {
            trust.apply_to(&mut peer);
            named = trust.named_for(name);
        }
        // Pingora has no timeouts by default. The read timeout depends on the route.
        peer.options.connection_timeout = Some(app.connect_timeout);
        peer.options.total_connection_timeout = Some(app.connect_timeout);
        peer.options.write_timeout = Some(app.write_timeout);
        peer.options.idle_timeout = Some(IDLE_TIMEOUT);
        peer.options.http_upstream_request_policy = request_policy(H1UpgradePolicy::Deny);
        let uses_http2 = app.upstream_protocol == UpstreamProtocol::Http2;
        if uses_http2 {
            require_http2(&mut peer);
        }
        let mut upgrade_peer = peer.clone();
        upgrade_peer.options.http_upstream_request_policy = request_policy(H1UpgradePolicy::WebSocketOnly);
        upgrade_peer.options.custom_l4 = Some(Arc::new(UpgradeConnector { connect_timeout: app.connect_timeout }));
        // An odd key separates these connections from connections for ordinary requests, which have
        // even keys.
        upgrade_peer.group_key = peer.group_key | 1;
        let host = (!app.preserve_host).then(|| source.host.clone());
        let configured = Arc::clone(&source.configured);
        Ok(Self {
            number: server_number(&address),
            address,
            configured,
            uses_http2,
            peer,
            upgrade_peer,
            named,
            presents_named: AtomicBool::new(false),
            host,
            own_host: source.host.clone(),
            fields: Arc::clone(fields),
            read_timeout: app.read_timeout,
            stream_timeout: app.stream_timeout,
            check: Arc::clone(check),
            health: UpstreamHealth::default(),
        })
    }

    /// Returns the peer for a request.
    pub(crate) fn peer(&self, is_upgrade: bool) -> Box<HttpPeer> {
        let mut peer = Box::new(if is_upgrade { &self.upgrade_peer } else { &self.peer }.clone());
        // Pingora's pool does not mix connections with and without its own verification.
        peer.options.verify_cert = !self.presents_named.load(Ordering::Relaxed);
        peer
    }

    /// Checks the certificate of a connection that Pingora did not verify. Must be called before
    /// anything is sent.
    ///
    /// The handshake has proved that the server has the private key.
    ///
    /// # Errors
    /// If the certificate is none of `named`, or is not valid.
    pub(crate) fn check_certificate(&self, peer: &HttpPeer, connection: Option<&Digest>) -> PingoraResult<()> {
        if peer.options.verify_cert {
            return Ok(());
        }
        let digest = connection.and_then(|connection| connection.ssl_digest.as_deref()).map(|tls| &tls.cert_digest);
        if digest.is_some_and(|digest| self.named.iter().any(|named| named.is_presented(digest))) {
            return Ok(());
        }
        // The server may present another certificate now, which Pingora must verify.
        self.presents_named.store(false, Ordering::Relaxed);
        Err(Error::explain(ErrorType::InvalidCert, "the certificate is not signed by a trusted authority").into_up())
    }

    /// Returns whether to retry without Pingora's verification, because the server may present one
    /// of `named`.
    pub(crate) fn may_present_named(&self, peer: &HttpPeer, error: &Error) -> bool {
        let may =
            peer.options.verify_cert && *error.etype() == ErrorType::TLSHandshakeFailure && !self.named.is_empty();
        if may {
            self.presents_named.store(true, Ordering::Relaxed);
        }
        may
    }

    /// Returns whether the server is in the rotation, as its last checks decided.
    pub(super) fn is_alive(&self) -> bool {
        !self.health.is_out()
    }

    /// Copies the health of `other`, the same server in an earlier list.
    pub(super) fn inherit(&self, other: &Self) {
        self.health.inherit(&other.health);
    }
}
