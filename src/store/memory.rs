//! The engine that forgets: for tests.
