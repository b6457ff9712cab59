//! Formats audit events. Users see their own events, and administrators see all events.

use askama::Template;
use askama::filters::Safe;

use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};

use super::console::SignInChart;
use super::inside::{Inside, MenuEntry};
use super::words::{Markup, Words, escaped};

/// Audit event with the names of its subjects.
#[derive(Debug, Clone)]
pub struct EventLine {
    pub event: AuditEvent,
    /// Administrator or developer who performed the action in the console.
    pub administrator: Option<Named>,
    /// User whom the event concerns: `sub` and address.
    pub subject: Option<Named>,
    /// Client or application of the event: id and name.
    pub party: Option<Named>,
}

/// Id with its display name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub id: String,
    /// Name. `None` if the object no longer exists.
    pub name: Option<String>,
    /// Whether the console has a page about the object.
    pub has_page: bool,
}

impl Named {
    /// Returns the name, or the id if there is no name.
    pub(super) fn words(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.id)
    }
}

/// Account page with the recent events of the user.
#[derive(Template)]
#[template(path = "account/activity.html")]
pub struct ActivityPage<'a> {
    pub inside: Inside<'a>,
    /// Events, newest first.
    pub events: &'a [EventLine],
    /// URL of older events, if there are any.
    pub next: Option<&'a str>,
}

/// Page of the audit log with its filter. The form sends `kind`, `result`, `person`, `client`,
/// `address`, `from`, `to` and `zone`. The forms of the saved filters send `csrf`, `filter-name`, `filter` and
/// `action`.
#[derive(Template)]
#[template(path = "console/audit.html")]
pub struct AuditLogPage<'a> {
    pub inside: Inside<'a>,
    /// Events, newest first.
    pub events: &'a [EventLine],
    /// URL of newer events, if there are any.
    pub previous: Option<&'a str>,
    /// URL of older events, if there may be any.
    pub next: Option<&'a str>,
    /// URL of the same events as CSV.
    pub csv: &'a str,
    /// URL of the same events as NDJSON: one object per line.
    pub ndjson: &'a str,
    pub csrf: &'a str,
    /// The user's saved filters: names and URLs.
    pub filters: &'a [(&'a str, String)],
    /// Filter of the page as a query, to save it. `None` without a filter.
    pub filter: Option<&'a str>,
    /// Live view. `None` on older pages.
    pub live: Option<&'a LiveView>,
    /// Kind to filter by, or empty.
    pub kind: &'a str,
    /// User to filter by, as typed, or empty.
    pub person: &'a str,
    /// Client to filter by, as typed, or empty.
    pub client: &'a str,
    /// First day to filter by, as typed, or empty.
    pub from: &'a str,
    /// Last day to filter by, as typed, or empty.
    pub to: &'a str,
    /// Client address to filter by, as typed, or empty.
    pub address: &'a str,
    /// Result to filter by: `failed`, `succeeded` or empty.
    pub result: &'a str,
    /// URL of this page with its filter, for a reload or a bookmark.
    pub reload: &'a str,
    /// Sign-ins of the last 30 days, on the first page without a filter.
    pub chart: Option<&'a SignInChart>,
    /// Offset of the reader's time zone in minutes, positive if the zone is behind UTC. The script
    /// sets it.
    pub zone: i64,
    pub faults: &'a [AuditField],
}

/// Links of the live view of the audit log.
#[derive(Debug)]
pub struct LiveView {
    /// URL that starts it.
    pub start: String,
    /// URL that the browser loads next. `None` if the live view is off.
    pub next: Option<String>,
    /// Whether it has ended after its last reload.
    pub is_over: bool,
    /// Interval in seconds.
    pub seconds: u64,
}

/// Field of the audit log's forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditField {
    User,
    /// The first day is invalid.
    From,
    /// The last day is invalid.
    To,
    /// The client address is invalid.
    Address,
    /// The name of a filter to save is invalid.
    FilterName,
    /// The user has the maximum number of filters.
    TooManyFilters,
}

impl AuditLogPage<'_> {
    fn has(&self, field: AuditField) -> bool {
        self.faults.contains(&field)
    }

    fn is_first(&self, field: AuditField) -> bool {
        self.faults.first() == Some(&field)
    }
}

impl EventLine {
    /// Returns the number of merged events, if it is more than one.
    fn count(&self, t: &Words) -> Option<Markup> {
        (self.event.count > 1).then(|| t.event_count(self.event.count))
    }

    /// Returns the name of the client or application, if it still exists. Users do not see the id.
    fn party(&self) -> Option<&str> {
        self.party.as_ref()?.name.as_deref()
    }

    /// Returns whether a person other than the user performed the action.
    fn is_of_others(&self) -> bool {
        matches!(
            self.event.actor,
            Actor::Administrator(_)
                | Actor::Developer(_)
                | Actor::UserManager(_)
                | Actor::Operator
                | Actor::ApiToken { .. }
        )
    }

    /// Returns a name whose id must be shown because the console has no page about it.
    fn only_here(party: Option<&Named>) -> Option<&Named> {
        party.filter(|party| !party.has_page && party.name.is_some())
    }

    /// Returns the actor. `None` if the actor is a user of the console whose name is shown
    /// separately.
    pub(super) fn actor(&self, t: &Words) -> Option<Markup> {
        match self.event.actor {
            Actor::Stranger => Some(t.actor_stranger()),
            Actor::User => Some(t.actor_person()),
            Actor::Administrator(_) | Actor::Developer(_) | Actor::UserManager(_) | Actor::Auditor(_) => None,
            Actor::Client => Some(t.actor_client()),
            Actor::Operator => Some(t.actor_operator()),
            Actor::Server => Some(t.actor_server()),
            Actor::Configuration => Some(t.actor_configuration()),
            Actor::ApiToken { .. } => Some(t.actor_api_token()),
        }
    }

    /// Returns the role of the actor, if the user is no administrator.
    pub(super) fn role(&self, t: &Words) -> Option<Markup> {
        match self.event.actor {
            Actor::Developer(_) => Some(t.actor_developer()),
            Actor::UserManager(_) => Some(t.user_role_manager_short()),
            Actor::Auditor(_) => Some(t.user_role_auditor_short()),
            _ => None,
        }
    }

    /// Returns the methods of a sign-in, or the app or key that the event concerns. Users see this
    /// text too.
    fn factor(&self, t: &Words) -> Option<Markup> {
        let detail = self.event.detail.as_deref()?;
        match (self.event.kind, detail) {
            (AuditKind::SignedIn, detail) => methods_words(*t, detail),
            (AuditKind::InvitationAccepted | AuditKind::SelfRegistered, "password") => Some(t.method_password()),
            (_, detail) => factor_words(*t, detail),
        }
    }

    fn detail(&self, t: &Words) -> Option<Detail<'_>> {
        let detail = self.event.detail.as_deref()?;
        Some(self.factor(t).map_or_else(|| Detail::new(*t, detail), Detail::Words))
    }
}

impl Words {
    pub(super) fn event(self, kind: &AuditKind) -> Markup {
        match kind {
            AuditKind::SignedIn => self.event_signed_in(),
            AuditKind::SignInFailed => self.event_sign_in_failed(),
            AuditKind::AppSignedIn => self.event_app_signed_in(),
            AuditKind::SignedOut => self.event_signed_out(),
            AuditKind::ConsentGiven => self.event_consent_given(),
            AuditKind::ConsentWithdrawn => self.event_consent_withdrawn(),
            AuditKind::TokensIssued => self.event_tokens_issued(),
            AuditKind::TokensRefreshed => self.event_tokens_refreshed(),
            AuditKind::ReuseDetected => self.event_reuse_detected(),
            AuditKind::TokenRevoked => self.event_token_revoked(),
            AuditKind::GrantsEnded => self.event_grants_ended(),
            AuditKind::SessionsEnded => self.event_sessions_ended(),
            AuditKind::UserRevoked => self.event_person_revoked(),
            AuditKind::ClientRegistered => self.event_client_registered(),
            AuditKind::ClientChanged => self.event_client_changed(),
            AuditKind::ClientDeleted => self.event_client_deleted(),
            AuditKind::UserCreated => self.event_user_created(),
            AuditKind::SelfRegistered => self.event_self_registered(),
            AuditKind::UserChanged => self.event_user_changed(),
            AuditKind::UserDisabled => self.event_user_disabled(),
            AuditKind::UserEnabled => self.event_user_enabled(),
            AuditKind::UserDeleted => self.event_user_deleted(),
            AuditKind::PasswordChanged => self.event_password_changed(),
            AuditKind::PasswordResetAsked => self.event_password_reset_asked(),
            AuditKind::PasswordReset => self.event_password_reset(),
            AuditKind::AddressVerified => self.event_address_verified(),
            AuditKind::AddressChanged => self.event_address_changed(),
            AuditKind::AddressRestored => self.event_address_restored(),
            AuditKind::AppPasswordCreated => self.event_app_password_created(),
            AuditKind::AppPasswordRevoked => self.event_app_password_revoked(),
            AuditKind::AppCredentialSet => self.event_app_credential_set(),
            AuditKind::AppCredentialRemoved => self.event_app_credential_removed(),
            AuditKind::FactorAdded => self.event_factor_added(),
            AuditKind::FactorRemoved => self.event_factor_removed(),
            AuditKind::FactorRenamed => self.event_factor_renamed(),
            AuditKind::RecoveryCodesMade => self.event_recovery_codes_made(),
            AuditKind::RecoveryCodeUsed => self.event_recovery_code_used(),
            AuditKind::FactorFailed => self.event_factor_failed(),
            AuditKind::FactorBlocked => self.event_factor_blocked(),
            AuditKind::KeyMayBeCopied => self.event_key_may_be_copied(),
            AuditKind::FactorsReset => self.event_factors_reset(),
            AuditKind::AccountLinked => self.event_account_linked(),
            AuditKind::AccountUnlinked => self.event_account_unlinked(),
            AuditKind::InvitationSent => self.event_invitation_sent(),
            AuditKind::InvitationAccepted => self.event_invitation_accepted(),
            AuditKind::InvitationWithdrawn => self.event_invitation_withdrawn(),
            AuditKind::KeysChanged => self.event_keys_changed(),
            AuditKind::DirectoryLossAccepted => self.event_directory_loss_accepted(),
            AuditKind::MailChanged => self.event_mail_changed(),
            AuditKind::LogoutNotAccepted => self.event_logout_not_accepted(),
            AuditKind::ConfigurationReloaded => self.event_configuration_reloaded(),
            AuditKind::ApiTokenCreated => self.event_api_token_created(),
            AuditKind::ApiTokenRevoked => self.event_api_token_revoked(),
            AuditKind::RegistrationTokenCreated => self.event_registration_token_created(),
            AuditKind::RegistrationTokenRevoked => self.event_registration_token_revoked(),
            AuditKind::AppChanged => self.event_app_changed(),
            AuditKind::AuditExported => self.event_audit_exported(),
            AuditKind::UsersExported => self.event_users_exported(),
        }
    }
}

/// Detail of an event.
enum Detail<'a> {
    Words(Markup),
    /// Names of scopes, keys or settings, or a detail that a newer version of the program has
    /// written.
    Code(&'a str),
}

impl<'a> Detail<'a> {
    fn new(t: Words, detail: &'a str) -> Self {
        let counts = || ended_words(t, detail);
        let words = detail.split(", ").map(|part| part_words(t, part)).collect::<Option<Vec<_>>>().or_else(counts);
        words.map_or(Self::Code(detail), |words| Self::Words(joined(&words)))
    }
}

fn joined(words: &[Markup]) -> Markup {
    Safe(words.iter().map(|words| words.0.as_str()).collect::<Vec<_>>().join(", "))
}

fn part_words(t: Words, part: &str) -> Option<Markup> {
    Some(match part {
        "wrong" => t.detail_wrong_password(),
        "throttled" => t.detail_throttled(),
        "at the password change" => t.detail_at_password_change(),
        "at linking" => t.detail_at_linking(),
        "link mailed" => t.detail_link_mailed(),
        "has passkeys only" => t.detail_has_passkeys_only(),
        "password of a directory" => t.detail_password_elsewhere(),
        "account disabled" => t.detail_account_disabled(),
        "address not verified" => t.detail_address_not_verified(),
        "no password" => t.detail_no_password(),
        "several accounts or addresses" => t.detail_of_many(),
        // Events of older versions.
        "groups and roles" => t.detail_groups_and_roles(),
        "address" => t.detail_address(),
        "verification of the address" => t.detail_address_verification(),
        "username" => t.detail_username(),
        "roles" => t.detail_roles(),
        "groups" => t.detail_groups(),
        "application password" => t.detail_app_password(),
        "blocked factors" => t.detail_blocked_factors(),
        "sign-in data of a user manager removed" => t.detail_manager_data_removed(),
        "name" => t.detail_name(),
        "phone number" => t.detail_phone_number(),
        "picture" => t.detail_picture(),
        "all others" => t.detail_all_others(),
        "refresh token" => t.detail_refresh_token(),
        "access token" => t.detail_access_token(),
        "code" => t.detail_code(),
        "never used" => t.detail_never_used(),
        "settings" => t.detail_settings(),
        "approval lost" => t.detail_approval_lost(),
        "disable" => t.detail_disabled(),
        "enable" => t.detail_enabled(),
        "approve" => t.detail_approved(),
        "revoke approval" => t.detail_approval_revoked(),
        "test sign-in on" => t.detail_client_test_on(),
        "test sign-in off" => t.detail_client_test_off(),
        "no changes" => t.detail_nothing_changed(),
        part if part.starts_with("session ") => t.detail_one_session(),
        part if part.starts_with("rotate_secret ") || part.starts_with("add_secret ") => t.detail_new_secret(),
        part if part.starts_with("remove_secret ") => t.detail_secret_removed(),
        part => return membership_words(t, part),
    })
}

/// Formats a change of groups or roles, such as `group added ops`.
fn membership_words(t: Words, part: &str) -> Option<Markup> {
    let role = |name: &str| match name {
        "admin" => Some(t.user_role_admin_short()),
        "auditor" => Some(t.user_role_auditor_short()),
        "developer" => Some(t.user_role_developer_short()),
        _ => None,
    };
    if let Some(group) = part.strip_prefix("group added ") {
        return Some(t.detail_group_added(group));
    }
    if let Some(group) = part.strip_prefix("group removed ") {
        return Some(t.detail_group_removed(group));
    }
    if let Some(name) = part.strip_prefix("role added ") {
        return role(name).map(|role| t.detail_role_added(role));
    }
    if let Some(name) = part.strip_prefix("role removed ") {
        return role(name).map(|role| t.detail_role_removed(role));
    }
    let rest = part.strip_prefix("and ")?.strip_suffix(" more")?;
    rest.parse::<u64>().ok().map(|count| t.detail_more(count))
}

/// Formats a kind of factor with an optional name, separated by a space.
fn factor_words(t: Words, detail: &str) -> Option<Markup> {
    let (kind, name) = detail.split_once(' ').map_or((detail, None), |(kind, name)| (kind, Some(name)));
    let kind = match kind {
        "totp" => t.factor_kind_app(),
        "security_key" => t.factor_kind_security_key(),
        "passkey" => t.factor_kind_passkey(),
        "key" => t.enrol_choose_key(),
        "recovery_code" => t.method_recovery(),
        "recovery_codes" => t.factor_kind_recovery(),
        _ => return None,
    };
    Some(match name {
        // A default name already contains the kind.
        Some(name) if name.starts_with(&kind.0) => Safe(format!("<bdi>{}</bdi>", escaped(name).0)),
        Some(name) => t.factor_named(kind, name),
        None => kind,
    })
}

/// Formats the methods of a sign-in from the event's detail, such as `password totp`.
fn methods_words(t: Words, detail: &str) -> Option<Markup> {
    let method = |word: &str| match word.strip_prefix("upstream:") {
        Some(name) => Some(t.method_upstream_named(name)),
        None if word == "password" => Some(t.method_password()),
        None => factor_words(t, word),
    };
    detail.split(' ').map(method).collect::<Option<Vec<_>>>().map(|words| joined(&words))
}

/// Formats the counts of revoked objects from the event's detail, such as `sessions 2 grants 1`.
/// One of the two counts may be missing.
fn ended_words(t: Words, detail: &str) -> Option<Vec<Markup>> {
    let words: Vec<&str> = detail.split(' ').collect();
    let pair = |pair: &[&str]| match *pair {
        ["sessions", count] => count.parse::<u64>().ok().map(|count| t.detail_sessions(count)),
        ["grants", count] => count.parse::<u64>().ok().map(|count| t.detail_grants(count)),
        _ => None,
    };
    words.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealgate_config::Language;
    use sealgate_domain::time::UnixTime;

    #[test]
    fn event_details_are_translated() {
        let t = Words { language: Language::Turkish };
        for (detail, words) in [
            ("wrong", "Hatalı parola"),
            ("wrong, at the password change", "Hatalı parola, parola değiştirilirken"),
            ("name, picture", "Ad, Profil fotoğrafı"),
            ("sessions 2 grants 1", "Sonlandırılan oturum: 2, Sonlandırılan erişim: 1"),
            ("grants 3", "Sonlandırılan erişim: 3"),
            ("session 0G", "Bir oturum"),
            ("blocked factors", "doğrulama yöntemlerinin engeli kaldırıldı"),
        ] {
            assert!(matches!(Detail::new(t, detail), Detail::Words(markup) if markup.0 == words), "{detail}");
        }
        let words_of_event = |kind, detail: &str| {
            let event = AuditEvent::new(UnixTime::from_seconds(1), kind, Actor::User).with_detail(detail);
            EventLine { event, administrator: None, subject: None, party: None }.factor(&t).map(|words| words.0)
        };
        for (kind, detail, words) in [
            (AuditKind::FactorFailed, "totp", Some("Doğrulama uygulaması")),
            (AuditKind::FactorFailed, "recovery_code", Some("Kurtarma kodu")),
            (AuditKind::FactorAdded, "passkey iş, ev <b>", Some("Geçiş anahtarı: <bdi>iş, ev &#60;b&#62;</bdi>")),
            (AuditKind::FactorAdded, "totp password", Some("Doğrulama uygulaması: <bdi>password</bdi>")),
            (AuditKind::SignedIn, "password totp", Some("Parola, Doğrulama uygulaması")),
            (AuditKind::SignedIn, "passkey", Some("Geçiş anahtarı")),
            (AuditKind::SignedIn, "password palm", None),
            (AuditKind::FactorsReset, "sessions 1 grants 0", None),
        ] {
            assert_eq!(words_of_event(kind, detail).as_deref(), words, "{detail}");
        }
        for code in ["openid email", "sessions many", "sessions", "login.window_seconds", "", "name, x"] {
            assert!(matches!(Detail::new(t, code), Detail::Code(text) if text == code), "{code}");
        }
    }
}
