//! Request parameters in a query or a body of the type `application/x-www-form-urlencoded` (RFC
//! 6749 appendix B).
//!
//! A parameter without a value counts as omitted, and a known parameter must not be repeated (RFC
//! 6749 §3.1). Unknown parameters may be repeated. The caller defines which parameters are known.

use percent_encoding::percent_decode;

use crate::error::Refusal;

/// Maximum number of parameters in a query or form.
const MAX_PARAMETERS: usize = 100;

/// Decoded parameters in order. The value is `None` if it is not UTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, Option<String>)>);

impl Params {
    /// Decodes a query string or a form body.
    ///
    /// A value that is not UTF-8 is an error only when the parameter is read, because unknown
    /// parameters are ignored (RFC 6749 §3.1, §3.2).
    ///
    /// # Errors
    /// `invalid_request` if there are more than 100 parameters.
    pub fn parse(raw: &[u8]) -> Result<Self, Refusal> {
        let mut list = Vec::new();
        for (count, pair) in raw.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).enumerate() {
            if count == MAX_PARAMETERS {
                return Err(Refusal::invalid_request("There are too many parameters."));
            }
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = (&pair[..at], pair.get(at + 1..).unwrap_or_default());
            if let Some(name) = decode(name) {
                list.push((name, decode(value)));
            }
        }
        Ok(Self(list))
    }

    /// Replaces all values of a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: String) -> Self {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), Some(value)));
        self
    }

    /// Returns the value of a parameter. `None` if it is absent or empty.
    ///
    /// # Errors
    /// `invalid_request` if it is repeated or is not UTF-8.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(known, _)| known == name);
        let first = values.next();
        if values.next().is_some() {
            return Err(Refusal::invalid_request("A parameter is repeated."));
        }
        match first {
            None => Ok(None),
            Some((_, Some(value))) => Ok(Some(value.as_str()).filter(|value| !value.is_empty())),
            Some((_, None)) => Err(Refusal::invalid_request("A parameter is not UTF-8.")),
        }
    }

    /// Returns the value of a required parameter.
    ///
    /// # Errors
    /// `missing` if it is absent or empty, `invalid_request` if it is repeated or not UTF-8.
    pub fn required(&self, name: &str, missing: Refusal) -> Result<&str, Refusal> {
        self.one(name)?.ok_or(missing)
    }

    /// Returns whether the parameter is present, even if it is empty or repeated.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Returns the parameters that have a UTF-8 value, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?)))
    }

    /// Returns whether any of these parameters is repeated.
    pub fn repeats_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.iter().filter(|(known, _)| known == name).count() > 1)
    }
}

fn decode(raw: &[u8]) -> Option<String> {
    let spaced: Vec<u8> = raw.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_decoded_once() {
        let params = Params::parse(b"a=1+2%2B3&b=%2525&c=&=x&flag").unwrap();
        assert_eq!(params.one("a").unwrap(), Some("1 2+3"));
        assert_eq!(params.one("b").unwrap(), Some("%25"));
        assert_eq!(params.one("c").unwrap(), None);
        assert!(params.has("flag") && !params.has("d"));
    }

    #[test]
    fn a_repeated_parameter_is_refused_only_where_it_is_read() {
        let params = Params::parse(b"x=1&x=2&y=3").unwrap();
        assert!(params.one("x").is_err());
        assert_eq!(params.one("y").unwrap(), Some("3"));
    }

    #[test]
    fn a_value_that_is_not_utf_8_is_refused_only_where_it_is_read() {
        let params = Params::parse(b"x=%FF&%FF=1&y=3").unwrap();
        assert!(params.one("x").is_err() && params.has("x"));
        assert_eq!(params.one("y").unwrap(), Some("3"));
    }

    proptest! {
        #[test]
        fn any_text_survives_encoding(text in ".*") {
            let raw: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("k", &text).finish();
            let params = Params::parse(raw.as_bytes()).unwrap();
            prop_assert_eq!(params.one("k").unwrap().unwrap_or_default(), text.as_str());
        }

        #[test]
        fn no_bytes_cause_a_panic(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Params::parse(&raw);
        }
    }
}
