//! Build script that generates one method of `page::words::Words` for each message of
//! `src/pages/words/*.ftl`.
//!
//! A page with an unknown message or argument therefore does not compile, and an unused message is
//! dead code. The script reports errors in the files with the file and the message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use fluent_syntax::ast::{Entry, Expression, InlineExpression, Message, Pattern, PatternElement, Variant, VariantKey};
use fluent_syntax::parser;

const FOLDER: &str = "words";

/// Languages: the variant of `Language`, and the name of the file.
const LANGUAGES: [(&str, &str); 2] = [("English", "en"), ("Turkish", "tr")];

/// Markup that a message may contain.
const TAGS: [&str; 4] = ["<bdi>", "</bdi>", "<code>", "</code>"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={FOLDER}");
    let read = |name| fs::read_to_string(format!("{FOLDER}/{name}.ftl")).unwrap_or_default();
    match methods(&LANGUAGES.map(|(_, name)| read(name))) {
        Ok(code) => {
            let file = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("words.rs");
            if let Err(error) = fs::write(&file, code) {
                println!("cargo::error={}: {error}", file.display());
            }
        }
        Err(faults) => faults.iter().for_each(|fault| println!("cargo::error={fault}")),
    }
}

/// Message of a file. `arguments` contains for each argument whether it selects a plural form.
/// `code` is the Rust expression that formats the message.
#[derive(Default)]
struct Method {
    arguments: BTreeMap<String, bool>,
    code: String,
}

/// Returns the methods for all messages, or all errors in the files. The files are in the order of
/// [`LANGUAGES`].
pub(crate) fn methods(files: &[String; 2]) -> Result<String, Vec<String>> {
    let mut faults = Vec::new();
    let languages = [0, 1].map(|at| read(LANGUAGES[at].1, &files[at], &mut faults));
    let mut code = String::from("#[allow(clippy::all, clippy::pedantic)]\nimpl Words {\n");
    for id in languages.iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>() {
        let [Some(one), Some(other)] = languages.each_ref().map(|messages| messages.get(id)) else {
            let lacking = LANGUAGES[usize::from(languages[0].contains_key(id))].1;
            faults.push(format!("{FOLDER}/{lacking}.ftl lacks the message {id}, which the other language has"));
            continue;
        };
        if !one.arguments.keys().eq(other.arguments.keys()) {
            let [one, other] = [one, other].map(|method| method.arguments.keys().collect::<Vec<_>>());
            faults.push(format!(
                "{FOLDER}: the message {id} has the arguments {one:?} in {}.ftl and {other:?} in {}.ftl",
                LANGUAGES[0].1, LANGUAGES[1].1
            ));
        }
        let (mut parameters, mut bindings) = (String::new(), String::new());
        // The order is alphabetical and independent of the order in the files.
        for (name, chooses) in &one.arguments {
            if *chooses || other.arguments.get(name) == Some(&true) {
                let _ = write!(parameters, ", {name}: impl std::borrow::Borrow<u64>");
                let _ = writeln!(bindings, "        let {name}: u64 = *{name}.borrow();");
            } else {
                let _ = write!(parameters, ", {name}: impl Argument");
                let _ = writeln!(bindings, "        let {name} = {name}.markup();");
            }
        }
        let _ = writeln!(
            code,
            "    pub(crate) fn {}(&self{parameters}) -> Markup {{\n{bindings}        Safe(match self.language {{",
            id.replace('-', "_")
        );
        for ((language, _), method) in LANGUAGES.iter().zip([one, other]) {
            let _ = writeln!(code, "            Language::{language} => {},", method.code);
        }
        code += "        })\n    }\n";
    }
    code += "}\n";
    if faults.is_empty() { Ok(code) } else { Err(faults) }
}

/// Returns the messages of a file by their ids.
fn read(language: &str, text: &str, faults: &mut Vec<String>) -> BTreeMap<String, Method> {
    let mut messages = BTreeMap::new();
    let resource = parser::parse(text).unwrap_or_else(|(resource, errors)| {
        faults.extend(errors.iter().map(|error| {
            let line = text[..error.pos.start].lines().count().max(1);
            format!("{FOLDER}/{language}.ftl, line {line}: {error}")
        }));
        resource
    });
    for entry in resource.body {
        let mut fault = |id: &str, what: &str| faults.push(format!("{FOLDER}/{language}.ftl: the message {id} {what}"));
        match entry {
            Entry::Message(Message { id, value: Some(value), attributes, .. }) if attributes.is_empty() => {
                let mut method = Method::default();
                match expression(&value, &mut method.arguments) {
                    Ok(code) => method.code = code,
                    Err(what) => fault(id.name, what),
                }
                if messages.insert(id.name.to_owned(), method).is_some() {
                    fault(id.name, "is defined twice");
                }
            }
            Entry::Message(Message { id, .. }) => {
                fault(id.name, "has no text, or has attributes, which are not supported");
            }
            Entry::Term(term) => fault(term.id.name, "is a term, which is not supported"),
            _ => {}
        }
    }
    messages
}

/// Returns the Rust expression that formats a pattern. Adds the arguments that it uses.
fn expression(pattern: &Pattern<&str>, arguments: &mut BTreeMap<String, bool>) -> Result<String, &'static str> {
    let unknown = "uses other syntax than { $name } and a number that selects [one] or *[other]";
    if let [PatternElement::Placeable { expression: Expression::Select { selector, variants } }] = &pattern.elements[..]
    {
        let InlineExpression::VariableReference { id } = selector else { return Err(unknown) };
        let [one, other] = &variants[..] else { return Err(unknown) };
        let is = |variant: &Variant<&str>, key| matches!(variant.key, VariantKey::Identifier { name } if name == key);
        if !is(one, "one") || !is(other, "other") || !other.default {
            return Err(unknown);
        }
        // CLDR's plural rule for integers is the same in English and Turkish.
        let (one, other) = (expression(&one.value, arguments)?, expression(&other.value, arguments)?);
        arguments.insert(id.name.to_owned(), true);
        return Ok(format!("match {} {{ 1 => {one}, _ => {other} }}", id.name));
    }
    let (mut format, mut plain) = (String::new(), String::new());
    for element in &pattern.elements {
        match element {
            PatternElement::TextElement { value } => {
                plain += value;
                format += &value.replace('{', "{{").replace('}', "}}");
            }
            PatternElement::Placeable {
                expression: Expression::Inline(InlineExpression::VariableReference { id }),
            } => {
                arguments.entry(id.name.to_owned()).or_default();
                let _ = write!(format, "{{{}}}", id.name);
            }
            PatternElement::Placeable { .. } => return Err(unknown),
        }
    }
    check_markup(&plain)?;
    Ok(format!("format!({format:?})"))
}

/// Checks that a message may be inserted unescaped into a page or an attribute.
fn check_markup(text: &str) -> Result<(), &'static str> {
    if text.contains(['"', '\'', '&']) {
        return Err("contains an ASCII quote or &; write “ ” ’, and no entities");
    }
    let mut open = None;
    for (at, _) in text.match_indices(['<', '>']) {
        if text[at..].starts_with('>') {
            continue;
        }
        let tag =
            TAGS.iter().find(|tag| text[at..].starts_with(**tag)).ok_or("holds a tag other than <bdi> and <code>")?;
        match (open.take(), tag.strip_prefix("</")) {
            (None, None) => open = Some(&tag[1..]),
            (Some(opened), Some(closed)) if opened == closed => {}
            _ => return Err("does not close a tag before the next"),
        }
    }
    if open.is_some() { Err("does not close a tag") } else { Ok(()) }
}
