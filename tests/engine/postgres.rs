//! What only the engine over PostgreSQL has.
