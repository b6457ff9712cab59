//! The languages of the pages and of the mails.

use serde::{Deserialize, Serialize};

/// A language that there are words in. Records and the configuration hold its tag (BCP 47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Language {
    #[serde(rename = "tr")]
    Turkish,
    #[serde(rename = "en")]
    English,
}
