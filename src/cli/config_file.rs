//! Editor of the configuration file. It keeps the file's comments and format.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::failure::CommandFailure;
use super::reload::{ReloadOutcome, reload};
use sealgate_admin::answer::ReloadAnswer;
use sealgate_config::{Config, ConfigFault, Difference, NewApp};

/// Adds an application at the end of the file.
pub(super) fn add_app(document: &mut DocumentMut, app: &NewApp) -> Result<(), CommandFailure> {
    let end = last_position(document.as_table());
    apps(document)?.push(app.table(end + 1));
    Ok(())
}

/// Returns the position of the last table in a document.
fn last_position(table: &Table) -> isize {
    let of_item = |item: &Item| match item {
        Item::Table(table) => last_position(table),
        Item::ArrayOfTables(tables) => tables.iter().map(last_position).max().unwrap_or_default(),
        Item::None | Item::Value(_) => 0,
    };
    let inside = table.iter().map(|(_, item)| of_item(item)).max().unwrap_or_default();
    inside.max(table.position().unwrap_or_default())
}

/// Removes the application with this name, and its comments. Returns whether the application
/// existed.
pub(super) fn remove_app(document: &mut DocumentMut, name: &str) -> Result<bool, CommandFailure> {
    let apps = apps(document)?;
    let at = apps.iter().position(|app| app.get("name").and_then(Item::as_str) == Some(name));
    if let Some(at) = at {
        apps.remove(at);
    }
    Ok(at.is_some())
}

fn apps(document: &mut DocumentMut) -> Result<&mut ArrayOfTables, CommandFailure> {
    let apps = document.entry("app").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    apps.as_array_of_tables_mut().ok_or_else(|| {
        CommandFailure::line(
            "app: the applications are not [[app]] sections; edit the file yourself, or write them as sections",
        )
    })
}

/// Returns a TOML string with this value.
pub(super) fn quoted(text: impl Display) -> String {
    toml_edit::Value::from(text.to_string()).to_string()
}

/// Changes a configuration file and applies the change to the server that uses the file. Returns
/// the changes that the server applied, or `None` if no server runs.
///
/// `edit` changes the parsed content. If the new content is valid, it replaces the file atomically,
/// with the same owner and mode. If the server then refuses the new content, the previous content
/// is restored.
///
/// `expected` is the change that `edit` must make, in the words with which a reload reports
/// changes. If `edit` makes any other change, the function fails.
///
/// # Errors
/// Every error that the old content did not have. The file is then unchanged.
pub(super) fn change(
    file: &Path,
    expected: &str,
    edit: impl FnOnce(&mut DocumentMut) -> Result<(), CommandFailure>,
) -> Result<Option<ReloadAnswer>, CommandFailure> {
    let file_failure = |error: io::Error| CommandFailure::line(format_args!("{}: {error}", file.display()));
    // If the file is a symbolic link, the link is kept and its target is replaced.
    let file = fs::canonicalize(file).map_err(file_failure)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    // Lock against concurrent changes, held until the function returns.
    let lock = File::open(directory).map_err(file_failure)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| file_failure(error.into()))?;
    let config = super::read(&file)?;
    let before = fs::read_to_string(&file).map_err(file_failure)?;
    let mut document: DocumentMut = before.parse().map_err(CommandFailure::line)?;
    edit(&mut document)?;
    let after = document.to_string();
    let new = Config::parse(&after, directory).map_err(|faults| CommandFailure::from_lines(&faults))?;
    let Difference { reloadable, restart } = config.difference(&new);
    if reloadable != [expected] || !restart.is_empty() {
        return Err(CommandFailure::line(format_args!(
            "{} has a form that this command cannot edit; the edit would change: {}",
            file.display(),
            [reloadable, restart].concat().join(", ")
        )));
    }
    let new = NewFile::beside(&file, &after).map_err(file_failure)?;
    refuse_new_faults(&file, &new.path)?;
    new.replace(&file).map_err(file_failure)?;
    match reload(&file) {
        ReloadOutcome::Done(reloaded) => Ok(Some(reloaded)),
        ReloadOutcome::NoServer(_) => Ok(None),
        ReloadOutcome::Failed(failure) => {
            NewFile::beside(&file, &before).and_then(|old| old.replace(&file)).map_err(file_failure)?;
            Err(failure)
        }
    }
}

/// Returns an error if the files that the new configuration names have errors that the files of the
/// previous configuration do not have.
///
/// Errors of the previous configuration are ignored. For example, this command may lack access to
/// the PIN or to a certificate's key.
fn refuse_new_faults(before: &Path, after: &Path) -> Result<(), CommandFailure> {
    let faults = |file: &Path| -> Vec<String> {
        Config::load(file).err().unwrap_or_default().iter().map(without_line).collect()
    };
    let known = faults(before);
    let new: Vec<_> = faults(after).into_iter().filter(|fault| !known.contains(fault)).collect();
    if new.is_empty() { Ok(()) } else { Err(CommandFailure::from_lines(&new)) }
}

fn without_line(fault: &ConfigFault) -> String {
    let line = fault.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    fault.to_string().trim_end_matches(&line).to_owned()
}

/// Complete new file that has not replaced the previous file yet. The file is removed when this
/// value is dropped.
pub(super) struct NewFile {
    pub(super) path: PathBuf,
}

impl NewFile {
    /// Writes a file next to `file`, with the owner and mode of `file`.
    fn beside(file: &Path, content: &str) -> io::Result<Self> {
        let like = fs::metadata(file)?;
        let new = Self::write(file, content, like.mode() & 0o7777)?;
        let written = File::open(&new.path)?;
        let own = written.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(&written, Some(like.uid()), Some(like.gid()))?;
        }
        Ok(new)
    }

    /// Writes a temporary file next to the path of the future `file`.
    pub(super) fn write(file: &Path, content: &str, mode: u32) -> io::Result<Self> {
        let mut name = std::ffi::OsString::from(".");
        name.push(file.file_name().unwrap_or_default());
        name.push(".new");
        let new = Self { path: file.with_file_name(name) };
        // A process that was killed may have left a temporary file.
        let _ = fs::remove_file(&new.path);
        let mut written = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new.path)?;
        // The umask may have removed bits of the mode.
        written.set_permissions(fs::Permissions::from_mode(mode))?;
        written.write_all(content.as_bytes())?;
        written.sync_all()?;
        Ok(new)
    }

    fn replace(self, file: &Path) -> io::Result<()> {
        fs::rename(&self.path, file)?;
        sync_directory(file)
    }

    /// Renames the temporary file to `file`, unless a file with this name exists.
    pub(super) fn create(self, file: &Path) -> io::Result<()> {
        fs::hard_link(&self.path, file)?;
        sync_directory(file)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn sync_directory(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Our gateway.\nissuer = \"https://id.example.com\" # never change\n\n[[app]]\nname = \"wiki\"\n\
        host = \"wiki.example.com\"\n\n# The public part.\n[[app.route]]\npath = \"/\"\n\n# Keep this.\n[console]\nenabled = true\n";

    fn chat() -> NewApp {
        NewApp {
            name: "chat".to_owned(),
            title: Some("Our \"chat\"".to_owned()),
            host: "chat.example.com".to_owned(),
            upstream: "http://127.0.0.1:8082".to_owned(),
            groups: vec!["staff".to_owned()],
        }
    }

    #[test]
    fn an_added_application_is_at_the_end_and_comments_stay() {
        let mut document: DocumentMut = FILE.parse().unwrap();
        add_app(&mut document, &chat()).unwrap();
        let text = document.to_string();
        let added = "\n[[app]]\nname = \"chat\"\ntitle = 'Our \"chat\"'\nhost = \"chat.example.com\"\n\
            upstreams = [\"http://127.0.0.1:8082\"]\n\n[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\ngroups = [\"staff\"]\n";
        assert_eq!(text, format!("{FILE}{added}"));
        assert!(remove_app(&mut document, "chat").unwrap());
        assert_eq!(document.to_string(), FILE);
        assert!(!remove_app(&mut document, "chat").unwrap());
        assert!(remove_app(&mut document, "wiki").unwrap());
        assert_eq!(document.to_string().matches("app").count(), 0, "{document}");
    }

    #[test]
    fn an_added_application_does_not_take_over_rules() {
        let rule = "[app.identity_headers]\nX-Name = \"name\"\n\n[[app.route]]\npath = \"/static/\"\n";
        let mut document: DocumentMut = format!("{FILE}\n{rule}").parse().unwrap();
        add_app(&mut document, &chat()).unwrap();
        let text = document.to_string();
        assert!(text.starts_with(&format!("{FILE}\n{rule}")), "{text}");
    }
}
