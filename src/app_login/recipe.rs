//! Recipes: how to sign in to one application, in TOML.

use std::collections::BTreeMap;
use std::fmt::Display;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use toml::Value;

/// Maximum length of a recipe, in bytes.
const MAX_RECIPE_BYTES: usize = 64 * 1024;

/// Maximum number of concurrent sign-ins that a recipe may allow, and the default.
const MAX_CONCURRENT_SIGN_INS: usize = 4;

/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1000;

/// Maximum size of a compiled pattern and of its cache, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Headers that the sign-in sets itself, or that would change the meaning of the request.
const RESERVED_HEADERS: &[HeaderName] = &[
    header::HOST,
    header::COOKIE,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
];

/// Description of an application's login form, checked.
#[derive(Debug, Clone)]
pub struct LoginRecipe {
    pub(crate) page: String,
    pub(crate) form: FormChoice,
    pub(crate) fields: Vec<(String, FieldValue)>,
    pub(crate) submit: SubmitChoice,
    pub(crate) extract: Vec<(String, Regex)>,
    pub(crate) headers: HeaderMap,
    pub(crate) probe: String,
    pub(crate) is_user_in_body: bool,
    pub(crate) success: Vec<ResponseMatcher>,
    pub(crate) failure: Vec<ResponseMatcher>,
    expired: Vec<ResponseMatcher>,
    logout: Option<LogoutRecipe>,
    /// Maximum number of concurrent sign-ins.
    pub max_concurrent_sign_ins: usize,
}

/// Which form of the page is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FormChoice {
    /// The first form with the password field of `fields`.
    Password,
    /// The first form with a field of this name.
    Has(String),
    Id(String),
    Name(String),
    /// Ignores the forms of the page, and sends the fields of the recipe to this path.
    Action(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldValue {
    Password,
    /// Text with the placeholder `{user}`, or a constant.
    Text(String),
}

/// Which submit button is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubmitChoice {
    First,
    Name(String),
    None,
}

/// Conditions on a response. All must be true.
#[derive(Debug, Clone)]
pub(crate) struct ResponseMatcher {
    status: Vec<u16>,
    location: Option<Regex>,
    body: Option<Regex>,
}

impl ResponseMatcher {
    /// Returns whether the response fulfils all conditions. `location` is the header's value.
    pub(crate) fn matches(&self, status: u16, location: Option<&str>, body: &str) -> bool {
        self.matches_head(status, location, true) && self.body.as_ref().is_none_or(|pattern| pattern.is_match(body))
    }

    /// Returns whether a response with this head may fulfil all conditions.
    fn matches_head(&self, status: u16, location: Option<&str>, is_page: bool) -> bool {
        (self.status.is_empty() || self.status.contains(&status))
            && self.location.as_ref().is_none_or(|pattern| location.is_some_and(|text| pattern.is_match(text)))
            && (self.body.is_none() || is_page)
    }
}

/// How to sign out of the application.
#[derive(Debug, Clone)]
pub(crate) struct LogoutRecipe {
    /// Path of the page that contains the token, and a pattern whose group is the token.
    pub token: Option<(String, Regex)>,
    /// Path with the placeholder `{token}`.
    pub path: String,
    /// Fields of the POST request, with the placeholder `{token}`; `None` for GET.
    pub post: Option<Vec<(String, String)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeText {
    page: String,
    form: Option<Value>,
    fields: BTreeMap<String, String>,
    submit: Option<Value>,
    #[serde(default)]
    extract: BTreeMap<String, String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    probe: String,
    #[serde(default)]
    user_in_body: bool,
    success: Value,
    failure: Option<Value>,
    expired: Option<Value>,
    logout: Option<Value>,
    max_concurrent_sign_ins: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FormText {
    has: Option<String>,
    id: Option<String>,
    name: Option<String>,
    action: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatcherText {
    #[serde(default)]
    status: Vec<u16>,
    location: Option<String>,
    body: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogoutText {
    from: Option<String>,
    token: Option<String>,
    path: String,
    method: Option<String>,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl LoginRecipe {
    /// Parses a recipe.
    ///
    /// # Errors
    /// One line with the key and what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_RECIPE_BYTES {
            return Err(format!("the recipe has more than {MAX_RECIPE_BYTES} bytes"));
        }
        let raw: RecipeText = toml::from_str(text).map_err(|error| {
            // The span of a missing key means nothing.
            let is_missing = error.message().starts_with("missing field");
            let start = error.span().filter(|_| !is_missing).map(|span| span.start);
            let line = start.and_then(|start| text.get(..start)).map(|before| before.matches('\n').count() + 1);
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{place}{}", one_line(error.message()))
        })?;
        let mut headers = headers(&raw.headers)?;
        // Patterns for the text of a page depend on the language of the page.
        headers.entry(header::ACCEPT_LANGUAGE).or_insert(HeaderValue::from_static("en"));
        Ok(Self {
            page: path("page", raw.page)?,
            form: raw.form.map_or(Ok(FormChoice::Password), form)?,
            fields: fields(raw.fields)?,
            submit: submit(raw.submit)?,
            extract: extract(raw.extract)?,
            headers,
            probe: path("probe", raw.probe)?,
            is_user_in_body: raw.user_in_body,
            success: matchers("success", raw.success)?,
            failure: raw.failure.map_or(Ok(Vec::new()), |value| matchers("failure", value))?,
            expired: raw.expired.map_or(Ok(Vec::new()), |value| matchers("expired", value))?,
            logout: raw.logout.map(logout).transpose()?,
            max_concurrent_sign_ins: raw.max_concurrent_sign_ins.map_or(Ok(MAX_CONCURRENT_SIGN_INS), concurrent)?,
        })
    }

    /// Returns the path of the login page.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// Returns whether the head of a response suggests that the session has ended.
    ///
    /// - `None`: the head fits no matcher of `expired`.
    /// - `Some(true)`: the head is typical of an ended session.
    /// - `Some(false)`: the head fits a matcher, but is not typical. Either the matcher also has a
    ///   pattern for the body, which is not read here, or the status is 403, which users without
    ///   permission receive too.
    ///
    /// `location` is the header's value. `is_page` is true if the body may be HTML or JSON. Only
    /// such a body can match a pattern.
    pub fn may_be_expired(&self, status: u16, location: Option<&str>, is_page: bool) -> Option<bool> {
        let matching = self.expired.iter().filter(|matcher| matcher.matches_head(status, location, is_page));
        matching.map(|matcher| matcher.body.is_none() && status != 403).max()
    }

    /// Returns whether a request with this method, path and query signs out of the application.
    ///
    /// The request must have the path of `logout` and all constant parameters of that path. If the
    /// recipe signs out with a form, the request must be a POST.
    ///
    /// Returns false if `logout` has the path of the login page or of the probe: applications
    /// redirect signed-out users to the login page, and the probe is an ordinary page.
    pub fn is_sign_out(&self, method: &Method, path: &str, query: Option<&str>) -> bool {
        let Some(logout) = self.logout.as_ref().filter(|logout| logout.post.is_none() || *method == Method::POST)
        else {
            return false;
        };
        let (own_path, own_query) = logout.path.split_once('?').unwrap_or((&logout.path, ""));
        let constants = || own_query.split('&').filter(|pair| !pair.is_empty() && !pair.contains("{token}"));
        let has = |query: &str| constants().all(|wanted| query.split('&').any(|pair| pair == wanted));
        let is_page = [&self.page, &self.probe].iter().any(|page| {
            let (path, query) = page.split_once('?').unwrap_or((page, ""));
            path == own_path && has(query)
        });
        path == own_path && !is_page && has(query.unwrap_or_default())
    }

    /// Returns how to sign out, if the recipe describes it.
    /// Returns whether the gateway sends a sign-out request to the application.
    pub fn has_logout(&self) -> bool {
        self.logout.is_some()
    }

    pub(crate) fn logout(&self) -> Option<&LogoutRecipe> {
        self.logout.as_ref()
    }

    /// Returns the name of the field with the password.
    pub(crate) fn password_field(&self) -> &str {
        let field = self.fields.iter().find(|(_, value)| *value == FieldValue::Password);
        field.map_or("", |(name, _)| name.as_str())
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Parses the value of a key. [`RecipeText`] contains the value as unparsed TOML, so that an error
/// can name the key.
fn typed<T: for<'de> Deserialize<'de>>(key: &str, value: Value) -> Result<T, String> {
    value.try_into().map_err(|error: toml::de::Error| format!("{key}: {}", one_line(error.message())))
}

fn path(key: &str, text: String) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\#\"<>".contains(&byte);
    if text.starts_with('/') && !text.starts_with("//") && text.bytes().all(is_plain) {
        return Ok(text);
    }
    Err(format!("{key}: {text:?} is not a path; write a path such as \"/login\", without scheme, host and fragment"))
}

/// Checks a text that becomes part of a form.
fn text(key: &str, text: &str) -> Result<(), String> {
    if text.contains(['\r', '\n', '\0']) {
        return Err(format!("{key}: remove the line break or NUL"));
    }
    Ok(())
}

fn form(value: Value) -> Result<FormChoice, String> {
    let FormText { has, id, name, action } = typed("form", value)?;
    match (has, id, name, action) {
        (Some(has), None, None, None) => Ok(FormChoice::Has(has)),
        (None, Some(id), None, None) => Ok(FormChoice::Id(id)),
        (None, None, Some(name), None) => Ok(FormChoice::Name(name)),
        (None, None, None, Some(action)) => Ok(FormChoice::Action(path("form.action", action)?)),
        _ => Err("form: write one of has, id, name and action".to_owned()),
    }
}

fn fields(fields: BTreeMap<String, String>) -> Result<Vec<(String, FieldValue)>, String> {
    let mut values = Vec::new();
    for (name, value) in fields {
        let key = format!("fields.{name}");
        text(&key, &name)?;
        text(&key, &value)?;
        let value = if value == "{password}" {
            FieldValue::Password
        } else if value.replace("{user}", "").contains(['{', '}']) {
            return Err(format!(
                "{key}: write \"{{password}}\" alone, or a text with {{user}} and without other braces"
            ));
        } else {
            FieldValue::Text(value)
        };
        values.push((name, value));
    }
    match values.iter().filter(|(_, value)| *value == FieldValue::Password).count() {
        1 => Ok(values),
        number => Err(format!("fields: {number} fields are \"{{password}}\"; write exactly one")),
    }
}

fn submit(value: Option<Value>) -> Result<SubmitChoice, String> {
    match value {
        None => Ok(SubmitChoice::First),
        Some(Value::Boolean(false)) => Ok(SubmitChoice::None),
        Some(Value::String(name)) if !name.is_empty() => Ok(SubmitChoice::Name(name)),
        Some(_) => Err("submit: write the name of the button, or false for none".to_owned()),
    }
}

fn extract(patterns: BTreeMap<String, String>) -> Result<Vec<(String, Regex)>, String> {
    let patterns = patterns.into_iter().map(|(name, pattern)| {
        let key = format!("extract.{name}");
        text(&key, &name)?;
        Ok((name, token_pattern(&key, &pattern)?))
    });
    patterns.collect()
}

fn headers(texts: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in texts {
        let fault = |problem: &str| format!("headers.{name}: {problem}");
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fault("not the name of a header"))?;
        if RESERVED_HEADERS.contains(&header) {
            return Err(fault("the sign-in sets this header itself; remove it"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| fault("write printable ASCII characters only"))?;
        headers.insert(header, value);
    }
    Ok(headers)
}

fn pattern(key: &str, text: &str) -> Result<Regex, String> {
    let fault = |problem: &dyn Display| format!("{key}: {}", one_line(&problem.to_string()));
    if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
        return Err(fault(&format_args!("write a pattern of 1 to {MAX_PATTERN_BYTES} bytes")));
    }
    RegexBuilder::new(text).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build().map_err(|error| {
        match error {
            regex::Error::CompiledTooBig(_) => fault(&"the pattern is too large when compiled; simplify it"),
            // The last line contains the reason. The lines before it repeat the pattern.
            error => fault(&error.to_string().lines().last().unwrap_or_default()),
        }
    })
}

/// Parses a pattern whose first group is a token.
fn token_pattern(key: &str, text: &str) -> Result<Regex, String> {
    let pattern = pattern(key, text)?;
    if pattern.captures_len() == 2 {
        return Ok(pattern);
    }
    Err(format!("{key}: write one group in parentheses around the token"))
}

/// Parses one matcher, or a list of alternatives.
fn matchers(key: &str, value: Value) -> Result<Vec<ResponseMatcher>, String> {
    let values = match value {
        Value::Array(values) => values,
        value => vec![value],
    };
    let matchers = values.into_iter().map(|value| {
        let MatcherText { status, location, body } = typed(key, value)?;
        if status.is_empty() && location.is_none() && body.is_none() {
            return Err(format!("{key}: write status, location or body"));
        }
        if let Some(status) = status.iter().find(|status| !(100..600).contains(*status)) {
            return Err(format!("{key}.status: {status} is not a status; write numbers from 100 to 599"));
        }
        Ok(ResponseMatcher {
            status,
            location: location.map(|text| pattern(&format!("{key}.location"), &text)).transpose()?,
            body: body.map(|text| pattern(&format!("{key}.body"), &text)).transpose()?,
        })
    });
    let matchers = matchers.collect::<Result<Vec<_>, _>>()?;
    if matchers.is_empty() {
        return Err(format!("{key}: write at least one matcher, such as {{ status = [200] }}"));
    }
    Ok(matchers)
}

fn logout(value: Value) -> Result<LogoutRecipe, String> {
    let LogoutText { from, token, path: to, method, data } = typed("logout", value)?;
    let token = match (from, token) {
        (Some(from), Some(token)) => Some((path("logout.from", from)?, token_pattern("logout.token", &token)?)),
        (None, None) => None,
        _ => return Err("logout: write both from and token, or neither".to_owned()),
    };
    // The placeholder is the only part of a path that may contain braces.
    path("logout.path", to.replace("{token}", "t"))?;
    let used = to.contains("{token}") || data.values().any(|value| value.contains("{token}"));
    if used != token.is_some() {
        return Err("logout: write both the key token and {token} in path or data, or neither".to_owned());
    }
    for (name, value) in &data {
        text(&format!("logout.data.{name}"), name)?;
        text(&format!("logout.data.{name}"), value)?;
    }
    let post = match method.as_deref() {
        Some("POST") => Some(data.into_iter().collect()),
        None | Some("GET") if data.is_empty() => None,
        None | Some("GET") => return Err("logout.data: write method = \"POST\"".to_owned()),
        Some(_) => return Err("logout.method: write \"GET\" or \"POST\"".to_owned()),
    };
    Ok(LogoutRecipe { token, path: to, post })
}

fn concurrent(value: Value) -> Result<usize, String> {
    let key = "max_concurrent_sign_ins";
    let number: usize = typed(key, value)?;
    if (1..=MAX_CONCURRENT_SIGN_INS).contains(&number) {
        return Ok(number);
    }
    Err(format!("{key}: write a number from 1 to {MAX_CONCURRENT_SIGN_INS}"))
}

#[cfg(test)]
mod tests;
