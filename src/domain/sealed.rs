//! What lies on the disk sealed, as records hold it. What seals and opens it is the store's `sealer`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::secret::{base64url, from_base64url};

/// Sealed bytes: which data key, which nonce, ciphertext and tag. One base64url text in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// These bytes, as the sealer made them.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64url(&self.0))
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_base64url(&text).map(Self).ok_or_else(|| serde::de::Error::custom("not base64url"))
    }
}
