//! The sled engine: one writer thread, one batch and one flush a drained queue.
