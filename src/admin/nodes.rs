//! Admission of a new node to a cluster.
//!
//! The command runs on a member, with the fingerprints that the new node has printed.

use super::answer::Answer;
use super::command::NodeCommand;
use super::context::{CommandContext, CommandError};
use super::keys::answer;
use sealgate_domain::admission::{DataKeyEnvelope, NodeRequest};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::key_ring::{KeyFault, KeyRing, KeyState, PublicJwk, statement};
use sealgate_domain::secret::{base64url, from_base64url};
use sealgate_domain::time::UnixTime;

pub(super) async fn execute(context: &CommandContext<'_>, command: NodeCommand) -> Result<Answer, CommandError> {
    let NodeCommand::Admit { node, key, enrolment } = command;
    let request = context.store.node_request(&node).await?.filter(|request| request.node == node);
    let absent = || {
        CommandError::Absent(format!("the node {node} has made no request; run `sealgate node request` on that node"))
    };
    let request = request.ok_or_else(absent)?;
    for (what, expected, actual) in [("key", &key, &request.key), ("enrolment key", &enrolment, &request.enrolment)] {
        let actual = actual.thumbprint().unwrap_or_default();
        if actual != *expected {
            return Err(CommandError::invalid(format!(
                "the request of the node {node} in the database has the {what} {actual}, not {expected}. The \
                 request was repeated, or an attacker changed it. Compare both values with the output of \
                 `sealgate node request` on that node"
            )));
        }
    }
    // Only the node itself may decide which key it trusts. Otherwise an attacker who can write to
    // the database could make the node trust the attacker's key.
    let signed = request.statement(context.issuer);
    if !signed.is_some_and(|signed| context.keys.has_signed(&request.key, &signed, &request.signature)) {
        return Err(CommandError::invalid(format!(
            "the request of the node {node} in the database is not the one that the node signed: an attacker \
             may have changed the request. Repeat the request, and find out which programs can write to the database"
        )));
    }
    let now = context.clock.now();
    let admission = Admission { context, request: &request, now };
    let ring = admission.ring(context.store.key_ring().await?)?;
    let trusted_key = admission.trusted_key(&ring)?;
    let life = ring.find(&key).ok_or_else(|| CommandError::invalid("the key is not in the key ring"))?;
    let endorsement =
        statement(life, context.issuer).ok_or_else(|| CommandError::invalid("the key cannot be endorsed"))?;
    let endorsement = admission.sign(endorsement).await?;
    // Send the data key before the key ring changes. Until the ring has an entry of the node, the
    // node does not start and keeps its request, so the command can be repeated.
    admission.send_data_key(trusted_key).await?;
    let trusted = ring.find(&request.trusted).and_then(|life| statement(life, context.issuer));
    if !trusted.is_some_and(|signed| context.keys.has_signed(&request.key, &signed, &request.endorsement.signature)) {
        return Err(CommandError::invalid(format!(
            "the node {node} has not endorsed the key {} in its current form; repeat its request",
            request.trusted
        )));
    }
    let by_node = from_base64url(&request.endorsement.signature).unwrap_or_default();
    let changed = context.store.change_key_ring(|ring| {
        *ring = admission.admitted(ring.clone())?;
        ring.endorse(&key, &request.trusted, &endorsement, now);
        ring.endorse(&request.trusted, &key, &by_node, now);
        Ok(())
    });
    let ring = changed.await?.map_err(|fault| CommandError::invalid(fault.to_string()))?;
    context.keys.set_key_ring(ring.clone());
    context.record(context.event(AuditKind::KeysChanged).with_detail(format!("admit {key} of the node {node}"))).await;
    answer(&ring, now, context).await
}

/// Admission of a node that has made a request.
struct Admission<'a> {
    context: &'a CommandContext<'a>,
    request: &'a NodeRequest,
    now: UnixTime,
}

impl Admission<'_> {
    /// Returns the key ring with the node's key.
    ///
    /// The ring may already contain the key: a member that has lost its copy of the data key is
    /// admitted again, to receive the data key.
    fn admitted(&self, mut ring: KeyRing) -> Result<KeyRing, KeyFault> {
        let NodeRequest { node, key, .. } = self.request;
        let kid = key.thumbprint().unwrap_or_default();
        let is_in = ring
            .find(&kid)
            .is_some_and(|life| life.holder.as_ref() == Some(node) && ring.state(life, self.now) != KeyState::Removed);
        if !is_in {
            ring.admit(node, key.clone(), self.now, self.context.key_times)?;
        }
        Ok(ring)
    }

    fn ring(&self, ring: KeyRing) -> Result<KeyRing, CommandError> {
        self.admitted(ring).map_err(|fault| CommandError::invalid(fault.to_string()))
    }

    /// Returns the key that the node trusts. Fails if the key ring does not contain it.
    fn trusted_key(&self, ring: &KeyRing) -> Result<PublicJwk, CommandError> {
        let NodeRequest { node, trusted, .. } = self.request;
        let life = ring.find(trusted).filter(|life| ring.state(life, self.now) != KeyState::Removed);
        life.and_then(|life| life.jwk.clone()).ok_or_else(|| {
            CommandError::invalid(format!(
                "the request of the node {node} trusts the key {trusted}, which the cluster does not have; \
                 repeat the request with --trust and this node's key (sealgate key list)"
            ))
        })
    }

    async fn sign(&self, message: Vec<u8>) -> Result<Vec<u8>, CommandError> {
        let NodeRequest { node, trusted, .. } = self.request;
        let signed = self.context.keys.sign(trusted, message).await.map_err(CommandError::invalid)?;
        signed.ok_or_else(|| {
            CommandError::invalid(format!(
                "the request of the node {node} trusts the key {trusted}; run this command on the node that \
                 has this key, while it serves"
            ))
        })
    }

    /// Sends the encrypted data key to the node, if the cluster has a data key.
    async fn send_data_key(&self, by: PublicJwk) -> Result<(), CommandError> {
        let (CommandContext { store, issuer, .. }, request) = (self.context, self.request);
        let encrypted = store.encrypt_data_key(&request.enrolment, request.hash);
        let encrypted = encrypted.map_err(|error| CommandError::invalid(error.to_string()))?;
        let Some((data_key_id, ciphertext)) = encrypted else {
            if store.cluster_data_key().await?.is_none() {
                return Ok(());
            }
            return Err(CommandError::invalid(
                "this node cannot decrypt the cluster's data key, so it cannot send the key to the new node; \
                 repeat the request with --trust and the key of a node that can decrypt it",
            ));
        };
        let mut envelope = DataKeyEnvelope {
            node: request.node.clone(),
            enrolment: request.enrolment.thumbprint().unwrap_or_default(),
            data_key_id,
            ciphertext: base64url(&ciphertext),
            by,
            signature: String::new(),
        };
        let statement = envelope.statement(issuer).ok_or_else(|| CommandError::invalid("the request is invalid"))?;
        envelope.signature = base64url(&self.sign(statement).await?);
        if store.send_data_key(request, &envelope).await? {
            return Ok(());
        }
        Err(CommandError::invalid("the node has repeated its request; compare the fingerprints again"))
    }
}
