//! Cryptography of all TLS connections: aws-lc-rs, with X25519MLKEM768 as the preferred key
//! exchange.
//!
//! X25519MLKEM768 combines X25519 with ML-KEM. A recorded connection stays secret if one of the two
//! is broken, for example by a quantum computer.
//!
//! Other libraries in this process use the default provider of rustls, and the first provider that
//! is installed remains the default. [`install`] must therefore run before a listener or an
//! upstream connection is prepared.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, ProtocolVersion, SupportedProtocolVersion};

/// Side of the peer in a key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPeer {
    /// A client of the public listeners.
    Client,
    /// A server that this process connects to.
    Server,
}

impl TlsPeer {
    /// Returns the label value of the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Group of a completed key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyExchangeGroup {
    X25519MlKem768,
    X25519,
    Secp256r1,
    Secp384r1,
}

impl KeyExchangeGroup {
    /// Returns the name in the IANA registry of TLS supported groups.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X25519MlKem768 => "X25519MLKEM768",
            Self::X25519 => "x25519",
            Self::Secp256r1 => "secp256r1",
            Self::Secp384r1 => "secp384r1",
        }
    }

    fn implementation(self) -> &'static dyn SupportedKxGroup {
        match self {
            Self::X25519MlKem768 => kx_group::X25519MLKEM768,
            Self::X25519 => kx_group::X25519,
            Self::Secp256r1 => kx_group::SECP256R1,
            Self::Secp384r1 => kx_group::SECP384R1,
        }
    }
}

/// A group that counts its completed key exchanges.
#[derive(Debug, Clone, Copy)]
struct CountedGroup {
    peer: TlsPeer,
    group: KeyExchangeGroup,
}

/// Groups that this process offers and accepts, in order of preference.
type CountedGroups = [CountedGroup; 4];

const fn groups(peer: TlsPeer) -> CountedGroups {
    [
        CountedGroup { peer, group: KeyExchangeGroup::X25519MlKem768 },
        CountedGroup { peer, group: KeyExchangeGroup::X25519 },
        CountedGroup { peer, group: KeyExchangeGroup::Secp256r1 },
        CountedGroup { peer, group: KeyExchangeGroup::Secp384r1 },
    ]
}

static WITH_CLIENTS: CountedGroups = groups(TlsPeer::Client);
static WITH_SERVERS: CountedGroups = groups(TlsPeer::Server);

/// Completed key exchanges that the metrics do not include yet, by peer and group.
static COMPLETED: [[AtomicU64; 4]; 2] = [const { [const { AtomicU64::new(0) }; 4] }; 2];

/// Returns the provider for connections to servers. It is also the default of the process.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| of_peer(TlsPeer::Server)))
}

/// Returns the provider for listeners.
pub fn listener_provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| of_peer(TlsPeer::Client)))
}

fn of_peer(peer: TlsPeer) -> Arc<CryptoProvider> {
    let groups = match peer {
        TlsPeer::Client => &WITH_CLIENTS,
        TlsPeer::Server => &WITH_SERVERS,
    };
    let kx_groups = groups.iter().map(|group| group as &'static dyn SupportedKxGroup).collect();
    Arc::new(CryptoProvider { kx_groups, ..default_provider() })
}

/// Makes [`provider`] the default provider of the process. May be called repeatedly.
///
/// # Errors
/// If another provider was installed first. That provider stays the default.
pub fn install() -> Result<(), String> {
    // An error means that the process has a default provider, possibly this one.
    let _ = CryptoProvider::clone(&provider()).install_default();
    let preferred =
        CryptoProvider::get_default().and_then(|default| default.kx_groups.first()).map(|group| group.name());
    match preferred {
        Some(NamedGroup::X25519MLKEM768) => Ok(()),
        other => Err(format!("TLS prefers the key exchange {other:?}: another provider was installed first")),
    }
}

/// Returns the number of key exchanges since the previous call, for each peer and group.
pub(crate) fn take_key_exchanges() -> impl Iterator<Item = (TlsPeer, KeyExchangeGroup, u64)> {
    let take = |counted: &CountedGroup| (counted.peer, counted.group, counted.completed().swap(0, Ordering::Relaxed));
    WITH_CLIENTS.iter().chain(&WITH_SERVERS).map(take)
}

impl CountedGroup {
    fn completed(self) -> &'static AtomicU64 {
        // Each dimension of the array has as many elements as its enum has variants.
        &COMPLETED[self.peer as usize][self.group as usize]
    }

    /// Counts the exchange if it succeeded.
    fn count<T>(self, exchange: Result<T, Error>) -> Result<T, Error> {
        if exchange.is_ok() {
            self.completed().fetch_add(1, Ordering::Relaxed);
        }
        exchange
    }
}

impl SupportedKxGroup for CountedGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let exchange = self.group.implementation().start()?;
        Ok(Box::new(CountedExchange { exchange, counted: *self }))
    }

    fn start_and_complete(&self, peer_pub_key: &[u8]) -> Result<CompletedKeyExchange, Error> {
        self.count(self.group.implementation().start_and_complete(peer_pub_key))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        self.group.implementation().ffdhe_group()
    }

    fn name(&self) -> NamedGroup {
        self.group.implementation().name()
    }

    fn fips(&self) -> bool {
        self.group.implementation().fips()
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        self.group.implementation().usable_for_version(version)
    }
}

/// A key exchange that is counted when it is completed.
struct CountedExchange {
    exchange: Box<dyn ActiveKeyExchange>,
    counted: CountedGroup,
}

impl ActiveKeyExchange for CountedExchange {
    fn complete(self: Box<Self>, peer_pub_key: &[u8]) -> Result<SharedSecret, Error> {
        self.counted.count(self.exchange.complete(peer_pub_key))
    }

    fn complete_for_tls_version(
        self: Box<Self>,
        peer_pub_key: &[u8],
        version: &SupportedProtocolVersion,
    ) -> Result<SharedSecret, Error> {
        self.counted.count(self.exchange.complete_for_tls_version(peer_pub_key, version))
    }

    /// Returns the X25519 share of the hybrid key exchange. A server without ML-KEM can use it in
    /// the same round trip.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        self.exchange.hybrid_component()
    }

    fn complete_hybrid_component(self: Box<Self>, peer_pub_key: &[u8]) -> Result<SharedSecret, Error> {
        // The only hybrid group of this process has X25519 as its classical part.
        let classical = CountedGroup { group: KeyExchangeGroup::X25519, ..self.counted };
        classical.count(self.exchange.complete_hybrid_component(peer_pub_key))
    }

    fn pub_key(&self) -> &[u8] {
        self.exchange.pub_key()
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        self.exchange.ffdhe_group()
    }

    fn group(&self) -> NamedGroup {
        self.exchange.group()
    }
}
