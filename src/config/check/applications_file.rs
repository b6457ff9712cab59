//! `console.applications_file`: a file with `[[app]]` sections, which the console writes.
//!
//! The sections count as if they stood at the end of the configuration file. The file can contain
//! nothing else, so that the console cannot change other settings.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, TomlError};

use crate::ConfigFault;
use crate::disk::Files;
use crate::file::{ConfigReader, Section};

/// Maximum size of the file, in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// Key with the path of the file.
const KEY: &str = "console.applications_file";

/// Text of a configuration file, followed by its file of applications.
pub(super) struct JoinedText {
    pub(super) text: String,
    /// Path of the file of applications, and the number of lines before its first line.
    file: Option<(PathBuf, usize)>,
}

/// Appends the file of applications to the text of a configuration file. `edited` replaces the
/// content of the file of applications.
///
/// # Errors
/// If the file cannot be read, or contains anything but `[[app]]` sections. A file that does not
/// exist counts as empty.
pub(super) fn join(text: &str, files: &Files, edited: Option<&str>) -> Result<JoinedText, Vec<ConfigFault>> {
    let Some(path) = path_in(text, files) else { return Ok(JoinedText { text: text.to_owned(), file: None }) };
    let fault = |problem: String| vec![ConfigFault::new(KEY.to_owned(), None, problem)];
    let applications = match edited {
        Some(edited) => edited.to_owned(),
        None => read(&path).map_err(|problem| fault(format!("{} {problem}", path.display())))?,
    };
    only_apps(&applications).map_err(|problem| fault(format!("{} {problem}", path.display())))?;
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let lines = text.lines().count();
    Ok(JoinedText { text: format!("{text}{separator}{applications}"), file: Some((path, lines)) })
}

/// Returns the path of the file of applications that the text names. Ignores errors in the text.
fn path_in(text: &str, files: &Files) -> Option<PathBuf> {
    let reading = ConfigReader::new(text);
    let mut root = reading.recovered();
    path(&mut root.section("console"), files)
}

/// Reads the key with the path of the file.
pub(super) fn path(console: &mut Section<'_, '_>, files: &Files) -> Option<PathBuf> {
    console.text("applications_file", "write the path of a file that the server can write", |text| files.path(text))
}

/// Reads the file. Returns an empty text if it does not exist.
///
/// # Errors
/// The problem, to be written after the path.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        file => file.map_err(|error| format!("cannot be read ({error})"))?,
    };
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| format!("cannot be read ({error})"))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("has more than {MAX_BYTES} bytes"));
    }
    Ok(text)
}

/// Returns an error unless the text contains only `[[app]]` sections.
///
/// # Errors
/// The problem, to be written after the path.
fn only_apps(text: &str) -> Result<(), String> {
    let document: DocumentMut = text.parse().map_err(|error| not_toml(text, &error))?;
    let other = document.as_table().iter().find(|(key, item)| *key != "app" || !matches!(item, Item::ArrayOfTables(_)));
    match other {
        Some((key, _)) => Err(format!("contains {key:?}; it may contain only [[app]] sections")),
        None => Ok(()),
    }
}

/// Returns the problem of a text that is not TOML, to be written after the path. It does not contain the
/// line of the error, which can have a secret.
pub(crate) fn not_toml(text: &str, error: &TomlError) -> String {
    let at = error.span().map_or(text.len(), |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    format!("is not TOML: line {line}: {}", error.message().replace('\n', " "))
}

impl JoinedText {
    /// Returns the number of lines before the file of applications. `None` if there is no such file.
    pub(super) fn lines(&self) -> Option<usize> {
        self.file.as_ref().map(|(_, lines)| *lines)
    }

    /// Adds the name and the line of the file of applications to the errors in it.
    pub(super) fn locate(&self, faults: Vec<ConfigFault>) -> Vec<ConfigFault> {
        let Some((path, lines)) = &self.file else { return faults };
        let locate = |fault: ConfigFault| match fault.line {
            Some(line) if line > *lines => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                ConfigFault::new(fault.path, None, format!("{} ({name} line {})", fault.problem, line - lines))
            }
            _ => fault,
        };
        faults.into_iter().map(locate).collect()
    }
}
