//! Editor of `console.applications_file`. It keeps the comments, the order and the keys that it does
//! not change.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use super::check::{MAX_APPLICATIONS_BYTES, not_toml, read_applications};
use super::new_app::NewApp;
use super::reference::HIDDEN;
use sealgate_domain::secret::{SecretHash, base64url};

/// Keys of an application that the console changes. The other keys can name files, commands of
/// upstreams, headers and accounts, so only the operator changes them.
const APP_KEYS: [&str; 4] = ["title", "description", "host", "upstreams"];

/// Keys of an application that carry a secret or a credential to its servers: headers, accounts, client
/// certificates, and the assertion, which opens the application. With one of them, only the operator
/// changes the servers.
const CREDENTIAL_KEYS: [&str; 7] = [
    "request_headers",
    "request_header_files",
    "login",
    "upstream_tls",
    "assertion",
    "authorization",
    "app_password_header",
];

/// Keys of a rule that the console changes.
const RULE_KEYS: [&str; 8] = ["path", "access", "methods", "groups", "users", "networks", "acr", "max_age_seconds"];

/// Maximum number of lines that [`line_difference`] compares one by one.
const MAX_COMPARED_LINES: usize = 2000;

/// Content of a file of applications.
#[derive(Debug, Clone)]
pub struct ApplicationsFile {
    document: DocumentMut,
    text: String,
}

/// Settings of an application that the console changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppFields {
    /// Display name. Empty for none.
    pub title: String,
    /// One-line description. Empty for none.
    pub description: String,
    pub host: String,
    pub upstreams: Vec<String>,
}

/// Settings of a rule that the console changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleFields {
    pub path: String,
    /// `public`, `bearer` or `signed_in`.
    pub access: String,
    pub methods: Vec<String>,
    pub groups: Vec<String>,
    pub users: Vec<String>,
    pub networks: Vec<String>,
    /// Permitted levels of the sign-in.
    pub acr: Vec<String>,
    /// Maximum time since the sign-in. `None` for no maximum.
    pub max_age_seconds: Option<i64>,
}

/// Rule in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditableRule {
    pub fields: RuleFields,
    /// Names of the other keys.
    pub other_keys: Vec<String>,
}

/// Application in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditableApp {
    pub name: String,
    pub fields: AppFields,
    /// Rules in the order of the file.
    pub rules: Vec<EditableRule>,
    /// Names of the other keys.
    pub other_keys: Vec<String>,
}

impl ApplicationsFile {
    /// Reads the file. A file that does not exist is empty. Blocking I/O.
    ///
    /// # Errors
    /// The problem, to be written after the path.
    pub fn read(path: &Path) -> Result<Self, String> {
        Self::parse(read_applications(path)?)
    }

    fn parse(text: String) -> Result<Self, String> {
        let document = text.parse().map_err(|error| not_toml(&text, &error))?;
        Ok(Self { document, text })
    }

    /// Returns the text, with the changes.
    pub fn text(&self) -> String {
        self.document.to_string()
    }

    /// Returns a digest of the text as it was read. It changes with the text.
    pub fn digest(&self) -> String {
        base64url(SecretHash::for_secret(self.text.as_bytes()).as_bytes())
    }

    /// Returns the differences between the text as it was read and the changed text, one line each,
    /// with `-`, `+` or a space before it. `…` replaces each value that can be a secret.
    pub fn difference(&self) -> Vec<String> {
        // The text was parsed when it was read.
        let before = self.text.parse().unwrap_or_default();
        line_difference(&shown(before), &shown(self.document.clone()))
    }

    fn apps(&self) -> impl Iterator<Item = &Table> {
        self.document.get("app").and_then(Item::as_array_of_tables).into_iter().flatten()
    }

    /// Returns the application with this name.
    pub fn app(&self, name: &str) -> Option<EditableApp> {
        self.apps().find(|table| text_of(table, "name") == name).map(EditableApp::of)
    }

    fn table(&mut self, name: &str) -> Option<&mut Table> {
        let apps = self.document.get_mut("app").and_then(Item::as_array_of_tables_mut)?;
        apps.iter_mut().find(|table| text_of(table, "name") == name)
    }

    /// Adds an application at the end.
    pub fn add(&mut self, app: &NewApp) {
        // The text is parsed again, so that the positions of its tables count from the start.
        let text = format!("{}\n\n{}", self.text().trim_end(), app.section());
        if let Ok(document) = text.trim_start().parse() {
            self.document = document;
        }
    }

    /// Removes the application with this name. Returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(apps) = self.document.get_mut("app").and_then(Item::as_array_of_tables_mut) else { return false };
        let before = apps.len();
        apps.retain(|table| text_of(table, "name") != name);
        apps.len() < before
    }

    /// Changes the settings of an application. Returns the changed keys, or `None` if it is absent.
    pub fn set_app(&mut self, name: &str, fields: &AppFields) -> Option<Vec<&'static str>> {
        let table = self.table(name)?;
        let AppFields { title, description, host, upstreams } = fields;
        let mut changed = Vec::new();
        for (key, text) in [("title", title), ("description", description), ("host", host)] {
            if set_text(table, key, text) {
                changed.push(key);
            }
        }
        if set_list(table, "upstreams", upstreams) {
            changed.push("upstreams");
        }
        Some(changed)
    }

    /// Changes a rule, or adds one if `at` is `None`. Returns whether the application, and the rule,
    /// exist.
    pub fn set_rule(&mut self, name: &str, at: Option<usize>, fields: &RuleFields) -> bool {
        let Some(app) = self.table(name) else { return false };
        let Some(at) = at else {
            let mut rule = Table::new();
            set_rule(&mut rule, fields);
            let rules = app.entry("route").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
            let Some(rules) = rules.as_array_of_tables_mut() else { return false };
            // A table without a position is written after the one before it.
            rule.set_position(rules.iter().filter_map(Table::position).max());
            rules.push(rule);
            return true;
        };
        let rules = app.get_mut("route").and_then(Item::as_array_of_tables_mut);
        let Some(rule) = rules.and_then(|rules| rules.get_mut(at)) else { return false };
        set_rule(rule, fields);
        true
    }

    /// Removes a rule. Returns `false` if there is no such rule, or if it is the only one: an
    /// application without rules is open to all users.
    pub fn remove_rule(&mut self, name: &str, at: usize) -> bool {
        let rules = self.table(name).and_then(|app| app.get_mut("route")).and_then(Item::as_array_of_tables_mut);
        match rules {
            Some(rules) if rules.len() > 1 && at < rules.len() => {
                rules.remove(at);
                true
            }
            _ => false,
        }
    }

    /// Replaces the file by the changed text, unless the file has changed since it was read.
    ///
    /// The previous text stays in a file with the suffix `.previous`. A failure leaves the file
    /// unchanged. Blocking I/O.
    ///
    /// # Errors
    /// [`SaveError::Changed`] if the file has changed; otherwise the error of the disk.
    pub fn save(&self, path: &Path) -> Result<(), SaveError> {
        let text = self.text();
        let _lock = lock(path)?;
        if read_applications(path).map_err(|problem| SaveError::Disk(io::Error::other(problem)))? != self.text {
            return Err(SaveError::Changed);
        }
        replace(path, &text)?;
        Ok(())
    }

    /// Restores the text as it was read, if the file still has the changed text. Blocking I/O.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn restore(&self, path: &Path) -> Result<(), SaveError> {
        let _lock = lock(path)?;
        if read_applications(path).map_err(|problem| SaveError::Disk(io::Error::other(problem)))? != self.text() {
            return Err(SaveError::Changed);
        }
        replace(path, &self.text)?;
        Ok(())
    }

    /// Returns whether the changed text is too large to be read again.
    pub fn is_too_large(&self) -> bool {
        self.text().len() as u64 > MAX_APPLICATIONS_BYTES
    }
}

/// Reason why a file of applications was not saved.
#[derive(Debug)]
pub enum SaveError {
    /// The file has changed since it was read.
    Changed,
    Disk(io::Error),
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Locks the directory of the file against other writers, until the value is dropped.
fn lock(path: &Path) -> io::Result<File> {
    let directory = File::open(path.parent().unwrap_or(Path::new("/")))?;
    flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// Replaces the file atomically. Keeps the previous one with the suffix `.previous`.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = beside(path, ".new");
    let result = write(&new, text).and_then(|()| {
        let (link, previous) = (beside(path, ".link"), beside(path, ".previous"));
        // A process that was killed may have left the link.
        let _ = fs::remove_file(&link);
        match fs::hard_link(path, &link) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            linked => linked.and_then(|()| fs::rename(&link, previous))?,
        }
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    });
    if result.is_err() {
        let _ = fs::remove_file(&new);
    }
    result
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // A process that was killed may have left the file.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

impl EditableApp {
    /// Returns whether Sealgate sends secrets or credentials to the servers. The console must not
    /// change the servers then: another server would receive them.
    pub fn sends_credentials(&self) -> bool {
        self.other_keys.iter().any(|key| CREDENTIAL_KEYS.contains(&key.as_str()))
    }

    fn of(table: &Table) -> Self {
        let rules = table.get("route").and_then(Item::as_array_of_tables).into_iter().flatten();
        Self {
            name: text_of(table, "name").to_owned(),
            fields: AppFields {
                title: text_of(table, "title").to_owned(),
                description: text_of(table, "description").to_owned(),
                host: text_of(table, "host").to_owned(),
                upstreams: list_of(table, "upstreams"),
            },
            rules: rules.map(EditableRule::of).collect(),
            other_keys: other_keys(table, &APP_KEYS, &["name", "route"]),
        }
    }
}

impl EditableRule {
    fn of(table: &Table) -> Self {
        Self {
            fields: RuleFields {
                path: text_of(table, "path").to_owned(),
                access: text_of(table, "access").to_owned(),
                methods: list_of(table, "methods"),
                groups: list_of(table, "groups"),
                users: list_of(table, "users"),
                networks: list_of(table, "networks"),
                acr: list_of(table, "acr"),
                max_age_seconds: table.get("max_age_seconds").and_then(Item::as_integer),
            },
            other_keys: other_keys(table, &RULE_KEYS, &[]),
        }
    }
}

fn other_keys(table: &Table, known: &[&str], more: &[&str]) -> Vec<String> {
    let is_other = |key: &&str| !known.contains(key) && !more.contains(key);
    table.iter().map(|(key, _)| key).filter(is_other).map(str::to_owned).collect()
}

fn text_of<'t>(table: &'t Table, key: &str) -> &'t str {
    table.get(key).and_then(Item::as_str).unwrap_or_default()
}

fn list_of(table: &Table, key: &str) -> Vec<String> {
    match table.get(key) {
        Some(item) if item.is_str() => item.as_str().map(str::to_owned).into_iter().collect(),
        Some(item) => {
            item.as_array().into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
        }
        None => Vec::new(),
    }
}

/// Sets a text, or removes an empty one. Returns whether the table changed.
fn set_text(table: &mut Table, key: &str, text: &str) -> bool {
    let changes = text_of(table, key) != text;
    if changes && text.is_empty() {
        table.remove(key);
    } else if changes {
        table.insert(key, value(text));
    }
    changes
}

/// Sets a list, or removes an empty one. Returns whether the table changed.
fn set_list(table: &mut Table, key: &str, list: &[String]) -> bool {
    let changes = list_of(table, key) != list;
    if changes && list.is_empty() {
        table.remove(key);
    } else if changes {
        table.insert(key, value(list.iter().collect::<Array>()));
    }
    changes
}

fn set_rule(table: &mut Table, fields: &RuleFields) {
    let RuleFields { path, access, methods, groups, users, networks, acr, max_age_seconds } = fields;
    set_text(table, "path", path);
    set_text(table, "access", access);
    for (key, list) in
        [("methods", methods), ("groups", groups), ("users", users), ("networks", networks), ("acr", acr)]
    {
        set_list(table, key, list);
    }
    if table.get("max_age_seconds").and_then(Item::as_integer) != *max_age_seconds {
        match max_age_seconds {
            Some(seconds) => drop(table.insert("max_age_seconds", value(*seconds))),
            None => drop(table.remove("max_age_seconds")),
        }
    }
}

/// Returns the text with `…` in place of the values that [`HIDDEN`] names.
fn shown(mut document: DocumentMut) -> String {
    let apps = document.get_mut("app").and_then(Item::as_array_of_tables_mut);
    for app in apps.into_iter().flat_map(ArrayOfTables::iter_mut) {
        for key in HIDDEN.iter().filter_map(|key| key.strip_prefix("app.")) {
            app.get_mut(key).into_iter().for_each(hide);
        }
    }
    document.to_string()
}

fn hide(item: &mut Item) {
    match item.as_table_like_mut() {
        Some(table) => table.iter_mut().for_each(|(_, item)| hide(item)),
        None => *item = value("…"),
    }
}

/// Returns the lines that differ between two texts, with a line of context on each side. Only the
/// part between the common start and the common end is compared.
fn line_difference(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let (rest_before, rest_after) = (&before[start..], &after[start..]);
    let end = rest_before.iter().rev().zip(rest_after.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, new) = (&rest_before[..rest_before.len() - end], &rest_after[..rest_after.len() - end]);
    let mut lines = Vec::new();
    if let Some(line) = start.checked_sub(1).and_then(|at| before.get(at)) {
        lines.push(format!(" {line}"));
    }
    lines.extend(old.iter().take(MAX_COMPARED_LINES).map(|line| format!("-{line}")));
    lines.extend(new.iter().take(MAX_COMPARED_LINES).map(|line| format!("+{line}")));
    if let Some(line) = rest_before.get(old.len()) {
        lines.push(format!(" {line}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Wiki of all.\n[[app]]\nname = \"wiki\"\nhost = \"wiki.example.com\"\n\
        upstreams = [\"http://127.0.0.1:8081\"] # local\nicon = \"wiki.png\"\n\n[[app.route]]\npath = \"/\"\n\
        access = \"signed_in\"\ngroups = [\"staff\"]\nscopes = [\"openid\"]\n\n[[app]]\nname = \"chat\"\n\
        host = \"chat.example.com\"\nupstreams = [\"http://127.0.0.1:8082\"]\n\n[[app.route]]\npath = \"/\"\n\
        access = \"signed_in\"\n";

    fn file() -> ApplicationsFile {
        ApplicationsFile::parse(TEXT.to_owned()).unwrap()
    }

    #[test]
    fn other_keys_and_comments_stay() {
        let mut file = file();
        let known = file.app("wiki").unwrap();
        assert_eq!(
            (known.other_keys.as_slice(), known.rules[0].other_keys.as_slice()),
            (&["icon".to_owned()][..], &["scopes".to_owned()][..])
        );
        let fields = AppFields { title: "Our wiki".to_owned(), ..known.fields.clone() };
        assert_eq!(file.set_app("wiki", &fields), Some(vec!["title"]));
        assert_eq!(file.set_app("other", &fields), None);
        let rule = RuleFields { groups: vec!["admins".to_owned()], ..known.rules[0].fields.clone() };
        assert!(file.set_rule("wiki", Some(0), &rule) && !file.set_rule("wiki", Some(1), &rule));
        let text = file.text();
        for kept in ["# Wiki of all.\n", "] # local\n", "icon = \"wiki.png\"\n", "scopes = [\"openid\"]\n"] {
            assert!(text.contains(kept), "{text}");
        }
        assert!(text.contains("groups = [\"admins\"]\n") && text.contains("title = \"Our wiki\"\n"), "{text}");
    }

    #[test]
    fn a_rule_and_an_application_are_added_and_removed_in_their_place() {
        let mut file = file();
        let rule = RuleFields { path: "/admin/".to_owned(), access: "signed_in".to_owned(), ..RuleFields::default() };
        assert!(file.set_rule("wiki", None, &rule));
        let text = file.text();
        let app = ApplicationsFile::parse(text.clone()).unwrap();
        assert_eq!(app.app("wiki").unwrap().rules.len(), 2, "{text}");
        assert_eq!(app.app("chat").unwrap().rules.len(), 1, "{text}");
        assert!(file.remove_rule("wiki", 1));
        assert!(!file.remove_rule("wiki", 0), "the only rule");
        assert_eq!(file.text(), TEXT);
        let new = NewApp {
            name: "shop".to_owned(),
            title: None,
            host: "shop.example.com".to_owned(),
            upstream: "http://127.0.0.1:8083".to_owned(),
            groups: Vec::new(),
        };
        file.add(&new);
        assert!(file.text().starts_with(TEXT), "{}", file.text());
        assert_eq!(file.app("shop").unwrap().rules.len(), 1);
        assert!(file.remove("shop") && !file.remove("shop"));
        assert_eq!(file.app("chat").unwrap().rules.len(), 1);
    }

    #[test]
    fn the_difference_has_the_changed_lines() {
        let mut file = file();
        let rule = RuleFields { groups: vec!["all".to_owned()], ..file.app("wiki").unwrap().rules[0].fields.clone() };
        file.set_rule("wiki", Some(0), &rule);
        let expected =
            [" access = \"signed_in\"", "-groups = [\"staff\"]", "+groups = [\"all\"]", " scopes = [\"openid\"]"];
        assert_eq!(file.difference(), expected);
    }
}
