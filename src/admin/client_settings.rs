//! The command that changes a client's settings: every one that a client has, whoever made it.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::clients::{absent, auth_method, fresh_secret, kept, name_fault, record_change, retry_fault, scope, uris};
use super::command::Person;
use super::execute::{CommandError, Directory};
use super::{users, view};
use crate::domain::client::{
    AuthMethod, Client, ClientDecision, ClientId, ClientSecret, ClientType, ConsentRule, GrantType,
};
use crate::domain::profile::is_line;
use crate::domain::rate_limit::RateLimit;
use crate::domain::redirect_uri::RedirectUri;
use crate::domain::user::Subject;

/// The longest description, characters, as in the console.
const LONGEST_DESCRIPTION: usize = 500;
/// The longest `default_max_age`, seconds: a year, as long as a session can be.
const LONGEST_MAX_AGE: u64 = 366 * 24 * 60 * 60;

/// What becomes of a client's settings. Those that are absent stay as they are; they are checked when they are written, so
/// that every fault is told at once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientSettings {
    /// Its name.
    pub name: Option<String>,
    /// Whether it can keep a secret. One that comes to be confidential gets a secret; one that comes to be public loses its own.
    pub client_type: Option<ClientType>,
    /// Where codes may be sent, in place of all before.
    pub redirect_uris: Option<Vec<String>>,
    /// Where browsers may be sent after a logout, in place of all before.
    pub post_logout_redirect_uris: Option<Vec<String>>,
    /// What it may ask for, space-separated.
    pub scope: Option<String>,
    /// The grants that it may use.
    pub grant_types: Option<Vec<GrantType>>,
    /// How it authenticates.
    pub auth_method: Option<AuthMethod>,
    /// Whether people are asked.
    pub consent: Option<ConsentRule>,
    /// What it is, in a sentence.
    pub description: Setting<String>,
    /// Its home page.
    pub client_uri: Setting<String>,
    /// Where a sign-in can be started from outside.
    pub initiate_login_uri: Setting<String>,
    /// `max_age` of requests that name none, seconds.
    pub default_max_age: Setting<u64>,
    /// How long a rotated refresh token still gives the same new one, seconds.
    pub refresh_retry_seconds: Setting<u64>,
    /// How often it may come to the token endpoint.
    pub token_limit: Setting<RateLimit>,
    /// The developer whose client it is.
    pub owner: Setting<Person>,
}

/// What becomes of a setting that a client need not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting<T> {
    /// It stays as it is.
    #[default]
    Kept,
    /// It goes.
    Removed,
    /// It becomes this.
    Set(T),
}

impl<T> Setting<T> {
    /// The value that it becomes, if it becomes one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Kept | Self::Removed => None,
        }
    }

    /// Changes a kept value.
    pub fn apply<U>(&self, kept: &mut Option<U>, read: impl FnOnce(&T) -> U) {
        match self {
            Self::Kept => {}
            Self::Removed => *kept = None,
            Self::Set(value) => *kept = Some(read(value)),
        }
    }
}

/// What the settings need that they cannot know.
struct Means {
    /// The secret that a client gets if it comes to be confidential.
    secret: ClientSecret,
    owner: Option<Subject>,
    /// By whom the client stays approved if it goes to a developer.
    decision: ClientDecision,
}

pub(super) async fn set(
    directory: &Directory<'_>,
    id: &ClientId,
    settings: &ClientSettings,
) -> Result<Answer, CommandError> {
    let owner = match &settings.owner {
        Setting::Set(person) => Some(users::find(directory, person).await?.sub),
        Setting::Kept | Setting::Removed => None,
    };
    let (secret, now) = (fresh_secret(directory), directory.clock.now());
    let means =
        Means { secret: kept(&secret, now), owner, decision: ClientDecision { by: directory.authority, at: now } };
    let outcome = Mutex::new(Ok(Vec::new()));
    let change = |client: &mut Client| {
        let mut next = client.clone();
        let changed = settings.apply(&mut next, &means).map(|()| changes(client, &next));
        if changed.is_ok() {
            *client = next;
        }
        // The last attempt is the one that was committed.
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = changed;
    };
    let client = directory.store.change_client(id, change).await?.ok_or_else(|| absent(id))?;
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    let changed = outcome.map_err(CommandError::Invalid)?;
    if !changed.is_empty() {
        record_change(directory, id, &format!("set {}", changed.join(", "))).await;
    }
    let answer = view::client(&client);
    let is_new = client.secrets.iter().any(|one| one.hash == means.secret.hash);
    Ok(if is_new { answer.with("client_secret", secret.expose()) } else { answer })
}

impl ClientSettings {
    /// Changes a client, or tells every fault.
    fn apply(&self, client: &mut Client, means: &Means) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        if let Some(name) = &self.name {
            faults.extend(name_fault(name));
            client.name.clone_from(name);
        }
        if let Some(written) = &self.redirect_uris {
            client.redirect_uris = uris("redirect URI", written, &mut faults);
            if written.is_empty() {
                faults.push("a client needs at least one redirect URI".to_owned());
            }
        }
        if let Some(written) = &self.post_logout_redirect_uris {
            client.post_logout_redirect_uris = uris("post-logout redirect URI", written, &mut faults);
        }
        if let Some(written) = &self.scope {
            match scope(Some(written)) {
                Ok(scope) => client.scope = scope,
                Err(fault) => faults.push(fault),
            }
        }
        if let Some(grants) = &self.grant_types {
            client.grant_types = [GrantType::AuthorizationCode, GrantType::RefreshToken]
                .into_iter()
                .filter(|grant| grants.contains(grant))
                .collect();
            if !client.may_use(GrantType::AuthorizationCode) {
                faults.push("a client needs the grant authorization_code: every other one begins with it".to_owned());
            }
        }
        self.authenticate(client, means).unwrap_or_else(|fault| faults.push(fault));
        client.consent = self.consent.unwrap_or(client.consent);
        self.detail(client, &mut faults);
        faults.extend(retry_fault(self.refresh_retry_seconds.value().copied()));
        self.refresh_retry_seconds.apply(&mut client.refresh_retry_seconds, |seconds| *seconds);
        self.token_limit.apply(&mut client.token_limit, |limit| *limit);
        self.hand_over(client, means);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn authenticate(&self, client: &mut Client, means: &Means) -> Result<(), String> {
        let client_type = self.client_type.unwrap_or(client.client_type);
        if client_type != client.client_type {
            client.client_type = client_type;
            client.auth_method = auth_method(client_type, self.auth_method)?;
            client.secrets = (!client.is_public()).then(|| means.secret.clone()).into_iter().collect();
        } else if self.auth_method.is_some() {
            client.auth_method = auth_method(client_type, self.auth_method)?;
        }
        Ok(())
    }

    fn detail(&self, client: &mut Client, faults: &mut Vec<String>) {
        let details = &mut client.details;
        self.description.apply(&mut details.description, Clone::clone);
        if self.description.value().is_some_and(|text| !is_line(text, LONGEST_DESCRIPTION)) {
            faults.push(format!(
                "a description has 1 to {LONGEST_DESCRIPTION} characters, all of them visible, and no line breaks"
            ));
        }
        for (what, setting, kept) in [
            ("home page", &self.client_uri, &mut details.client_uri),
            ("address to start a sign-in at", &self.initiate_login_uri, &mut details.initiate_login_uri),
        ] {
            setting.apply(kept, Clone::clone);
            let is_https = |text: &String| text.starts_with("https://") && RedirectUri::parse(text).is_ok();
            if let Some(text) = setting.value().filter(|text| !is_https(text)) {
                faults.push(format!("the {what} {text:?} is refused: write an https URL without a fragment"));
            }
        }
        self.default_max_age.apply(&mut details.default_max_age, |seconds| *seconds);
        if self.default_max_age.value().is_some_and(|seconds| *seconds > LONGEST_MAX_AGE) {
            faults.push(format!("a default max_age is at most {LONGEST_MAX_AGE} seconds"));
        }
    }

    /// A client that was vouched for stays so in a developer's hands, until that developer makes something else of it.
    fn hand_over(&self, client: &mut Client, means: &Means) {
        if self.owner == Setting::Kept {
            return;
        }
        let was_vouched_for = client.is_vouched_for();
        client.owner = means.owner;
        if was_vouched_for && !client.is_vouched_for() {
            client.approval = Some(means.decision);
        }
    }
}

/// The names of the settings that differ.
fn changes(before: &Client, after: &Client) -> Vec<&'static str> {
    let (old, new) = (&before.details, &after.details);
    let settings = [
        ("name", before.name != after.name),
        ("type", before.client_type != after.client_type),
        ("redirect_uris", before.redirect_uris != after.redirect_uris),
        ("post_logout_redirect_uris", before.post_logout_redirect_uris != after.post_logout_redirect_uris),
        ("scope", before.scope != after.scope),
        ("grant_types", before.grant_types != after.grant_types),
        ("auth_method", before.auth_method != after.auth_method),
        ("consent", before.consent != after.consent),
        ("description", old.description != new.description),
        ("client_uri", old.client_uri != new.client_uri),
        ("initiate_login_uri", old.initiate_login_uri != new.initiate_login_uri),
        ("default_max_age", old.default_max_age != new.default_max_age),
        ("refresh_retry_seconds", before.refresh_retry_seconds != after.refresh_retry_seconds),
        ("token_limit", before.token_limit != after.token_limit),
        ("owner", before.owner != after.owner),
    ];
    settings.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
}
