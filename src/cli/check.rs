//! `sealgate check`.

use std::path::Path;

use serde_json::json;

use super::failure::Failure;
use super::output::Output;

pub(super) fn run(file: &Path, output: &Output) -> Result<(), Failure> {
    let warnings: Vec<_> = super::load(file)?.warnings.iter().map(ToString::to_string).collect();
    output.result(&json!({ "config": file.display().to_string(), "ok": true, "warnings": warnings }), || {
        let lines = warnings.iter().map(|line| format!("warning: {line}")).chain([format!("{}: ok\n", file.display())]);
        lines.collect::<Vec<_>>().join("\n")
    })
}
