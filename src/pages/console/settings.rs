//! Console pages about the configuration: settings, the state of the file, and the reload.

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_config::{EffectiveSetting, Language, SettingSource};
use sealgate_domain::time::UnixTime;

/// Page of the settings: its start, or a list of settings.
///
/// The search form sends `find`. The form of a reload sends `csrf`, `once` and `action`.
#[derive(Template)]
#[template(path = "console/settings.html")]
pub struct SettingsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Search text, or empty.
    pub find: &'a str,
    pub home: Option<&'a SettingsHome<'a>>,
    pub list: Option<&'a SettingsList<'a>>,
}

/// Start of the settings.
#[derive(Debug)]
pub struct SettingsHome<'a> {
    /// Path of the configuration file.
    pub file: &'a str,
    pub loaded_at: UnixTime,
    pub state: &'a FileState,
    /// Whether a reload was refused because of this state.
    pub is_refused: bool,
    /// Settings that the reload before this page has changed.
    pub changed: &'a [&'a str],
    pub may_reload: bool,
    pub sections: &'a [SectionLink],
    /// URL of the issuer.
    pub issuer: &'a str,
}

/// Content of the configuration file, compared with the running configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    Same,
    /// Names of the settings that a reload applies, and of those that need a restart.
    Changed {
        reloadable: Vec<String>,
        restart: Vec<String>,
    },
    /// Every error, one line each.
    Faulty(Vec<String>),
}

/// Section of the configuration file.
#[derive(Debug)]
pub struct SectionLink {
    pub name: &'static str,
    /// Number of keys that the file sets.
    pub set: u64,
    /// Number of elements, if the section is a list with elements.
    pub elements: Option<u64>,
}

/// Element of a list, such as an application.
#[derive(Debug)]
pub struct ElementLink {
    pub name: String,
    pub address: String,
    pub is_current: bool,
}

/// Page of a list of settings.
#[derive(Debug)]
pub struct SettingsList<'a> {
    /// Section. `None` for the results of a search.
    pub section: Option<&'a str>,
    pub elements: &'a [ElementLink],
    pub lines: &'a [&'a EffectiveSetting],
    pub total: u64,
    /// Number of the first setting on the page, from 1.
    pub first: u64,
    pub previous: Option<&'a str>,
    pub next: Option<&'a str>,
}

/// Page that lists the changes of a reload, and asks for the confirmation.
#[derive(Template)]
#[template(path = "console/reload.html")]
pub struct ReloadPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Name of this node of the cluster.
    pub node: Option<&'a str>,
    /// Names of the changed settings, as in the log.
    pub names: &'a [&'a str],
    pub changes: &'a [SettingChange],
    /// Number of changes that are not shown.
    pub more: u64,
    /// Whether the file has changed since a confirmation.
    pub has_changed: bool,
    /// Fields of the form, without its CSRF token.
    pub fields: &'a [(&'a str, &'a str)],
}

/// Setting with its values before and after a reload. A value is `None` if the key is not set, or is
/// not shown.
#[derive(Debug, PartialEq, Eq)]
pub struct SettingChange {
    pub key: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl SettingsList<'_> {
    /// Returns the number of the last setting on the page, from 1.
    fn last(&self) -> u64 {
        (self.first + self.lines.len() as u64).saturating_sub(1)
    }
}

impl SettingsPage<'_> {
    fn source(&self, setting: &&EffectiveSetting) -> Markup {
        let t = self.inside.frame.t;
        match setting.source {
            SettingSource::File { line } | SettingSource::Hidden { line } if setting.is_in_applications_file => {
                t.settings_from_applications(line as u64)
            }
            SettingSource::File { line } | SettingSource::Hidden { line } => t.settings_from_file(line as u64),
            SettingSource::Default => t.settings_from_default(),
            SettingSource::Computed => t.settings_computed(),
            SettingSource::Unset => t.settings_unset(),
        }
    }

    fn is_hidden(setting: &&EffectiveSetting) -> bool {
        matches!(setting.source, SettingSource::Hidden { .. })
    }

    /// Returns whether the page shows the operator's name and colours.
    fn has_preview(&self) -> bool {
        self.list.is_some_and(|list| list.section == Some("pages"))
    }

    /// Returns the previews: the class of the colours, the name, and the words of the language.
    fn previews(&self) -> Vec<(&'static str, Markup, Words)> {
        let t = self.inside.frame.t;
        let languages = [Language::English, Language::Turkish];
        let of_language = languages.into_iter().flat_map(|language| {
            let words = Words { language };
            [("light", t.settings_preview_light(), words), ("dark", t.settings_preview_dark(), words)]
        });
        of_language.collect()
    }
}
