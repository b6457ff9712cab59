//! The pages: their words in both languages, their markup, and that what people type stays text.
//! Every page in every state is left in `target/pages` to be looked at.

mod account;
mod console;
mod look;
mod markup;
mod sample;
mod sign_in;
mod structure;
mod words;
