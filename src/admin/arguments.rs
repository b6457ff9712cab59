//! Parsers and types of command-line values.

use std::fmt;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::ops::Deref;

use chrono::{DateTime, NaiveDate, NaiveTime};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Error, FromArgMatches};
use serde::{Deserialize, Serialize};

use crate::user_settings::NewNames;
use crate::users::UserRef;
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::assertion_source::{ClientJwks, MAX_JWKS_LENGTH, Workload};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::{AuthMethod, ClientId, ClientType, ConsentRule, GrantType};
use sealgate_domain::client_logo::{LogoPicture, MAX_LOGO_BYTES};
use sealgate_domain::grant::GrantId;
use sealgate_domain::language::Language;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::rate_limit::{RateLimit, RateLimitFault};
use sealgate_domain::session::SessionId;
use sealgate_domain::source::SourceName;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Role, UserState};
use sealgate_domain::username::Username;

#[derive(Args)]
struct UserArgument {
    /// User ID (sub), e-mail address or username
    #[arg(value_name = "USER", value_parser = user)]
    user: UserRef,
}

impl Args for UserRef {
    fn augment_args(command: clap::Command) -> clap::Command {
        UserArgument::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        UserArgument::augment_args_for_update(command)
    }
}

impl FromArgMatches for UserRef {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        UserArgument::from_arg_matches(matches).map(|argument| argument.user)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Args)]
struct NewNamesArguments {
    /// E-mail address or username; the user signs in with it. A user with only a username receives no mail and needs
    /// --password-stdin
    #[arg(value_name = "EMAIL|USERNAME", value_parser = new_name)]
    sign_in_name: NewNames,
    /// Username in addition to an e-mail address; the user can sign in with it, and applications may show it
    #[arg(long, value_parser = username)]
    username: Option<Username>,
}

/// Parses an e-mail address or a username.
fn new_name(text: &str) -> Result<NewNames, &'static str> {
    let names = if text.contains('@') {
        NewNames { email: Some(email(text)?), username: None }
    } else {
        NewNames { email: None, username: Some(username(text)?) }
    };
    Ok(names)
}

impl Args for NewNames {
    fn augment_args(command: clap::Command) -> clap::Command {
        NewNamesArguments::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        NewNamesArguments::augment_args_for_update(command)
    }
}

impl FromArgMatches for NewNames {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let NewNamesArguments { sign_in_name: mut names, username } = NewNamesArguments::from_arg_matches(matches)?;
        if names.username.is_some() && username.is_some() {
            let fault = "--username needs an e-mail address before it; a user has only one username";
            return Err(Error::raw(ErrorKind::ArgumentConflict, fault));
        }
        names.username = names.username.or(username);
        Ok(names)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Client that a command names. Generated IDs may begin with a hyphen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(transparent)]
pub struct ClientArgument {
    /// Client ID
    #[arg(value_name = "CLIENT", value_parser = client_id, allow_hyphen_values = true)]
    pub client: ClientId,
}

impl Deref for ClientArgument {
    type Target = ClientId;

    fn deref(&self) -> &ClientId {
        &self.client
    }
}

impl fmt::Display for ClientArgument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(formatter)
    }
}

impl From<ClientId> for ClientArgument {
    fn from(client: ClientId) -> Self {
        Self { client }
    }
}

/// Parses a `sub`, an e-mail address or a username.
///
/// # Errors
/// If the text has none of these forms.
pub fn user(text: &str) -> Result<UserRef, &'static str> {
    UserRef::parse(text).ok_or("not a sub (a UUID), an e-mail address or a username")
}

pub(super) fn source(text: &str) -> Result<SourceName, &'static str> {
    SourceName::parse(text).ok_or("not the name of a directory or provider in the configuration")
}

pub(super) fn email(text: &str) -> Result<Email, &'static str> {
    Email::parse(text).ok_or("write an e-mail address as name@host, without spaces")
}

pub(super) fn username(text: &str) -> Result<Username, &'static str> {
    Username::parse(text).ok_or(
        "a username has 1 to 64 of a-z, 0-9, '.', '_' and '-', starts with a letter, ends with a letter or \
         digit, and is not a UUID",
    )
}

pub(super) fn client_id(text: &str) -> Result<ClientId, &'static str> {
    ClientId::parse(text).ok_or("a client ID has 1 to 100 letters, digits, '-', '.', '_' or '~'")
}

pub(super) fn session_id(text: &str) -> Result<SessionId, &'static str> {
    SessionId::parse(text).ok_or("not a session ID; `sealgate session list` shows them")
}

pub(super) fn grant_id(text: &str) -> Result<GrantId, &'static str> {
    GrantId::parse(text).ok_or("not a grant ID; `sealgate grant list` shows them")
}

pub(super) fn audit_kind(text: &str) -> Result<AuditKind, String> {
    AuditKind::parse(text).ok_or_else(|| {
        let known: Vec<_> = AuditKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("the kinds are {}", known.join(", "))
    })
}

/// Expiry of a new client secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretExpiry {
    At(UnixTime),
    /// Seconds after the secret is created.
    In(u64),
}

/// Parses an expiry: a day or a time, or a duration such as `90d`.
pub(super) fn secret_expiry(text: &str) -> Result<SecretExpiry, &'static str> {
    const FAULT: &str =
        "write a day such as 2027-01-31, a time such as 2027-01-31T08:00:00Z, or a duration such as 12h or 90d";
    if let Ok(at) = day_or_instant(text) {
        return Ok(SecretExpiry::At(at));
    }
    let unit = match text.chars().next_back() {
        Some('m') => 60,
        Some('h') => 60 * 60,
        Some('d') => 24 * 60 * 60,
        Some('w') => 7 * 24 * 60 * 60,
        _ => return Err(FAULT),
    };
    let number: u32 = text.get(..text.len() - 1).and_then(|number| number.parse().ok()).ok_or(FAULT)?;
    Ok(SecretExpiry::In(u64::from(number) * unit))
}

/// Reads the public keys of a client from a file.
pub(super) fn jwks_file(path: &str) -> Result<ClientJwks, String> {
    let fault = |error: io::Error| format!("cannot read {path}: {error}");
    let mut text = String::new();
    let file = File::open(path).map_err(fault)?;
    file.take(MAX_JWKS_LENGTH as u64 + 1).read_to_string(&mut text).map_err(fault)?;
    ClientJwks::parse(&text).map_err(|problem| format!("{path}: {problem}"))
}

/// Reads the logo of a client from a file. An empty name removes the logo.
pub(super) fn logo_file(path: &str) -> Result<Setting<LogoPicture>, String> {
    if path.is_empty() {
        return Ok(Setting::Removed);
    }
    let fault = |error: io::Error| format!("cannot read {path}: {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fault)?;
    file.take(MAX_LOGO_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    LogoPicture::parse(bytes).map(Setting::Set).map_err(|problem| format!("{path}: {problem}"))
}

/// Parses a workload: the name of a trusted issuer, and the subject of its tokens.
pub(super) fn workload(text: &str) -> Result<Workload, String> {
    let (issuer, subject) =
        text.split_once('=').ok_or("write ISSUER=SUBJECT, such as k8s=system:serviceaccount:jobs:backup")?;
    Workload::new(issuer, subject)
}

/// Parses a day in UTC, or a time (RFC 3339).
pub(super) fn day_or_instant(text: &str) -> Result<UnixTime, &'static str> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    let seconds = day.and_then(|day| u64::try_from(day.timestamp()).ok()).map(UnixTime::from_seconds);
    seconds
        .or_else(|| instant(text).ok())
        .ok_or("write a day such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z")
}

pub(super) fn instant(text: &str) -> Result<UnixTime, &'static str> {
    let at = DateTime::parse_from_rfc3339(text).ok().and_then(|at| u64::try_from(at.timestamp()).ok());
    at.map(UnixTime::from_seconds).ok_or("write date, time and zone, such as 2027-01-31T08:00:00Z")
}

pub(super) fn rate_limit(text: &str) -> Result<RateLimit, RateLimitFault> {
    RateLimit::parse(text)
}

/// Change of an optional setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting<T> {
    /// Remove the setting.
    Removed,
    /// Set this value.
    Set(T),
}

/// Parses a limit, or the word `default`.
pub(super) fn rate_limit_or_default(text: &str) -> Result<Setting<RateLimit>, &'static str> {
    let fault = "a rate limit is a whole number from 1 to 1000000, \"none\", or \"default\" for the configured limit";
    if text == "default" { Ok(Setting::Removed) } else { RateLimit::parse(text).map(Setting::Set).map_err(|_| fault) }
}

/// Parses seconds, or the word `default`.
pub(super) fn seconds_or_default(text: &str) -> Result<Setting<u64>, &'static str> {
    let fault = "a whole number of seconds, or \"default\" for the configured value";
    if text == "default" { Ok(Setting::Removed) } else { text.parse().map(Setting::Set).map_err(|_| fault) }
}

/// Parses seconds, or the word `none`.
pub(super) fn seconds_or_none(text: &str) -> Result<Setting<u64>, &'static str> {
    let fault = "a whole number of seconds, or \"none\"";
    if text == "none" { Ok(Setting::Removed) } else { text.parse().map(Setting::Set).map_err(|_| fault) }
}

/// Parses an assurance level.
///
/// # Errors
/// If the text is not a level.
pub fn level(text: &str) -> Result<AssuranceLevel, &'static str> {
    AssuranceLevel::parse(text).ok_or("a level is 1, 2 or 3")
}

/// Parses a signature algorithm.
pub fn algorithm(text: &str) -> Result<Algorithm, &'static str> {
    Algorithm::parse(text).ok_or("an algorithm is RS256, PS256, ES256 or EdDSA")
}

/// Parses a level, or the word `none`.
pub(super) fn level_or_none(text: &str) -> Result<Setting<AssuranceLevel>, &'static str> {
    let fault = "a level is 1, 2 or 3, or \"none\"";
    if text == "none" { Ok(Setting::Removed) } else { level(text).map(Setting::Set).map_err(|_| fault) }
}

/// Parses a user, or the word `none`.
pub(super) fn user_or_none(text: &str) -> Result<Setting<UserRef>, &'static str> {
    if text == "none" { Ok(Setting::Removed) } else { user(text).map(Setting::Set) }
}

/// Parses a string; an empty one removes the setting.
#[expect(clippy::unnecessary_wraps, reason = "the signature that clap needs")]
pub(super) fn text_or_empty(text: &str) -> Result<Setting<String>, &'static str> {
    Ok(if text.is_empty() { Setting::Removed } else { Setting::Set(text.to_owned()) })
}

/// Parses a language of the pages: `tr` or `en`.
pub fn language(tag: &str) -> Result<Language, &'static str> {
    Language::parse(tag).ok_or("write tr or en")
}

pub(super) fn api_scope(text: &str) -> Result<ApiScope, String> {
    ApiScope::parse(text).ok_or_else(|| {
        let known = ApiScope::ALL.map(ApiScope::as_str);
        format!("the scopes are {}", known.join(", "))
    })
}

pub(super) fn user_state() -> impl TypedValueParser<Value = UserState> {
    one_of(&[
        ("enabled", UserState::Enabled, "May sign in"),
        ("disabled", UserState::Disabled, "Disabled in this installation"),
    ])
}

pub(super) fn role() -> impl TypedValueParser<Value = Role> {
    one_of(&[
        ("developer", Role::Developer, "May register clients"),
        ("auditor", Role::Auditor, "May read everything in the console"),
        ("admin", Role::Admin, "May do everything"),
    ])
}

pub(super) fn client_type() -> impl TypedValueParser<Value = ClientType> {
    one_of(&[
        ("public", ClientType::Public, "Cannot keep a secret: a mobile, desktop or single-page application"),
        ("confidential", ClientType::Confidential, "Keeps a secret: an application on a server"),
    ])
}

pub(super) fn auth_method() -> impl TypedValueParser<Value = AuthMethod> {
    one_of(&[
        ("client_secret_basic", AuthMethod::ClientSecretBasic, "HTTP Basic (the default of confidential clients)"),
        ("client_secret_post", AuthMethod::ClientSecretPost, "In the form body"),
        ("private_key_jwt", AuthMethod::PrivateKeyJwt, "Signed assertion; needs --jwks, --jwks-uri or --workload"),
        ("none", AuthMethod::None, "No authentication (the only method of public clients)"),
    ])
}

pub(super) fn grant_type() -> impl TypedValueParser<Value = GrantType> {
    one_of(&[
        ("authorization_code", GrantType::AuthorizationCode, "Exchange the code of a sign-in for tokens"),
        ("refresh_token", GrantType::RefreshToken, "Exchange a refresh token for new tokens"),
    ])
}

pub(super) fn consent_rule() -> impl TypedValueParser<Value = ConsentRule> {
    one_of(&[
        ("ask", ConsentRule::Ask, "Users are asked before the client receives their data"),
        ("implied", ConsentRule::Implied, "Users are not asked; for the operator's own applications"),
    ])
}

/// Creates a parser for one of these words; each has a value and a description.
fn one_of<T: Copy + Send + Sync>(words: &'static [(&str, T, &str)]) -> impl TypedValueParser<Value = T> {
    let values = words.iter().map(|(word, _, meaning)| PossibleValue::new(word).help(*meaning));
    PossibleValuesParser::new(values).try_map(|text| {
        let entry = words.iter().find(|(word, ..)| *word == text);
        entry.map(|(_, value, _)| *value).ok_or("not one of the allowed values")
    })
}
