//! Header fields with fixed values, for requests to an application and for its responses.

use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};
use serde::Serialize;

use crate::disk::read_longer_secret_file;

/// Maximum length of a value in a file, in bytes.
const MAX_VALUE_BYTES: usize = 8192;

/// Keys `request_headers`, `request_header_files` and `response_headers` of an application. Each
/// list is sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FixedHeaders {
    /// Fields of every forwarded request. Clients cannot send them.
    #[serde(rename = "request_headers", serialize_with = "super::serialize::as_debug")]
    pub request: Vec<(HeaderName, HeaderValue)>,
    /// Further fields of every forwarded request. Their values are secret, and each value is in a
    /// file.
    #[serde(rename = "request_header_files", serialize_with = "super::serialize::as_debug")]
    pub request_files: Vec<(HeaderName, PathBuf)>,
    /// Fields of every response of the application. A field without a value is removed.
    #[serde(rename = "response_headers", serialize_with = "super::serialize::as_debug")]
    pub response: Vec<(HeaderName, Option<HeaderValue>)>,
}

impl FixedHeaders {
    /// Returns the names of the request fields.
    pub(super) fn request_names(&self) -> impl Iterator<Item = &HeaderName> {
        let files = self.request_files.iter().map(|(name, _)| name);
        self.request.iter().map(|(name, _)| name).chain(files)
    }
}

/// Reads the value of a request field from a file.
///
/// # Errors
/// One line with the path and what to do, without the value.
pub fn read_header_file(file: &Path) -> Result<HeaderValue, String> {
    let fault = |problem: String| format!("{} {problem}", file.display());
    let text = read_longer_secret_file(file, "the header's value", MAX_VALUE_BYTES).map_err(fault)?;
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        fault("contains a line break or control character; write the header's value in one line".into())
    })?;
    value.set_sensitive(true);
    Ok(value)
}
