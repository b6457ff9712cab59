//! The pages: their words in both languages, their markup, and that what people type stays text.
//! Every page in every state is left in `target/pages` to be looked at.

mod account;
#[path = "../../src/pages/build.rs"]
#[allow(dead_code, clippy::print_stdout, reason = "what cargo runs of it, the test does not")]
mod build_script;
mod console;
mod factor;
mod look;
mod markup;
mod sample;
mod sign_in;
mod structure;
mod words;
