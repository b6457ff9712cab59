//! Parser for untrusted JSON that rejects objects with duplicate members.
//!
//! RFC 8259 §4 does not define which of two duplicate members counts. Another program that checked
//! the document before could therefore read a different value than this parser. RFC 7515 §4 and RFC
//! 7519 §4 permit a parser to reject duplicates.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a document that is an object.
///
/// Returns `None` if the document is not an object, has a duplicate member at any depth, or is
/// nested more than 128 levels deep.
pub fn object(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text) {
        Ok(Unique(Value::Object(members))) => Some(members),
        _ => None,
    }
}

/// JSON value whose objects have no duplicate members.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated members")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("an invalid number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(Unique(element)) = elements.next_element()? {
            read.push(element);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let Unique(value) = members.next_value()?;
            if read.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is repeated"));
            }
        }
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_object_is_parsed_unchanged() {
        let text = r#"{"a": [1, -1, 1.5, "x", true, null, {"b": {}}], "ş": "\u015f"}"#;
        assert_eq!(Some(Value::Object(object(text.as_bytes()).unwrap())), serde_json::from_str(text).ok());
    }

    #[test]
    fn a_repeated_member_is_refused_at_any_depth_and_spelling() {
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"iss": "x", "\u0069ss": "x"}"#,
            r#"{"a": {"b": 1, "b": 2}}"#,
            r#"{"a": [{"b": 1, "c": 2, "b": 2}]}"#,
        ] {
            assert_eq!(object(text.as_bytes()), None, "{text}");
        }
        assert!(object(br#"{"a": 1, "A": 1, "b": {"a": 1}}"#).is_some());
    }

    #[test]
    fn only_objects_of_limited_depth_are_parsed() {
        for text in ["", "[]", "1", "null", "\"a\"", "{", "{} {}", "{}x", "{\"a\":1e999}", "{'a':1}", "\u{feff}{}"] {
            assert_eq!(object(text.as_bytes()), None, "{text}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(object(deep.as_bytes()), None);
        assert_eq!(object(b"{\"a\":\"\xff\"}"), None);
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = object(&text);
        }
    }
}
