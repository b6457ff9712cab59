//! What the audit trail says, in words: to a person their own, to administrators all of it.

use askama::Template;

use super::content::Chrome;
use super::messages::{Markup, Messages};
use super::moment::moment;
use super::shell::{Inside, Place, Shell};
use super::{Pages, rendered};

/// One event of the trail.
#[derive(Debug, Clone, Copy)]
pub struct EventLine<'a> {
    /// What, by its name in the trail.
    pub kind: &'a str,
    /// When, seconds since 1970.
    pub at: u64,
    /// How many events alike it stands for.
    pub count: u64,
    /// By whom.
    pub actor: AuditActor<'a>,
    /// Whom it is about, by their `sub`.
    pub subject: Option<&'a str>,
    /// The client or the application.
    pub party: Option<&'a str>,
    /// From where.
    pub address: Option<&'a str>,
    /// In which request.
    pub request_id: Option<&'a str>,
    /// More, in the program's own words.
    pub detail: Option<&'a str>,
}

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditActor<'a> {
    /// Somebody who had proven nothing.
    Stranger,
    /// The person whom it is about.
    Person,
    /// Somebody who works in the console, by their `sub`.
    Administrator(&'a str),
    /// The client itself.
    Client,
    /// Whoever gives commands on the machine.
    Operator,
}

/// A person's own events.
#[derive(Debug, Clone, Copy)]
pub struct Activity<'a> {
    /// They, the newest first.
    pub events: &'a [EventLine<'a>],
    /// Address of older ones, if there are any.
    pub next: Option<&'a str>,
}

/// The trail, and what of it is wanted. The form sends `kind`, `person` and `client`.
#[derive(Debug, Clone, Copy)]
pub struct AuditLog<'a> {
    /// The events, the newest first.
    pub events: &'a [EventLine<'a>],
    /// Address of older ones, if there may be any.
    pub next: Option<&'a str>,
    /// Every kind, by its name in the trail.
    pub kinds: &'a [&'a str],
    /// The kind that is wanted, or empty.
    pub kind: &'a str,
    /// The person that is wanted, as typed, or empty.
    pub person: &'a str,
    /// The client that is wanted, as typed, or empty.
    pub client: &'a str,
}

impl Pages {
    /// A person's own events.
    pub fn activity(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Activity<'_>) -> String {
        let t = self.messages(chrome);
        let inside = Inside::new(self, chrome, shell, Place::Activity, t.activity_title(), false);
        let lines = page.events.iter().map(|line| EventWords::new(t, line)).collect();
        rendered(&ActivityPage { inside, page, lines })
    }

    /// The audit trail.
    pub fn console_audit(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &AuditLog<'_>) -> String {
        let t = self.messages(chrome);
        let inside = Inside::new(self, chrome, shell, Place::Audit, t.audit_title(), false);
        let lines = page.events.iter().map(|line| EventWords::new(t, line)).collect();
        let kinds = page.kinds.iter().map(|kind| (*kind, kind_words(t, kind))).collect();
        rendered(&AuditPage { inside, page, lines, kinds })
    }
}

/// An event in words.
struct EventWords<'a> {
    line: &'a EventLine<'a>,
    title: String,
    actor: Markup,
    at: Markup,
    /// Said where it stands for several.
    count: Option<String>,
}

impl<'a> EventWords<'a> {
    fn new(t: &Messages, line: &'a EventLine<'a>) -> Self {
        let actor = match line.actor {
            AuditActor::Stranger => t.actor_stranger(),
            AuditActor::Person => t.actor_person(),
            AuditActor::Administrator(subject) => t.actor_administrator(subject),
            AuditActor::Client => t.actor_client(),
            AuditActor::Operator => t.actor_operator(),
        };
        let count = (line.count > 1).then(|| t.event_count(line.count));
        Self { line, title: kind_words(t, line.kind), actor, at: moment(t, line.at), count }
    }
}

fn kind_words(t: &Messages, kind: &str) -> String {
    match kind {
        "signed_in" => t.event_signed_in(),
        "sign_in_failed" => t.event_sign_in_failed(),
        "app_signed_in" => t.event_app_signed_in(),
        "signed_out" => t.event_signed_out(),
        "consent_given" => t.event_consent_given(),
        "consent_withdrawn" => t.event_consent_withdrawn(),
        "tokens_issued" => t.event_tokens_issued(),
        "tokens_refreshed" => t.event_tokens_refreshed(),
        "reuse_detected" => t.event_reuse_detected(),
        "token_revoked" => t.event_token_revoked(),
        "grants_ended" => t.event_grants_ended(),
        "sessions_ended" => t.event_sessions_ended(),
        "person_revoked" => t.event_person_revoked(),
        "client_registered" => t.event_client_registered(),
        "client_changed" => t.event_client_changed(),
        "client_deleted" => t.event_client_deleted(),
        "user_created" => t.event_user_created(),
        "user_changed" => t.event_user_changed(),
        "user_disabled" => t.event_user_disabled(),
        "user_enabled" => t.event_user_enabled(),
        "user_deleted" => t.event_user_deleted(),
        "password_changed" => t.event_password_changed(),
        "keys_changed" => t.event_keys_changed(),
        // A newer program's kind is shown by its name.
        other => other.to_owned(),
    }
}

#[derive(Template)]
#[template(path = "account/activity.html")]
struct ActivityPage<'a> {
    inside: Inside<'a>,
    page: &'a Activity<'a>,
    lines: Vec<EventWords<'a>>,
}

#[derive(Template)]
#[template(path = "console/audit.html")]
struct AuditPage<'a> {
    inside: Inside<'a>,
    page: &'a AuditLog<'a>,
    lines: Vec<EventWords<'a>>,
    kinds: Vec<(&'a str, String)>,
}
