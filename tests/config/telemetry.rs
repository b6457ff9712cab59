//! The section `[telemetry]`: the collector of traces.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sealgate_config::Config;

use super::{REQUIRED, base, fault, lines, parse, starts, warnings};

fn telemetry_fault(section: &str) -> String {
    fault(&format!("{REQUIRED}[telemetry]\n{section}"))
}

#[test]
fn the_telemetry_section_is_optional_and_needs_one_key() {
    assert_eq!(parse(REQUIRED).telemetry, None);
    let telemetry = parse(&format!("{REQUIRED}[telemetry]\notlp = \"http://127.0.0.1:4318/\"")).telemetry.unwrap();
    assert_eq!(telemetry.otlp, "http://127.0.0.1:4318/v1/traces");
    assert_eq!((telemetry.sample, telemetry.service_name.as_str()), (1_000_000, "sealgate"));
    assert_eq!(telemetry.headers_file, None);
    let more = "[telemetry]\notlp = \"https://otel.test/base\"\nsample = 0.25\nheaders_file = \"headers\"";
    let telemetry = parse(&format!("{REQUIRED}{more}")).telemetry.unwrap();
    assert_eq!((telemetry.otlp.as_str(), telemetry.sample), ("https://otel.test/base/v1/traces", 250_000));
    assert_eq!(telemetry.headers_file, Some(base().join("headers")));
}

#[test]
fn telemetry_settings_that_cannot_work_are_errors() {
    starts(&telemetry_fault(""), "telemetry.otlp: is missing; write a URL");
    for (section, start) in [
        ("otlp = \"127.0.0.1:4318\"", "telemetry.otlp: \"127.0.0.1:4318\" is not a URL"),
        ("otlp = \"grpc://otel.test\"", "telemetry.otlp: \"grpc://otel.test\" is neither http nor https"),
        ("otlp = \"https://a:b@otel.test\"", "telemetry.otlp: contains credentials"),
        ("otlp = \"https://otel.test?a=b\"", "telemetry.otlp: \"https://otel.test?a=b\" has a query"),
        (
            "otlp = \"https://otel.test/v1/traces\"",
            "telemetry.otlp: \"https://otel.test/v1/traces\" ends with /v1/traces",
        ),
        ("otlp = \"https://otel.test\"\nsample = 1.5", "telemetry.sample: "),
        (
            "otlp = \"http://otel.test\"\nheaders_file = \"h\"",
            "telemetry.headers_file: contains secrets, but otlp uses http",
        ),
    ] {
        starts(&telemetry_fault(section), start);
    }
    let warned = |url: &str| warnings(&parse(&format!("{REQUIRED}[telemetry]\notlp = \"{url}\"")));
    starts(&warned("http://otel.test")[0], "telemetry.otlp: uses http, so paths and host names are sent unencrypted");
    assert!(warned("http://127.0.0.1:4318").is_empty());
}

#[test]
fn the_headers_for_the_collector_are_read_by_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("headers");
    let fault = |content: &str, mode| {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        faults_of(&file)
    };
    let about = |text: &str| format!("telemetry.headers_file: {} {text}", file.display());
    assert_eq!(fault("Authorization: Bearer word\nX-Scope: 1\n", 0o600), None);
    starts(&fault("A: b\nBearer word", 0o600).unwrap(), &about("has an invalid line 2; write \"Name: value\""));
    starts(&fault("", 0o600).unwrap(), &about("is empty"));
    let readable = fault("A: b", 0o644).unwrap();
    starts(&readable, &about(""));
    assert!(readable.contains("chmod"), "{readable}");
}

/// Returns the fault of a checked configuration about its headers file.
fn faults_of(headers: &Path) -> Option<String> {
    let section = format!("[telemetry]\notlp = \"https://otel.test\"\nheaders_file = \"{}\"\n", headers.display());
    let path = headers.with_file_name("sealgate.toml");
    fs::write(&path, format!("{REQUIRED}{section}")).unwrap();
    let faults = lines(&Config::load(&path).err().unwrap_or_default());
    faults.into_iter().find(|fault| fault.starts_with("telemetry."))
}
