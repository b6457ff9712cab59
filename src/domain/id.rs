//! Identifiers of records: 16 bytes, written in base64url.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::secret::{base64url, base64url_bytes, from_base64url};

/// Identifier of a record. It grants no access. `KIND` makes the identifiers of different kinds of
/// records different types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id<const KIND: char>(#[serde(with = "base64url_bytes")] [u8; 16]);

impl<const KIND: char> Id<KIND> {
    /// Creates an identifier from these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Parses the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        from_base64url(text)?.try_into().ok().map(Self)
    }

    /// Returns the 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl<const KIND: char> fmt::Display for Id<KIND> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_base64url_form_is_parsed() {
        let id = Id::<'t'>::from_bytes([0xfb; 16]);
        assert_eq!(id.to_string(), "-_v7-_v7-_v7-_v7-_v7-w");
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
        for sound in [Id::parse(&id.to_string()), serde_json::from_str(&format!("\"{id}\"")).ok()] {
            assert_eq!(sound, Some(id));
        }
        for wrong in ["", "-_v7-_v7-_v7-_v7-_v7", "-_v7-_v7-_v7-_v7-_v7-w==", "-_v7-_v7-_v7-_v7-_v7-x", "+/v7"] {
            assert_eq!(Id::<'t'>::parse(wrong), None);
            assert!(serde_json::from_str::<Id<'t'>>(&format!("\"{wrong}\"")).is_err());
        }
        assert!(serde_json::from_str::<Id<'t'>>("7").is_err());
    }
}
