//! Serialisation of values that have no JSON form, such as paths that are not UTF-8. The result is
//! used to compare configurations.

use std::fmt::Debug;

use serde::Serializer;

/// Serialises a value in its `Debug` form.
pub(super) fn as_debug<T: Debug, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:?}"))
}
