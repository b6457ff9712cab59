//! `sealgate check`.

use std::path::Path;

use serde_json::json;

use super::failure::Failure;
use super::output::Output;

pub(super) fn run(file: &Path, output: &Output) -> Result<(), Failure> {
    super::load(file)?;
    output.result(&json!({ "config": file.display().to_string(), "ok": true }), || format!("{}: ok\n", file.display()))
}
