//! Languages of the pages and e-mails.

use serde::{Deserialize, Serialize};

/// Supported language, identified by its tag (BCP 47) in records and in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Language {
    #[serde(rename = "tr")]
    Turkish,
    #[serde(rename = "en")]
    English,
}

impl Language {
    /// Returns the language of a tag, if it is supported.
    pub fn parse(tag: &str) -> Option<Self> {
        match tag {
            "tr" => Some(Self::Turkish),
            "en" => Some(Self::English),
            _ => None,
        }
    }
}
