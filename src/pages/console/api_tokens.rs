//! Console page with the tokens for the admin API.

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::time::UnixTime;

/// Page with the tokens for the admin API and the form for a new one.
///
/// The forms send `csrf` and one of these actions as `action`: `create` with `once`, `name`, `days` and
/// one field for each scope, and `remove` with `id`.
#[derive(Template)]
#[template(path = "console/api_tokens.html")]
pub struct ApiTokensPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub tokens: &'a [ApiTokenLine],
    pub form: &'a ApiTokenForm,
    /// Lifetimes that the form offers, in days.
    pub lifetimes: &'a [u64],
    /// New token in clear text, shown once.
    pub new_token: Option<&'a str>,
    /// URL of the API.
    pub address: &'a str,
}

/// Token without its secret.
#[derive(Debug, Clone)]
pub struct ApiTokenLine {
    pub id: String,
    pub name: String,
    pub scopes: String,
    /// `sub` and name of the administrator who created the token. `None` for an operator.
    pub creator: Option<(String, Option<String>)>,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
    pub last_used_at: Option<UnixTime>,
}

/// Form for a new token, as typed.
#[derive(Debug, Clone)]
pub struct ApiTokenForm {
    pub name: String,
    pub scopes: Vec<ApiScope>,
    pub days: u64,
    pub faults: Vec<ApiTokenFault>,
}

/// Error in the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiTokenFault {
    Name,
    /// No scope is chosen.
    Scopes,
    /// There is the maximum number of tokens.
    TooMany,
}

impl ApiTokensPage<'_> {
    fn has(&self, fault: ApiTokenFault) -> bool {
        self.form.faults.contains(&fault)
    }

    fn scopes(&self) -> Vec<(&'static str, Markup, bool)> {
        let t = self.inside.frame.t;
        let scopes = ApiScope::ALL.into_iter();
        scopes.map(|scope| (scope.as_str(), t.api_scope(scope), self.form.scopes.contains(&scope))).collect()
    }
}

impl Words {
    /// Returns the name and the description of a scope.
    fn api_scope(self, scope: ApiScope) -> Markup {
        match scope {
            ApiScope::UsersRead => self.api_scope_users_read(),
            ApiScope::UsersWrite => self.api_scope_users_write(),
            ApiScope::GroupsRead => self.api_scope_groups_read(),
            ApiScope::GroupsWrite => self.api_scope_groups_write(),
            ApiScope::ClientsRead => self.api_scope_clients_read(),
            ApiScope::ClientsWrite => self.api_scope_clients_write(),
            ApiScope::SessionsRead => self.api_scope_sessions_read(),
            ApiScope::SessionsWrite => self.api_scope_sessions_write(),
            ApiScope::KeysRead => self.api_scope_keys_read(),
            ApiScope::KeysWrite => self.api_scope_keys_write(),
            ApiScope::MailRead => self.api_scope_mail_read(),
            ApiScope::MailWrite => self.api_scope_mail_write(),
            ApiScope::AuditRead => self.api_scope_audit_read(),
            ApiScope::AppsRead => self.api_scope_apps_read(),
            ApiScope::AdminsWrite => self.api_scope_admins_write(),
        }
    }
}
