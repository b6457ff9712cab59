//! Members of a request: one table of fields per request, from which the values are read and the
//! description is made.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};
use zeroize::Zeroize as _;

use super::problem::ApiProblem;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::Secret;

/// Member of a body, or parameter of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    /// Whether the value may be null, which removes a setting.
    nullable: bool,
}

/// Type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Text of at most this many characters.
    Text(usize),
    Flag,
    /// Whole number in this range.
    Number(u64, u64),
    Choice(&'static [&'static str]),
    /// List of at most this many texts.
    Texts(usize),
    /// List of some of these words.
    Choices(&'static [&'static str]),
    /// JSON object, whose content the command checks.
    Object,
    /// Requests per minute, or `none`.
    Limit,
}

/// Maximum number of characters of a text in a list.
const MAX_ITEM_CHARS: usize = 2000;

pub(super) const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, nullable: true }
}

/// Creates a field whose value cannot be removed.
pub(super) const fn fixed(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, nullable: false }
}

impl Kind {
    fn fault(self, value: &Value) -> Option<String> {
        let one_of = |words: &[&str]| format!("must be one of {}", words.join(", "));
        match (self, value) {
            (Self::Text(most), Value::String(text)) => {
                (text.chars().count() > most).then(|| format!("has more than {most} characters"))
            }
            (Self::Text(_), _) => Some("must be a string".to_owned()),
            (Self::Flag, Value::Bool(_)) | (Self::Object, Value::Object(_)) => None,
            (Self::Flag, _) => Some("must be true or false".to_owned()),
            (Self::Number(least, most), value) => {
                let is_within = value.as_u64().is_some_and(|number| (least..=most).contains(&number));
                (!is_within).then(|| format!("must be a whole number from {least} to {most}"))
            }
            (Self::Choice(words), value) => {
                let is_known = value.as_str().is_some_and(|word| words.contains(&word));
                (!is_known).then(|| one_of(words))
            }
            (Self::Texts(most), Value::Array(items)) => {
                let is_text = |item: &Value| item.as_str().is_some_and(|text| text.chars().count() <= MAX_ITEM_CHARS);
                let is_valid = items.len() <= most && items.iter().all(is_text);
                (!is_valid).then(|| format!("must be a list of at most {most} strings"))
            }
            (Self::Texts(_), _) => Some("must be a list of strings".to_owned()),
            (Self::Choices(words), value) => {
                let is_known = |item: &Value| item.as_str().is_some_and(|word| words.contains(&word));
                let is_valid = value.as_array().is_some_and(|items| items.iter().all(is_known));
                (!is_valid).then(|| format!("must be a list of {}", words.join(", ")))
            }
            (Self::Object, _) => Some("must be an object".to_owned()),
            (Self::Limit, Value::String(word)) if word == "none" => None,
            (Self::Limit, value) => {
                let is_within = value.as_u64().is_some_and(|number| (1..=1_000_000).contains(&number));
                (!is_within).then(|| "must be a whole number from 1 to 1000000, or \"none\"".to_owned())
            }
        }
    }

    /// Returns the JSON Schema.
    pub(super) fn schema(self) -> Value {
        match self {
            Self::Text(most) => json!({ "type": "string", "maxLength": most }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Number(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
            Self::Choice(words) => json!({ "type": "string", "enum": words }),
            Self::Texts(most) => {
                let items = json!({ "type": "string", "maxLength": MAX_ITEM_CHARS });
                json!({ "type": "array", "maxItems": most, "items": items })
            }
            Self::Choices(words) => json!({ "type": "array", "items": { "type": "string", "enum": words } }),
            Self::Object => json!({ "type": "object" }),
            Self::Limit => {
                json!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 1_000_000 }, { "const": "none" }] })
            }
        }
    }

    /// Reads the value of a query parameter.
    fn of_query(self, text: &str) -> Value {
        match self {
            Self::Flag if text == "true" => Value::Bool(true),
            Self::Flag if text == "false" => Value::Bool(false),
            // The command line does not accept a sign either.
            Self::Number(..) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse::<u64>().map_or(Value::Null, Value::from)
            }
            _ => Value::from(text),
        }
    }
}

/// Members of a request that fit their fields. Strings are wiped when they are dropped.
#[derive(Default)]
pub(super) struct RequestMembers(Map<String, Value>);

impl Drop for RequestMembers {
    fn drop(&mut self) {
        for value in self.0.values_mut() {
            if let Value::String(text) = value {
                text.zeroize();
            }
        }
    }
}

impl RequestMembers {
    /// Reads a JSON body. A member may be null if its field permits it and it is not required.
    ///
    /// # Errors
    /// 400 if the body is not one JSON object or repeats a member, 422 if a member is unknown or has
    /// another type, or a required member is missing.
    pub(super) fn read(body: &[u8], fields: &[Field], required: &[&str]) -> Result<Self, ApiProblem> {
        let read: Strict = serde_json::from_slice(body).map_err(|error| {
            if error.is_data() {
                return ApiProblem::malformed(format!("The body is refused: {error}."));
            }
            let (line, column) = (error.line(), error.column());
            ApiProblem::malformed(format!("The body is not valid JSON (line {line}, column {column})."))
        })?;
        let Value::Object(members) = read.0 else {
            return Err(ApiProblem::malformed("The body must be a JSON object."));
        };
        let members = Self(members);
        let mut faults = Vec::new();
        for (name, value) in &members.0 {
            match fields.iter().find(|field| field.name == name) {
                None => faults.push(format!("{name:?} is not a member of this object")),
                Some(field) if value.is_null() && field.nullable && !required.contains(&name.as_str()) => {}
                Some(field) => faults.extend(field.kind.fault(value).map(|fault| format!("{name:?} {fault}"))),
            }
        }
        let missing = required.iter().filter(|name| !members.0.contains_key(**name));
        faults.extend(missing.map(|name| format!("{name:?} is missing")));
        if faults.is_empty() { Ok(members) } else { Err(ApiProblem::invalid(faults)) }
    }

    /// Reads the query.
    ///
    /// # Errors
    /// 400 if a parameter is unknown, repeated or invalid.
    pub(super) fn of_query(query: &Params, fields: &[Field]) -> Result<Self, ApiProblem> {
        let mut members = Map::new();
        for (name, text) in query.pairs() {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                return Err(ApiProblem::malformed(format!("The query parameter {name:?} is unknown.")));
            };
            let value = field.kind.of_query(text);
            if let Some(fault) = field.kind.fault(&value) {
                return Err(ApiProblem::malformed(format!("The query parameter {name:?} {fault}.")));
            }
            if members.insert(name.to_owned(), value).is_some() {
                return Err(ApiProblem::malformed(format!("The query parameter {name:?} is repeated.")));
            }
        }
        Ok(Self(members))
    }

    /// Returns the value of a member: `None` if it is absent, `Some(None)` if it is null.
    #[expect(clippy::option_option, reason = "an absent member differs from null")]
    fn given(&self, name: &str) -> Option<Option<&Value>> {
        self.0.get(name).map(|value| Some(value).filter(|value| !value.is_null()))
    }

    /// Returns whether the request has the member, with any value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the text of a member. An absent member is `None`, null is `Some(None)`.
    #[expect(clippy::option_option, reason = "an absent member differs from null")]
    pub(super) fn text(&self, name: &str) -> Option<Option<&str>> {
        self.given(name).map(|value| value.and_then(Value::as_str))
    }

    /// Returns the text of a member, unless it is absent or null.
    pub(super) fn some_text(&self, name: &str) -> Option<&str> {
        self.text(name).flatten()
    }

    /// Returns the secret of a member, unless it is absent or null.
    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        self.some_text(name).map(Secret::new)
    }

    #[expect(clippy::option_option, reason = "an absent member differs from null")]
    pub(super) fn flag(&self, name: &str) -> Option<Option<bool>> {
        self.given(name).map(|value| value.and_then(Value::as_bool))
    }

    #[expect(clippy::option_option, reason = "an absent member differs from null")]
    pub(super) fn number(&self, name: &str) -> Option<Option<u64>> {
        self.given(name).map(|value| value.and_then(Value::as_u64))
    }

    /// Returns the texts of a list. Null is an empty list.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<String>> {
        let texts = |value: Option<&Value>| -> Vec<String> {
            let items = value.and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        self.given(name).map(texts)
    }

    /// Returns any value, unless it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.given(name).flatten()
    }
}

/// Returns the JSON Schema of a body.
pub(super) fn schema(fields: &[Field], required: &[&str]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.kind.schema();
        if field.nullable && !required.contains(&field.name) {
            schema = json!({ "anyOf": [schema, { "type": "null" }] });
        }
        schema["description"] = json!(field.about);
        properties.insert(field.name.to_owned(), schema);
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// JSON value without repeated members. Two parsers could read different values of a repeated member.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let Strict(value) = entries.next_value()?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("an object has two members with the same name"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        field("name", Kind::Text(5), ""),
        field("count", Kind::Number(1, 9), ""),
        field("tags", Kind::Texts(2), ""),
        fixed("keys", Kind::Object, ""),
    ];

    fn status(body: &[u8]) -> u16 {
        RequestMembers::read(body, FIELDS, &["name"])
            .map_or_else(|problem| problem.into_response().status().as_u16(), |_| 200)
    }

    #[test]
    fn a_body_with_two_readings_is_refused() {
        for body in [
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","keys":{"x":1,"x":2}}"#,
            r#"{"name":"a","na\u006de":"b"}"#,
            r#"{"name":"a"}{}"#,
            r#"{"name":"\ud800"}"#,
            r#"{"name":"a","count":1e400}"#,
            "[]",
            "",
        ] {
            assert_eq!(status(body.as_bytes()), 400, "{body}");
        }
        assert_eq!(status(b"{\"name\":\"\xff\"}"), 400);
        assert_eq!(status("[".repeat(100_000).as_bytes()), 400);
    }

    #[test]
    fn a_member_must_fit_its_field() {
        for body in [
            "{}",
            r#"{"name":null}"#,
            r#"{"name":"abcdef"}"#,
            r#"{"name":"a","count":0}"#,
            r#"{"name":"a","count":1.0}"#,
            r#"{"name":"a","count":-1}"#,
            r#"{"name":"a","count":18446744073709551616}"#,
            r#"{"name":"a","tags":["a","b","c"]}"#,
            r#"{"name":"a","tags":[1]}"#,
            r#"{"name":"a","other":1}"#,
            r#"{"name":"a","keys":null}"#,
        ] {
            assert_eq!(status(body.as_bytes()), 422, "{body}");
        }
        let fits = r#"{"name":"çğıöş","count":9,"tags":null,"keys":{}}"#;
        assert_eq!(status(fits.as_bytes()), 200);
    }
}
