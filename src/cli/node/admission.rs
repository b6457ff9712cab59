//! Admits a node with its own token to a cluster.
//!
//! Run `sealgate node request` on the new node, and `sealgate node admit` with its output on a
//! member.

use serde_json::json;

use crate::cli::access::StoreAccess;
use crate::cli::failure::CommandFailure;
use crate::cli::output::Output;
use sealgate_admin::command::{Command, NodeCommand};
use sealgate_domain::admission::NodeRequest;
use sealgate_domain::key_ring::{Endorsement, KeyRing, KeyState, statement};
use sealgate_domain::secret::base64url;
use sealgate_signer as signer;
use sealgate_signer::EnrolmentKeys;
use sealgate_system::clock::{Clock, OsEntropy, SystemClock, random};

/// Requests admission. `trust` is the signing key of the admitting node, which the operator has
/// read there.
pub(super) fn request(trust: &str, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let config = access.config();
    let Some(holder) = config.token_holder() else {
        return Err(CommandFailure::line(
            "hsm.shared is true: all nodes use the same keys, so a new node needs no admission; start it",
        ));
    };
    if access.is_served() {
        return Err(CommandFailure::line("the server of this node is running; stop it, then make the request"));
    }
    let id: [u8; 16] = random(&OsEntropy);
    let EnrolmentKeys { signing, enrolment, hash } =
        signer::enrolment_keys(&config.hsm, &id).map_err(CommandFailure::line)?;
    let no_key = || CommandFailure::line("the token reports an invalid key");
    let (key, enrolment_key) = (signing.thumbprint().ok_or_else(no_key)?, enrolment.thumbprint().ok_or_else(no_key)?);
    let store = access.block_on(access.open_store())?;
    let ring = access.block_on(store.key_ring()).map_err(CommandFailure::line)?;
    let life = ring.find(trust).filter(|life| ring.state(life, SystemClock.now()) != KeyState::Removed);
    let about_trusted = life.and_then(|life| statement(life, &holder.issuer));
    let about_trusted = about_trusted.ok_or_else(|| unknown(trust, &ring))?;
    let mut request = NodeRequest {
        node: holder.node.clone(),
        key: signing,
        enrolment,
        hash,
        trusted: trust.to_owned(),
        endorsement: Endorsement { by: key.clone(), signature: String::new() },
        signature: String::new(),
    };
    let asked = request.statement(&holder.issuer).ok_or_else(no_key)?;
    let signatures = signer::sign_apart(&config.hsm, &key, &[about_trusted, asked]).map_err(CommandFailure::line)?;
    if let [endorsement, own] = &signatures[..] {
        (request.endorsement.signature, request.signature) = (base64url(endorsement), base64url(own));
    }
    access.block_on(store.keep_node_request(&request)).map_err(CommandFailure::line)?;
    let node = &holder.node;
    let found = json!({ "node": node, "key": key, "enrolment": enrolment_key, "trusted": trust });
    output.result(&found, || {
        format!(
            "key:       {key}\nenrolment: {enrolment_key}\nOn the node that has the key {trust}, while it serves:\n  \
             sealgate node admit {node} --key={key} --enrolment={enrolment_key}\n"
        )
    })
}

fn unknown(trust: &str, ring: &KeyRing) -> CommandFailure {
    let now = SystemClock.now();
    let known = ring.keys().iter().filter(|life| ring.state(life, now) != KeyState::Removed);
    let known = known.filter_map(|life| Some(format!("{} ({})", life.kid, life.holder.as_deref()?)));
    let known = known.collect::<Vec<_>>().join(", ");
    let known = if known.is_empty() { "none; the first node needs no admission".to_owned() } else { known };
    CommandFailure::line(format_args!(
        "the cluster has no key {trust}. Run `sealgate key list` on the node that will admit this one, and \
         use that key. Do not rely on the database, which has {known}"
    ))
}

/// Makes the server of this node admit another one.
pub(super) fn admit(node: &str, key: &str, enrolment: &str, access: &StoreAccess) -> Result<(), CommandFailure> {
    let (node, key, enrolment) = (node.to_owned(), key.to_owned(), enrolment.to_owned());
    access.ask_server(&Command::Node(NodeCommand::Admit { node, key, enrolment })).map(drop)
}
