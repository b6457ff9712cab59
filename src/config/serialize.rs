//! Serialising what has no form in JSON, paths that are not UTF-8 among it: for comparing alone.

use std::fmt::Debug;

use serde::Serializer;

/// Serialises all that a value holds, as `Debug` writes it.
pub(super) fn as_debug<T: Debug, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:?}"))
}
