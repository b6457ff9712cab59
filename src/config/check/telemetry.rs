//! Checks of `[telemetry]`.

use url::Url;

use super::address;
use crate::disk::Files;
use crate::file::Section;
use crate::{TelemetryConfig, is_loopback_host};

/// Value of `sample` for all traces, in millionths.
const ALL: f64 = 1e6;

pub(super) fn telemetry(mut section: Section<'_, '_>, files: &Files) -> Option<TelemetryConfig> {
    let otlp = section.required_text("otlp", "write a URL such as \"http://127.0.0.1:4318\"", collector);
    let sample = section.ratio("sample", 1.0);
    let service_name = section.text("service_name", "write the name of the service in traces", address::name);
    let headers_file = section
        .text("headers_file", "write the path of a file with \"Name: value\" lines", |text| files.export_headers(text));
    let is_remote = |url: &Url| url.scheme() == "http" && !is_loopback_host(url.host_str().unwrap_or_default());
    if otlp.as_ref().is_some_and(is_remote) {
        let problem =
            "uses http, so paths and host names are sent unencrypted; write https, or a collector on this machine";
        section.warn("otlp", problem);
        if section.has("headers_file") {
            section.fault("headers_file", "contains secrets, but otlp uses http; write https in otlp");
        }
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
    let sample = (sample * ALL).round() as u32;
    let url = otlp?;
    Some(TelemetryConfig {
        // OTLP/HTTP §"Endpoint URLs": the path is relative to the configured URL.
        otlp: format!("{}/v1/traces", url.as_str().trim_end_matches('/')),
        sample,
        service_name: service_name.unwrap_or_else(|| "sealgate".to_owned()),
        headers_file,
    })
}

/// Parses the base URL of a collector.
fn collector(text: &str) -> Result<Url, String> {
    let hint = "write a URL such as \"http://127.0.0.1:4318\"";
    address::name(text)?;
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL ({error}); {hint}"))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(format!("{text:?} is neither http nor https; {hint}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("contains credentials; {hint}, and the credentials in headers_file"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("{text:?} has a query or a fragment; {hint}"));
    }
    if url.path().trim_end_matches('/').ends_with("/v1/traces") {
        return Err(format!("{text:?} ends with /v1/traces, which is appended; {hint}"));
    }
    Ok(url)
}
