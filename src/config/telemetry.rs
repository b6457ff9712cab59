//! `[telemetry]`: export of traces.

use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;

use crate::disk::read_longer_secret_file;

/// Maximum length of the file with header fields, in bytes.
const MAX_HEADERS_BYTES: usize = 16 * 1024;

/// `[telemetry]`: the collector of traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TelemetryConfig {
    /// URL to which traces are posted (OTLP over HTTP).
    pub otlp: String,
    /// Proportion of new traces to record, in millionths.
    pub sample: u32,
    pub service_name: String,
    /// File with additional header fields of each export, such as `Authorization`.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub headers_file: Option<PathBuf>,
}

/// Reads [`TelemetryConfig::headers_file`]. Each line has one `Name: value`.
///
/// # Errors
/// One line with the path and what to do, without the contents.
pub fn read_export_headers(file: &Path) -> Result<HeaderMap, String> {
    let fault = |problem: String| format!("{} {problem}", file.display());
    let text = read_longer_secret_file(file, "the headers for the collector", MAX_HEADERS_BYTES).map_err(fault)?;
    Ok(parse_export_headers(&text).map_err(fault)?.into_iter().collect())
}

/// Parses header fields.
///
/// # Errors
/// The number of the first invalid line. The error does not contain the line, because the line may
/// contain a secret.
fn parse_export_headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = |(index, line): (usize, &str)| {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
        });
        parsed.ok_or_else(|| {
            format!("has an invalid line {}; write \"Name: value\", such as \"Authorization: Bearer …\"", index + 1)
        })
    };
    lines.map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_line_by_line_and_errors_show_no_value() {
        let headers = parse_export_headers("Authorization: Bearer a:b\n\nX-Scope-OrgID:  7 \n").unwrap();
        let texts: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(texts, [("authorization", "Bearer a:b"), ("x-scope-orgid", "7")]);
        for text in ["Bearer secret", "a b: secret", "a: se\u{1}cret"] {
            let fault = parse_export_headers(&format!("A: b\n{text}")).unwrap_err();
            assert!(fault.contains("line 2;") && !fault.contains("cret"), "{fault}");
        }
    }
}
