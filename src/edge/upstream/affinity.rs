//! Choice of the same server for all requests of a user, a client or a browser.
//!
//! Rendezvous hashing: each user has a number, and each server has a score for each number. The
//! server with the highest score is the user's server, at every node that knows the same addresses. A
//! new server only takes the users for which it has the highest score. If a server is out, each of
//! its users goes to the server with the second highest score.

use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::server::UpstreamServer;
use super::source::Address;
use crate::listen::quota::address_group;
use sealgate_system::clock::{OsEntropy, random};

/// Number of attempts to find a number for a server, for each server of the list. All attempts fail
/// with a probability of less than 10⁻²⁷.
const ATTEMPTS: u64 = 64;

/// Returns the number of a server.
pub(super) fn server_number(address: &Address) -> u64 {
    number_of(&address.to_string())
}

/// Returns the number of a client without a user.
pub(crate) fn client_number(address: IpAddr) -> u64 {
    number_of(&address_group(address).to_string())
}

fn number_of(text: &str) -> u64 {
    Sha256::digest(text).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the index of the server with the highest score for `number`.
pub(super) fn best<'s>(number: u64, servers: impl Iterator<Item = (usize, &'s Arc<UpstreamServer>)>) -> Option<usize> {
    servers.max_by_key(|(_, server)| mixed(number ^ server.number)).map(|(index, _)| index)
}

/// Returns a random number for which this server has the highest score. It does not reveal the
/// server's address.
pub(super) fn number_for(server: &UpstreamServer, servers: &[Arc<UpstreamServer>]) -> Option<u64> {
    let start = u64::from_ne_bytes(random(&OsEntropy));
    let attempts = ATTEMPTS.saturating_mul(servers.len() as u64);
    let mut numbers = (0..attempts).map(|attempt| mixed(start.wrapping_add(attempt)));
    numbers.find(|number| is_best(*number, server, servers))
}

/// Returns whether this server has the highest score for `number`.
pub(super) fn is_best(number: u64, server: &UpstreamServer, servers: &[Arc<UpstreamServer>]) -> bool {
    let best = best(number, servers.iter().enumerate()).and_then(|index| servers.get(index));
    best.is_some_and(|best| best.address == server.address)
}

/// Distributes numbers evenly. All nodes and versions must agree on the result (the finalizer of
/// `SplitMix64`).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
