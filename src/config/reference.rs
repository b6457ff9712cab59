//! Settings of a configuration, key by key: the value, its source, the default and the description.
//!
//! Defaults and descriptions are those of `conf/sealgate.toml`, from which the reference is
//! generated. Tests compare that file with the keys and the defaults of the program.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::difference::{current, needs_restart, pointer};
use super::file::without_numbers;
use super::settings::Config;
use sealgate_domain::secret::{SecretHash, base64url};

const DOCUMENTED_FILE: &str = include_str!("../../conf/sealgate.toml");

/// Keys whose values are never shown: they may be credentials, or hashes of them.
pub(super) const HIDDEN: [&str; 2] = ["client.secret_hash", "app.request_headers"];

/// Maximum length of a shown value, in characters.
const MAX_VALUE_CHARS: usize = 400;

/// Text of a configuration file. It is not a part of the settings, so all texts are equal, and
/// `Debug` shows nothing of it.
#[derive(Clone, Default)]
pub struct ConfigText {
    pub(super) text: Arc<str>,
    /// Number of lines before the file of applications. `None` if there is no such file.
    pub(super) lines: Option<usize>,
}

impl fmt::Debug for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigText")
    }
}

impl PartialEq for ConfigText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ConfigText {}

/// One key of the configuration with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// Name of the section. Empty for a key outside the sections.
    pub section: &'static str,
    /// Number of the element if the section is a list, from 0.
    pub element: Option<usize>,
    /// Key, such as `server.listen` or `app[0].route[2].access`.
    pub path: String,
    /// Value as TOML. `None` if the key is not set, or its value is hidden.
    pub value: Option<String>,
    pub source: SettingSource,
    /// Default as TOML. `None` if there is none, or if it follows from another key.
    pub default: Option<&'static str>,
    /// Description as in the reference: paragraphs of plain text.
    pub description: &'static str,
    /// Whether the line is one of `console.applications_file`.
    pub is_in_applications_file: bool,
    /// Whether a change needs a restart.
    pub needs_restart: bool,
}

/// Source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingSource {
    /// The configuration file, in this line.
    File {
        line: usize,
    },
    /// The same, but the value is not shown.
    Hidden {
        line: usize,
    },
    Default,
    /// The value follows from other keys or from the machine.
    Computed,
    /// The key is not set and has no default.
    Unset,
}

/// Key in `conf/sealgate.toml`.
struct DocumentedKey {
    key: &'static str,
    default: Option<&'static str>,
    description: String,
}

/// Documented keys, in the order of the file.
static DOCUMENTED: LazyLock<Vec<DocumentedKey>> = LazyLock::new(|| documented_keys(DOCUMENTED_FILE));

fn documented_keys(file: &'static str) -> Vec<DocumentedKey> {
    let is_comment = |line: &str| line == "#" || line.starts_with("# ");
    let (mut keys, mut table): (Vec<DocumentedKey>, &str) = (Vec::new(), "");
    let mut lines = file.lines().skip(1).peekable();
    while lines.peek().is_some() {
        let (mut description, mut of_block) = (String::new(), Vec::new());
        while let Some(line) = lines.next_if(|line| is_comment(line)) {
            let text = line.trim_start_matches('#').trim_start();
            let joint = if text.is_empty() || description.ends_with('\n') || description.is_empty() { "" } else { " " };
            description.extend([joint, if text.is_empty() { "\n" } else { text }]);
        }
        while let Some(line) = lines.next_if(|line| !is_comment(line) && !line.is_empty()) {
            let bare = line.trim_start_matches('#');
            if let Some(header) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                table = header.trim_start_matches('[');
            } else if let Some((name, rest)) = bare.split_once(" = ") {
                let is_default = line.starts_with('#') && !rest.ends_with("# example");
                of_block.push((table, name, is_default.then(|| value_text(rest))));
            }
        }
        for (table, name, default) in of_block {
            let key = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
            match keys.iter_mut().find(|known| known.key == key) {
                // A section that is shown twice has the default or the description once.
                Some(known) => {
                    known.default = known.default.or(default);
                    if known.description.is_empty() {
                        known.description.clone_from(&description);
                    }
                }
                None => keys.push(DocumentedKey { key: key.leak(), default, description: description.clone() }),
            }
        }
        while lines.next_if(|line| line.is_empty()).is_some() {}
    }
    keys
}

/// Returns the value without the comment after it.
fn value_text(rest: &'static str) -> &'static str {
    rest.split("  ").next().unwrap_or(rest).trim_end()
}

/// Returns the names of all sections, in the order of the documentation. The first is the section of
/// the keys outside the sections: an empty name.
pub fn section_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for known in DOCUMENTED.iter() {
        let name = section_of(known.key);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn section_of(key: &str) -> &str {
    key.split_once('.').map_or("", |(section, _)| section)
}

/// Value in the text of a configuration file.
struct Written<'t> {
    path: String,
    line: usize,
    text: &'t str,
    /// Documented key that describes it.
    key: &'static str,
}

/// Section, and the number of the element if it is a list.
type Place = (&'static str, Option<usize>);

impl Config {
    /// Returns all settings: those of each section in the order of the documentation. The elements
    /// of a list have the keys that the file sets, in the order of the file, and then the others.
    pub fn settings(&self) -> Vec<EffectiveSetting> {
        let written = written(&self.text.text);
        let effective = current(self);
        let mut settings = Vec::new();
        for section in section_names() {
            let elements: Vec<&Place> =
                written.keys().filter(|place| place.0 == section && place.1.is_some()).collect();
            if elements.is_empty() {
                let values = written.get(&(section, None)).map_or(&[][..], Vec::as_slice);
                settings.append(&mut settings_of((section, None), values, &effective));
            }
            for place in elements {
                let values = written.get(place).map_or(&[][..], Vec::as_slice);
                let mut of_element = settings_of(*place, values, &effective);
                of_element.sort_by_key(|setting| setting.source.line().unwrap_or(usize::MAX));
                settings.append(&mut of_element);
            }
        }
        if let Some(lines) = self.text.lines {
            for setting in &mut settings {
                setting.locate(lines);
            }
        }
        settings
    }

    /// Returns a hash of the text of the file and of the settings that follow from it.
    pub fn fingerprint(&self) -> String {
        let content = format!("{}\0{}\0{:?}", self.text.text, current(self), self.apps);
        base64url(SecretHash::for_secret(content.as_bytes()).as_bytes())
    }
}

impl EffectiveSetting {
    /// Changes a line after the configuration file, which has this number of lines, to the line of the
    /// file of applications.
    fn locate(&mut self, lines: usize) {
        if let SettingSource::File { line } | SettingSource::Hidden { line } = &mut self.source
            && *line > lines
        {
            *line -= lines;
            self.is_in_applications_file = true;
        }
    }
}

impl SettingSource {
    /// Returns the line of the file that sets the key.
    pub fn line(self) -> Option<usize> {
        match self {
            Self::File { line } | Self::Hidden { line } => Some(line),
            Self::Default | Self::Computed | Self::Unset => None,
        }
    }
}

/// Returns the number of the element of the section's list that contains the key.
fn element_of(path: &str, section: &str) -> Option<usize> {
    path.strip_prefix(section)?.strip_prefix('[')?.split(']').next()?.parse().ok()
}

fn settings_of((section, element): Place, written: &[Written<'_>], effective: &Value) -> Vec<EffectiveSetting> {
    let mut settings = Vec::new();
    for known in DOCUMENTED.iter().filter(|known| section_of(known.key) == section) {
        let setting = |path: String, value: Option<String>, source| EffectiveSetting {
            section,
            element,
            path,
            value,
            source,
            default: known.default,
            description: &known.description,
            is_in_applications_file: false,
            needs_restart: needs_restart(known.key),
        };
        let mut is_set = false;
        for value in written.iter().filter(|value| value.key == known.key) {
            let line = value.line;
            is_set = true;
            settings.push(if HIDDEN.contains(&known.key) {
                setting(value.path.clone(), None, SettingSource::Hidden { line })
            } else {
                setting(value.path.clone(), Some(shown(value.text)), SettingSource::File { line })
            });
        }
        if is_set {
            continue;
        }
        let path = match element {
            Some(number) => known.key.replacen(section, &format!("{section}[{number}]"), 1),
            None => known.key.to_owned(),
        };
        let computed = || element.is_none().then(|| rendered(effective, known.key)).flatten();
        settings.push(match known.default {
            Some(default) => setting(path, Some(default.to_owned()), SettingSource::Default),
            None => match computed() {
                Some(value) => setting(path, Some(value), SettingSource::Computed),
                None => setting(path, None, SettingSource::Unset),
            },
        });
    }
    settings
}

/// Returns the documented key that describes a key: itself, or the table that contains it.
fn documented_as(key: &str) -> Option<&'static DocumentedKey> {
    let mut name = key;
    loop {
        if let Some(known) = DOCUMENTED.iter().find(|known| known.key == name) {
            return Some(known);
        }
        name = name.rsplit_once('.')?.0;
    }
}

/// Returns the values in the text of a configuration file, by their place.
fn written(text: &str) -> BTreeMap<Place, Vec<Written<'_>>> {
    let (root, _) = DeTable::parse_recoverable(text);
    let starts = iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut found = FoundValues { text, starts, places: BTreeMap::new() };
    found.collect("", root.get_ref());
    found.places
}

struct FoundValues<'t> {
    text: &'t str,
    /// Byte offset of the start of each line.
    starts: Vec<usize>,
    places: BTreeMap<Place, Vec<Written<'t>>>,
}

impl FoundValues<'_> {
    /// Collects the values of a table. Tables inside it, and lists of tables, are not values
    /// themselves.
    fn collect(&mut self, path: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            let name: &str = name.get_ref();
            let name = if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { format!("{name:?}") };
            let path = if path.is_empty() { name } else { format!("{path}.{name}") };
            self.collect_value(path, value);
        }
    }

    fn collect_value(&mut self, path: String, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.collect(&path, table),
            DeValue::Array(values) if values.iter().any(|value| value.get_ref().is_table()) => {
                for (number, value) in values.iter().enumerate() {
                    self.collect_value(format!("{path}[{number}]"), value);
                }
            }
            _ => {
                let Some(known) = documented_as(&without_numbers(&path)) else { return };
                let section = section_of(known.key);
                let span = value.span();
                let line = self.starts.partition_point(|start| *start <= span.start);
                let text = self.text.get(span).unwrap_or_default();
                let place = (section, element_of(&path, section));
                self.places.entry(place).or_default().push(Written { path, line, text, key: known.key });
            }
        }
    }
}

/// Returns a value for the page: of bounded length, and without credentials in a URL.
fn shown(text: &str) -> String {
    let mut value: String = text.chars().take(MAX_VALUE_CHARS).collect();
    if value.len() < text.len() {
        value.push('…');
    }
    // The checks refuse credentials in most URLs.
    let Some((scheme, rest)) = value.split_once("://") else { return value };
    let authority = rest.split(['/', '?', '#', '"', '\'']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((credentials, _)) => format!("{scheme}://…{}", &rest[credentials.len()..]),
        None => value,
    }
}

/// Returns the effective value of a key that has no default in the documentation.
fn rendered(effective: &Value, key: &str) -> Option<String> {
    let value = effective.pointer(&pointer(key))?;
    match value {
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.to_string()),
        Value::Array(values) if !values.is_empty() && values.iter().all(Value::is_string) => Some(value.to_string()),
        // A duration.
        Value::Object(fields) if fields.len() == 2 && fields.contains_key("nanos") => {
            fields.get("secs").map(Value::to_string)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::known_keys;

    #[test]
    fn every_known_key_has_a_description() {
        let undescribed: Vec<String> = known_keys()
            .into_iter()
            .filter(|key| {
                let is_table = DOCUMENTED.iter().any(|known| known.key.starts_with(&format!("{key}.")));
                !is_table && documented_as(key).is_none_or(|known| known.description.is_empty())
            })
            .collect();
        assert_eq!(undescribed, Vec::<String>::new());
    }

    #[test]
    fn settings_have_their_source_and_hidden_values_do_not_appear() {
        let text = "issuer = \"https://id.test\"\nhsm = { module = \"m\", token_label = \"t\", pin_file = \"p\" }\n\
            store.path = \"s\"\nserver.listen = [\"127.0.0.1:80\"]\nserver.tls = { certificate = \"c\", key = \"k\" }\n\
            [tokens]\nrefresh_token_seconds = 60\n[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\n\
            upstreams = [\"http://127.0.0.1:1\"]\nrequest_headers = { X-Api-Key = \"not-for-pages\" }\n\
            [[app.route]]\npath = \"/\"\naccess = \"public\"\n";
        let config = Config::parse(text, Path::new("/etc")).unwrap();
        let settings = config.settings();
        let find = |path: &str| {
            let found = settings.iter().find(|setting| setting.path == path);
            let EffectiveSetting { value, source, default, .. } = found.unwrap_or_else(|| panic!("{path}"));
            (value.as_deref(), *source, *default)
        };
        assert_eq!(find("issuer"), (Some("\"https://id.test\""), SettingSource::File { line: 1 }, None));
        assert_eq!(find("server.tls.key"), (Some("\"k\""), SettingSource::File { line: 5 }, None));
        assert_eq!(
            find("tokens.refresh_token_seconds"),
            (Some("60"), SettingSource::File { line: 7 }, Some("2592000"))
        );
        assert_eq!(find("tokens.access_token_seconds"), (Some("900"), SettingSource::Default, Some("900")));
        assert_eq!(find("keys.keep_seconds"), (Some("1200"), SettingSource::Computed, None));
        assert_eq!(find("mail.host"), (None, SettingSource::Unset, None));
        assert_eq!(find("app[0].route[0].access").1, SettingSource::File { line: 15 });
        assert_eq!(find("app[0].request_headers.X-Api-Key"), (None, SettingSource::Hidden { line: 12 }, None));
        assert!(!format!("{settings:?}{config:?}").contains("\"not-for-pages\\\"\""), "{settings:?}");
        let restart = |path: &str| settings.iter().any(|setting| setting.path == path && setting.needs_restart);
        assert!(restart("issuer") && restart("server.listen") && !restart("server.tls.key"));
        assert!(!restart("app[0].host") && restart("tokens.access_token_seconds"));
    }

    #[test]
    fn credentials_in_a_url_are_not_shown() {
        assert_eq!(shown("\"https://user:word@otel.test/v1\""), "\"https://…@otel.test/v1\"");
        assert_eq!(shown("\"https://otel.test/a@b\""), "\"https://otel.test/a@b\"");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), MAX_VALUE_CHARS + 1);
    }

    #[test]
    fn the_fingerprint_depends_on_the_text() {
        let parse = |more: &str| {
            let text = format!(
                "issuer = \"https://id.test\"\nhsm = {{ module = \"m\", token_label = \"t\", pin_file = \"p\" }}\n\
                 store.path = \"s\"\nserver.listen = [\"127.0.0.1:80\"]\n{more}"
            );
            Config::parse(&text, Path::new("/etc")).unwrap().fingerprint()
        };
        assert_eq!(parse("# a\n"), parse("# a\n"));
        assert_ne!(parse("# a\n"), parse("# b\n"));
    }
}
