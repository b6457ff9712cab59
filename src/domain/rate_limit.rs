//! Rate limits for requests.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum limit, in requests per minute.
pub const MAX_PER_MINUTE: u32 = 1_000_000;

/// Rate limit, written as a number or as the word `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum RateLimit {
    /// Requests per minute, 1 to [`MAX_PER_MINUTE`].
    PerMinute(u32),
    Unlimited,
}

/// Error: the text or number is not a valid limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rate limit is a whole number from 1 to {MAX_PER_MINUTE}, or \"none\"")]
pub struct RateLimitFault;

impl RateLimit {
    /// Creates a limit in requests per minute.
    ///
    /// # Errors
    /// Returns an error if the number is not between 1 and [`MAX_PER_MINUTE`].
    pub fn per_minute(requests: u32) -> Result<Self, RateLimitFault> {
        if (1..=MAX_PER_MINUTE).contains(&requests) { Ok(Self::PerMinute(requests)) } else { Err(RateLimitFault) }
    }

    /// Parses a limit.
    ///
    /// # Errors
    /// Returns an error if the text is neither a valid number nor `none`.
    pub fn parse(text: &str) -> Result<Self, RateLimitFault> {
        match text {
            "none" => Ok(Self::Unlimited),
            number => number.parse().map_err(|_| RateLimitFault).and_then(Self::per_minute),
        }
    }

    /// Returns the requests per minute. `None` if unlimited.
    pub const fn requests(self) -> Option<u32> {
        match self {
            Self::PerMinute(requests) => Some(requests),
            Self::Unlimited => None,
        }
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerMinute(requests) => requests.fmt(f),
            Self::Unlimited => f.write_str("none"),
        }
    }
}

/// JSON form of the limit.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u32),
    Word(String),
}

impl TryFrom<Written> for RateLimit {
    type Error = RateLimitFault;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        match written {
            Written::Number(requests) => Self::per_minute(requests),
            Written::Word(word) if word == "none" => Ok(Self::Unlimited),
            Written::Word(_) => Err(RateLimitFault),
        }
    }
}

impl From<RateLimit> for Written {
    fn from(limit: RateLimit) -> Self {
        match limit {
            RateLimit::PerMinute(requests) => Self::Number(requests),
            RateLimit::Unlimited => Self::Word("none".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_in_range_or_none() {
        for (text, limit) in [("1", 1), ("4096", 4096), ("1000000", 1_000_000)] {
            assert_eq!(RateLimit::parse(text), Ok(RateLimit::PerMinute(limit)));
        }
        assert_eq!(RateLimit::parse("none"), Ok(RateLimit::Unlimited));
        for wrong in ["", "0", "1000001", "-1", "1.5", "None", "unlimited", "4294967297"] {
            assert_eq!(RateLimit::parse(wrong), Err(RateLimitFault), "{wrong}");
        }
    }

    #[test]
    fn a_limit_is_unchanged_after_storing_and_reading() {
        for (limit, json) in [(RateLimit::PerMinute(4200), "4200"), (RateLimit::Unlimited, "\"none\"")] {
            assert_eq!(serde_json::to_string(&limit).unwrap(), json);
            assert_eq!(serde_json::from_str::<RateLimit>(json).unwrap(), limit);
        }
        for wrong in ["0", "1000001", "\"default\"", "\"50\"", "null"] {
            assert!(serde_json::from_str::<RateLimit>(wrong).is_err(), "{wrong}");
        }
    }
}
