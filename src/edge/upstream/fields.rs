//! Fixed header fields of an application, with the values from files.

use http::{HeaderMap, HeaderName, HeaderValue};

use sealgate_config::{FixedHeaders, read_header_file};

/// Fields that are set in each request to an application and in each of its responses.
#[derive(Default)]
pub(crate) struct UpstreamFields {
    request: Vec<(HeaderName, HeaderValue)>,
    /// A field without a value is removed.
    response: Vec<(HeaderName, Option<HeaderValue>)>,
}

impl UpstreamFields {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file and the error.
    pub(super) fn read(fixed: &FixedHeaders) -> Result<Self, String> {
        let mut request = fixed.request.clone();
        for (name, file) in &fixed.request_files {
            request.push((name.clone(), read_header_file(file)?));
        }
        Ok(Self { request, response: fixed.response.clone() })
    }

    pub(crate) fn request_len(&self) -> usize {
        self.request.len()
    }

    pub(crate) fn set_in_request(&self, fields: &mut HeaderMap) {
        for (name, value) in &self.request {
            fields.insert(name, value.clone());
        }
    }

    /// Returns whether a field of responses has a fixed value, or is removed.
    pub(crate) fn has_in_response(&self, name: &HeaderName) -> bool {
        self.response.iter().any(|(known, _)| known == name)
    }

    pub(crate) fn set_in_response(&self, fields: &mut HeaderMap) {
        for (name, value) in &self.response {
            match value {
                Some(value) => {
                    fields.insert(name, value.clone());
                }
                None => {
                    fields.remove(name);
                }
            }
        }
    }
}
