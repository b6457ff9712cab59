//! Storage of the state of ACME orders and of the certificates that they return.
//!
//! A single process uses files. In a cluster, the store contains the state of the orders, the
//! certificates and the challenge to answer. One node, which holds a lease, writes to the store.
//! Every node copies the certificates to its own files, which its listeners read.

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

use crate::app::task_lease::{CHECK_INTERVAL, TaskLease};

/// Time within which every node has read a new challenge. Nodes read several times in that time.
const CHALLENGE_PROPAGATION: Duration = Duration::from_secs(4);

/// State of the ACME orders that the nodes of a cluster share, as stored.
#[derive(Default, Clone, Serialize, Deserialize)]
struct SharedOrders {
    state: AcmeState,
    /// SHA-256 of each host's certificate file.
    digests: BTreeMap<String, Vec<u8>>,
    /// Challenge that every node must answer.
    challenge: Option<PendingChallenge>,
}

/// Storage of the state of orders and of certificates.
pub(super) struct CertificateStorage {
    sealgate: Arc<Sealgate>,
    challenges: Arc<Challenges>,
    files: AcmeFiles,
    /// `None` for a process without a cluster.
    cluster: Option<ClusterState>,
}

/// Part of the storage that exists only in a cluster.
struct ClusterState {
    /// Lease of the node that orders certificates for the cluster.
    lease: Arc<Mutex<TaskLease>>,
    /// Copy of the stored orders.
    orders: SharedOrders,
    /// Digests of the files that this process has written.
    written: BTreeMap<String, Vec<u8>>,
}

impl CertificateStorage {
    pub(super) fn new(
        sealgate: &Arc<Sealgate>,
        challenges: &Arc<Challenges>,
        files: AcmeFiles,
        lease: Option<Arc<Mutex<TaskLease>>>,
    ) -> Self {
        let cluster =
            lease.map(|lease| ClusterState { lease, orders: SharedOrders::default(), written: BTreeMap::new() });
        Self { sealgate: Arc::clone(sealgate), challenges: Arc::clone(challenges), files, cluster }
    }

    /// Reads the cluster's orders, writes the cluster's new certificates to this node's files, and
    /// answers the cluster's challenge.
    ///
    /// A process without a cluster reads nothing.
    pub(super) async fn sync_from_cluster(&mut self, authority: &AcmeAuthority) -> Result<SyncResult, AcmeFault> {
        let Some(cluster) = &mut self.cluster else { return Ok(SyncResult::NoCluster) };
        let stored = self.sealgate.store.certificate_part(CertificatePart::Orders).await.map_err(AcmeFault::local)?;
        let orders: SharedOrders = match stored {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(AcmeFault::local)?,
            None => SharedOrders::default(),
        };
        if orders.challenge != cluster.orders.challenge {
            set_answer(&self.challenges, orders.challenge.as_ref())?;
        }
        cluster.orders = orders;
        let mut changed = Vec::new();
        for host in &authority.config().hosts {
            let Some(digest) = cluster.orders.digests.get(host) else { continue };
            if cluster.written.get(host) == Some(digest) {
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
            cluster.written.insert(host.clone(), digest.clone());
            changed.push(host.clone());
        }
        let holds_lease = cluster.lease.lock().await.acquire_or_renew().await.is_some();
        Ok(SyncResult::Cluster { state: cluster.orders.state.clone(), changed, holds_lease })
    }

    /// Renews the lease periodically, so that this node keeps it during an order. Never completes.
    pub(super) fn keep_lease(&self) -> impl Future<Output = ()> + use<> {
        let lease = self.cluster.as_ref().map(|cluster| Arc::clone(&cluster.lease));
        async move {
            let Some(lease) = lease else { return std::future::pending().await };
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                lease.lock().await.acquire_or_renew().await;
            }
        }
    }

    pub(super) async fn save(&mut self, state: &AcmeState) -> Result<(), AcmeFault> {
        match &mut self.cluster {
            None => {
                let (files, state) = (self.files.clone(), state.clone());
                super::blocking(move || files.save(&state)).await
            }
            Some(cluster) => {
                cluster.orders.state = state.clone();
                cluster.publish_orders(&self.sealgate).await
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
        if let Some(cluster) = &mut self.cluster {
            let digest = Sha256::digest(pem.as_bytes()).to_vec();
            cluster.write(&self.sealgate, CertificatePart::Host(host), pem.as_bytes()).await?;
            cluster.orders.digests.insert(host.to_owned(), digest.clone());
            cluster.publish_orders(&self.sealgate).await?;
            cluster.written.insert(host.to_owned(), digest);
        }
        let (files, authority, host) = (self.files.clone(), Arc::clone(authority), host.to_owned());
        super::blocking(move || files.replace(authority.config(), &host, &pem)).await
    }

    /// Answers only this challenge, on all nodes. `None` answers no challenge.
    pub(super) async fn answer_challenge(&mut self, pending: Option<PendingChallenge>) -> Result<(), AcmeFault> {
        set_answer(&self.challenges, pending.as_ref())?;
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        if cluster.orders.challenge == pending {
            return Ok(());
        }
        let is_new = pending.is_some();
        cluster.orders.challenge = pending;
        cluster.publish_orders(&self.sealgate).await?;
        if is_new {
            tokio::time::sleep(CHALLENGE_PROPAGATION).await;
        }
        Ok(())
    }
}

impl ClusterState {
    /// Writes the state of the orders to the store.
    async fn publish_orders(&self, sealgate: &Sealgate) -> Result<(), AcmeFault> {
        let bytes = serde_json::to_vec(&self.orders).map(Zeroizing::new).map_err(AcmeFault::local)?;
        self.write(sealgate, CertificatePart::Orders, &bytes).await
    }

    /// Writes to the store under the lease.
    async fn write(&self, sealgate: &Sealgate, part: CertificatePart<'_>, bytes: &[u8]) -> Result<(), AcmeFault> {
        let fence: Option<Fence> = self.lease.lock().await.acquire_or_renew().await;
        let fence = fence.ok_or_else(|| AcmeFault::local("another node orders certificates now"))?;
        let nonce = random(sealgate.entropy.as_ref());
        sealgate.store.replace_certificate_part(&fence, part, nonce, bytes).await.map_err(AcmeFault::local)
    }
}

/// Result of [`CertificateStorage::sync_from_cluster`].
pub(super) enum SyncResult {
    /// There is no cluster: this process has the only state.
    NoCluster,
    Cluster {
        state: AcmeState,
        /// Hosts whose files this node has replaced.
        changed: Vec<String>,
        /// Whether this node holds the lease, so that it orders for all nodes.
        holds_lease: bool,
    },
}

/// Answers only this challenge in this process.
fn set_answer(challenges: &Challenges, pending: Option<&PendingChallenge>) -> Result<(), AcmeFault> {
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
