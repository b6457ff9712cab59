//! The real program on tokens that fail: what clients see over HTTP, and that nothing is used up by a failed signature.

mod answers;
mod outage;
mod remote;
mod tpm;
mod world;
