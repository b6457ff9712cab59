//! The languages of the pages and of the mails.

use serde::{Deserialize, Serialize};

/// A language that there are words in. Records and the configuration hold its tag (BCP 47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Language {
    #[serde(rename = "tr")]
    Turkish,
    #[serde(rename = "en")]
    English,
}

impl Language {
    /// The language of a tag, if there are words in it.
    pub fn parse(tag: &str) -> Option<Self> {
        match tag {
            "tr" => Some(Self::Turkish),
            "en" => Some(Self::English),
            _ => None,
        }
    }
}
