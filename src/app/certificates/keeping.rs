//! Storage of certificate orders: files, or the store of a cluster. The nodes of a cluster copy the
//! certificates to their own files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use sealgate_acme::{AcmeAuthority, AcmeFault, AcmeFiles, AcmeState, PendingChallenge, challenge_certificate};
use sealgate_core::state::Sealgate;
use sealgate_edge::{ChallengeAnswer, Challenges};
use sealgate_store::{CertificatePart, Fence};
use sealgate_system::clock::random;

use crate::app::duty::{CHECK_INTERVAL, LeasedTask};

/// Time within which every node has read a new challenge. Nodes read several times in that time.
const CHALLENGE_PROPAGATION: Duration = Duration::from_secs(4);

/// State of certificate orders that the nodes of a cluster share.
#[derive(Default, Clone, Serialize, Deserialize)]
struct SharedOrders {
    state: AcmeState,
    /// SHA-256 of each host's certificate file.
    digests: BTreeMap<String, Vec<u8>>,
    /// Challenge that every node must answer.
    challenge: Option<PendingChallenge>,
}

/// Storage of the orders and the certificates.
pub(super) struct Keeping {
    sealgate: Arc<Sealgate>,
    challenges: Arc<Challenges>,
    files: AcmeFiles,
    /// State of a cluster. `None` for a process without a cluster.
    shared: Option<Shared>,
}

struct Shared {
    duty: Arc<Mutex<LeasedTask>>,
    orders: SharedOrders,
    /// Digests of the files that this process has written.
    written: BTreeMap<String, Vec<u8>>,
}

impl Keeping {
    pub(super) fn new(
        sealgate: &Arc<Sealgate>,
        challenges: &Arc<Challenges>,
        files: AcmeFiles,
        duty: Option<Arc<Mutex<LeasedTask>>>,
    ) -> Self {
        let shared = duty.map(|duty| Shared { duty, orders: SharedOrders::default(), written: BTreeMap::new() });
        Self { sealgate: Arc::clone(sealgate), challenges: Arc::clone(challenges), files, shared }
    }

    /// Reads the cluster's orders, writes the cluster's new certificates to this node's files, and
    /// answers the cluster's challenge.
    ///
    /// A process without a cluster reads nothing.
    pub(super) async fn follow(&mut self, authority: &AcmeAuthority) -> Result<Followed, AcmeFault> {
        let Some(shared) = &mut self.shared else { return Ok(Followed::Alone) };
        let read = self.sealgate.store.certificate_part(CertificatePart::Orders).await.map_err(AcmeFault::local)?;
        let orders: SharedOrders = match read {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(AcmeFault::local)?,
            None => SharedOrders::default(),
        };
        if orders.challenge != shared.orders.challenge {
            present(&self.challenges, orders.challenge.as_ref())?;
        }
        shared.orders = orders;
        let mut changed = Vec::new();
        for host in &authority.config().hosts {
            let Some(digest) = shared.orders.digests.get(host) else { continue };
            if shared.written.get(host) == Some(digest) {
                continue;
            }
            let part = self.sealgate.store.certificate_part(CertificatePart::Host(host)).await;
            let Some(pem) = part.map_err(AcmeFault::local)? else { continue };
            // The certificate was replaced after its digest was read. The next call reads the new
            // digest and the new certificate.
            if Sha256::digest(&pem).as_slice() != digest.as_slice() {
                continue;
            }
            let pem = Zeroizing::new(std::str::from_utf8(&pem).map_err(AcmeFault::local)?.to_owned());
            let (files, config, name) = (self.files.clone(), authority.config().clone(), host.clone());
            super::blocking(move || files.replace(&config, &name, &pem)).await?;
            shared.written.insert(host.clone(), digest.clone());
            changed.push(host.clone());
        }
        let orders = shared.duty.lock().await.hold().await.is_some();
        Ok(Followed::Shared { state: shared.orders.state.clone(), changed, orders })
    }

    /// Renews the lease periodically during an order. Never completes.
    pub(super) fn renewing(&self) -> impl Future<Output = ()> + use<> {
        let duty = self.shared.as_ref().map(|shared| Arc::clone(&shared.duty));
        async move {
            let Some(duty) = duty else { return std::future::pending().await };
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                duty.lock().await.hold().await;
            }
        }
    }

    pub(super) async fn save(&mut self, state: &AcmeState) -> Result<(), AcmeFault> {
        match &mut self.shared {
            None => {
                let (files, state) = (self.files.clone(), state.clone());
                super::blocking(move || files.save(&state)).await
            }
            Some(shared) => {
                shared.orders.state = state.clone();
                shared.publish(&self.sealgate).await
            }
        }
    }

    /// Replaces a host's certificate on all nodes.
    pub(super) async fn replace(
        &mut self,
        authority: &Arc<AcmeAuthority>,
        host: &str,
        pem: Zeroizing<String>,
    ) -> Result<(), AcmeFault> {
        if let Some(shared) = &mut self.shared {
            let digest = Sha256::digest(pem.as_bytes()).to_vec();
            shared.write(&self.sealgate, CertificatePart::Host(host), pem.as_bytes()).await?;
            shared.orders.digests.insert(host.to_owned(), digest.clone());
            shared.publish(&self.sealgate).await?;
            shared.written.insert(host.to_owned(), digest);
        }
        let (files, authority, host) = (self.files.clone(), Arc::clone(authority), host.to_owned());
        super::blocking(move || files.replace(authority.config(), &host, &pem)).await
    }

    /// Answers only this challenge, on all nodes. `None` answers no challenge.
    pub(super) async fn present(&mut self, pending: Option<PendingChallenge>) -> Result<(), AcmeFault> {
        present(&self.challenges, pending.as_ref())?;
        let Some(shared) = &mut self.shared else { return Ok(()) };
        if shared.orders.challenge == pending {
            return Ok(());
        }
        let is_new = pending.is_some();
        shared.orders.challenge = pending;
        shared.publish(&self.sealgate).await?;
        if is_new {
            tokio::time::sleep(CHALLENGE_PROPAGATION).await;
        }
        Ok(())
    }
}

impl Shared {
    async fn publish(&self, sealgate: &Sealgate) -> Result<(), AcmeFault> {
        let bytes = serde_json::to_vec(&self.orders).map(Zeroizing::new).map_err(AcmeFault::local)?;
        self.write(sealgate, CertificatePart::Orders, &bytes).await
    }

    async fn write(&self, sealgate: &Sealgate, part: CertificatePart<'_>, bytes: &[u8]) -> Result<(), AcmeFault> {
        let fence: Option<Fence> = self.duty.lock().await.hold().await;
        let fence = fence.ok_or_else(|| AcmeFault::local("another node orders certificates now"))?;
        let nonce = random(sealgate.entropy.as_ref());
        sealgate.store.replace_certificate_part(&fence, part, nonce, bytes).await.map_err(AcmeFault::local)
    }
}

/// Result of [`Keeping::follow`].
pub(super) enum Followed {
    /// There is no cluster: this process has the only state.
    Alone,
    Shared {
        state: AcmeState,
        /// Hosts whose files this node has replaced.
        changed: Vec<String>,
        /// Whether this node orders for all nodes.
        orders: bool,
    },
}

fn present(challenges: &Challenges, pending: Option<&PendingChallenge>) -> Result<(), AcmeFault> {
    let Some(pending) = pending else {
        challenges.set(Vec::new());
        return Ok(());
    };
    let (certificate, key) = challenge_certificate(pending)?;
    let (token, key_authorization) = (pending.token.clone(), pending.key_authorization.clone());
    let answer = ChallengeAnswer::new(pending.server_name(), certificate, key, token, key_authorization);
    challenges.set(vec![answer.map_err(AcmeFault::local)?]);
    Ok(())
}
