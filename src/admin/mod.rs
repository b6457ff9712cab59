//! admin/mod.
