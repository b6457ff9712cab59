//! One server of an application: its address, how to connect to it, and whether it lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::HeaderValue;
use pingora::upstreams::peer::{H1UpgradePolicy, HttpPeer, HttpUpstreamRequestPolicy};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::super::proxy::upgrade::UpgradeConnector;
use super::source::{Address, UpstreamSource};
use super::trust::UpstreamTrust;
use crate::config::{App, Upstream};

/// How long an idle connection to an upstream is kept.
const IDLE: Duration = Duration::from_secs(30);
/// What Pingora does to a request's head before we change it, written out: its defaults may change, and what hangs on them is
/// who may say what to an application (RFC 9110 §7.6.1).
const fn request_policy(h1_upgrade: H1UpgradePolicy) -> HttpUpstreamRequestPolicy {
    HttpUpstreamRequestPolicy {
        strip_hop_by_hop: true,
        strip_connection_nominated: true,
        reject_malformed_connection_nominations: true,
        h1_upgrade,
    }
}

const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// One lost packet is no failure.
const FAILURES: u32 = 2;

/// One address of an upstream.
pub(in crate::edge) struct UpstreamServer {
    pub(super) address: Address,
    pub(in crate::edge) configured: Arc<Upstream>,
    pub(in crate::edge) peer: HttpPeer,
    /// For handshakes of `WebSockets`.
    pub(in crate::edge) upgrade_peer: HttpPeer,
    /// Its own `Host`, where the client's is not to reach it.
    pub(in crate::edge) host: Option<HeaderValue>,
    /// Longest silence on a WebSocket or an event stream.
    pub(in crate::edge) stream_timeout: Duration,
    /// Checks that failed one after the other, up to now.
    failures: AtomicU32,
}

impl UpstreamServer {
    /// A server at `address`, one of its source's. Where that speaks TLS it must show a certificate for the source's name.
    ///
    /// # Errors
    /// Why there cannot be such a server.
    pub(super) fn new(
        app: &App,
        address: Address,
        source: &UpstreamSource,
        trust: &UpstreamTrust,
    ) -> Result<Self, String> {
        let tls = source.tls.as_deref();
        let name = tls.unwrap_or_default().to_owned();
        if tls.is_some() && name.is_empty() {
            // Pingora takes an empty name for the wish not to look at the certificate.
            return Err("there is no name to look for on its certificate".to_owned());
        }
        let mut peer = match &address {
            Address::Ip(address) => HttpPeer::new(*address, tls.is_some(), name),
            Address::Socket(path) => {
                let path = path.to_str().ok_or("write the socket's path in UTF-8")?;
                HttpPeer::new_uds(path, false, String::new()).map_err(|error| error.to_string())?
            }
        };
        if tls.is_some() {
            trust.give(&mut peer);
        }
        // Pingora's own defaults are to wait for ever.
        peer.options.connection_timeout = Some(app.connect_timeout);
        peer.options.total_connection_timeout = Some(app.connect_timeout);
        peer.options.read_timeout = Some(app.read_timeout);
        peer.options.write_timeout = Some(app.write_timeout);
        peer.options.idle_timeout = Some(IDLE);
        peer.options.http_upstream_request_policy = request_policy(H1UpgradePolicy::Deny);
        let mut upgrade_peer = peer.clone();
        upgrade_peer.options.http_upstream_request_policy = request_policy(H1UpgradePolicy::WebSocketOnly);
        upgrade_peer.options.read_timeout = Some(app.stream_timeout);
        upgrade_peer.options.custom_l4 = Some(Arc::new(UpgradeConnector { connect_timeout: app.connect_timeout }));
        // Its connections are never those of ordinary requests, whose keys are even.
        upgrade_peer.group_key = peer.group_key | 1;
        let host = (!app.preserve_host).then(|| source.host.clone());
        let configured = Arc::clone(&source.configured);
        let stream_timeout = app.stream_timeout;
        Ok(Self { address, configured, peer, upgrade_peer, host, stream_timeout, failures: AtomicU32::new(0) })
    }

    /// Whether it has answered when last looked at, as far as anybody knows.
    pub(super) fn is_alive(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < FAILURES
    }

    /// Knows of its health what `other`, the same server before, knew.
    pub(super) fn inherit(&self, other: &Self) {
        self.failures.store(other.failures.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Looks whether it takes connections.
    pub(super) async fn check(&self, app: &str) {
        let connected = async {
            match &self.address {
                Address::Ip(address) => TcpStream::connect(address).await.map(drop),
                Address::Socket(path) => UnixStream::connect(path).await.map(drop),
            }
        };
        let outcome =
            timeout(CHECK_TIMEOUT, connected).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let failed_before = self.failures.load(Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                self.failures.store(0, Ordering::Relaxed);
                if failed_before >= FAILURES {
                    tracing::info!(app, server = %self.address, "the upstream takes connections again");
                }
            }
            Err(error) => {
                self.failures.store(failed_before.saturating_add(1), Ordering::Relaxed);
                if failed_before + 1 == FAILURES {
                    tracing::warn!(app, server = %self.address, %error, "the upstream takes no connections");
                }
            }
        }
    }
}
