//! Directories of one or more test servers.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use sealgate_config::{Config, DirectorySettings};
use sealgate_domain::source::SourceEntry;
use sealgate_ldap::{LdapDirectory, LdapSignIn};
use sealgate_system::clock::SystemClock;
use secrecy::SecretString;
use tempfile::TempDir;

use crate::slapd::{BASE, SERVICE_DN, SERVICE_PASSWORD, Slapd, write_secret};

/// A directory with its files.
pub(crate) struct TestDirectory {
    pub(crate) ldap: LdapDirectory,
    files: TempDir,
}

impl std::ops::Deref for TestDirectory {
    type Target = LdapDirectory;

    fn deref(&self) -> &LdapDirectory {
        &self.ldap
    }
}

/// Keys of `[[directory]]` that tests change.
#[derive(Default)]
pub(crate) struct Keys<'k> {
    pub(crate) servers: &'k [String],
    /// Further lines of the table, such as `starttls = true`.
    pub(crate) more: &'k str,
    pub(crate) users: &'k str,
    pub(crate) groups: &'k str,
}

/// Returns the text of a configuration with the directory `corp`.
pub(crate) fn config(keys: &Keys<'_>) -> String {
    let Keys { servers, more, users, groups } = keys;
    // Long, because a busy machine must not fail a test.
    let timeout = if more.contains("timeout_seconds") { "" } else { "timeout_seconds = 20" };
    format!(
        "issuer = \"https://id.test\"\nhsm = {{ module = \"m\", token_label = \"t\", pin_file = \"p\" }}\n\
         store.path = \"s\"\n[server]\nlisten = [\"127.0.0.1:80\"]\ntls = {{ certificate = \"c\", key = \"k\" }}\n\
         [[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:1\"]\n\
         [[app.route]]\npath = \"/\"\naccess = \"public\"\n\
         [[directory]]\nname = \"corp\"\nkind = \"ldap\"\nservers = {servers:?}\ndomains = [\"example.test\"]\n{more}\n{timeout}\n\
         [directory.bind]\ndn = \"{SERVICE_DN}\"\npassword_file = \"password\"\n\
         [directory.users]\nbase = \"ou=people,{BASE}\"\n{users}\n\
         [directory.groups]\nbase = \"ou=groups,{BASE}\"\n{groups}\n"
    )
}

/// Parses the settings. `place` gets the password file.
fn settings(place: &Path, config: &str) -> DirectorySettings {
    write_secret(&place.join("password"), SERVICE_PASSWORD);
    let config = Config::parse(config, place).unwrap_or_else(|faults| panic!("{faults:#?}"));
    config.directories.into_iter().next().unwrap()
}

/// Opens a directory.
pub(crate) fn open(keys: &Keys<'_>) -> TestDirectory {
    open_text(&config(keys))
}

/// Opens the directory of this configuration.
pub(crate) fn open_text(config: &str) -> TestDirectory {
    let files = tempfile::tempdir().unwrap();
    let ldap = LdapDirectory::open(&settings(files.path(), config), Arc::new(SystemClock)).unwrap();
    TestDirectory { ldap, files }
}

/// Opens the directory of a server over plain LDAP.
pub(crate) fn plain(server: &Slapd) -> TestDirectory {
    open(&Keys { servers: &[server.url()], ..Keys::default() })
}

impl TestDirectory {
    /// Replaces the password of the account for searches.
    pub(crate) fn set_password(&self, password: &str) {
        write_secret(&self.files.path().join("password"), password);
    }

    /// Signs in with the password `password of UID`.
    pub(crate) async fn enter(&self, uid: &str) -> SourceEntry {
        let answer = self.try_enter(uid, &format!("password of {uid}")).await;
        let LdapSignIn::User(user) = answer else { panic!("{uid}: {answer:?}") };
        user
    }

    /// Signs in. Panics if the directory cannot answer.
    pub(crate) async fn try_enter(&self, name: &str, password: &str) -> LdapSignIn {
        self.sign_in(name, &SecretString::from(password)).await.unwrap_or_else(|fault| panic!("{name}: {fault}"))
    }
}

pub(crate) fn set(groups: &[&str]) -> BTreeSet<String> {
    groups.iter().map(|group| (*group).to_owned()).collect()
}
