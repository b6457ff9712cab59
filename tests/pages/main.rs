//! Pages: their texts in both languages, their markup, and the escaping of user input. Writes every
//! page in every state to `target/pages` for inspection.

mod account;
#[path = "../../src/pages/build.rs"]
#[allow(dead_code, clippy::print_stdout, reason = "what cargo runs of it, the test does not")]
mod build_script;
mod console;
mod console_operation;
mod factor;
mod look;
mod markup;
mod sample;
mod sign_in;
mod structure;
mod words;
