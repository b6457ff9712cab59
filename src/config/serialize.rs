//! Serialises values without a JSON form, such as non-UTF-8 paths, so that they can be compared.

use std::fmt::Debug;

use serde::Serializer;

/// Serialises a value in its `Debug` form.
pub(super) fn as_debug<T: Debug, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:?}"))
}
