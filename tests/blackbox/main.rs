//! The real binary, started as an operator starts it: SoftHSM, sled, free ports, a real application behind the gate.

#[path = "../support/softhsm.rs"]
mod softhsm;
mod support;

mod crash;
mod flow;
mod gate;
mod openidconnect;
mod start;
