//! `sealgate check`.

use std::path::Path;

use serde_json::json;

use super::failure::Failure;
use super::output::Output;
use crate::ambient::{Clock, SystemClock};

pub(super) fn run(file: &Path, output: &Output) -> Result<(), Failure> {
    let config = super::load(file)?;
    let now = i64::try_from(SystemClock.now().seconds()).unwrap_or(i64::MAX);
    let warnings: Vec<_> = config.warnings.iter().chain(&config.expiring(now)).map(ToString::to_string).collect();
    output.result(&json!({ "config": file.display().to_string(), "ok": true, "warnings": warnings }), || {
        let lines = warnings.iter().map(|line| format!("warning: {line}")).chain([format!("{}: ok\n", file.display())]);
        lines.collect::<Vec<_>>().join("\n")
    })
}
