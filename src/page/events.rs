//! What the audit trail says, in words: to a person their own, to administrators all of it.

use askama::Template;
use askama::filters::Safe;

use super::content::Chrome;
use super::moment::{moment, moment_with_seconds};
use super::shell::{Inside, Place, Shell};
use super::words::{Markup, Words, escaped};
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
    /// Whom it is about: a `sub` and an address.
    pub subject: Option<Named<'a>>,
    /// The client or the application: an id and a name.
    pub party: Option<Named<'a>>,
    /// From where.
    pub address: Option<&'a str>,
    /// In which request.
    pub request_id: Option<&'a str>,
    /// More, in the program's own words.
    pub detail: Option<&'a str>,
}

/// An id, and what people call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// The id.
    pub id: &'a str,
    /// The name; nothing where it is not known any more.
    pub name: Option<&'a str>,
    /// Whether the console has a page about it.
    pub has_page: bool,
}

impl<'a> Named<'a> {
    /// The name, or the id where there is none.
    fn words(&self) -> &'a str {
        self.name.unwrap_or(self.id)
    }
}

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditActor<'a> {
    /// Somebody who had proven nothing.
    Stranger,
    /// The person whom it is about.
    Person,
    /// Somebody who works in the console: a `sub` and an address.
    Administrator(Named<'a>),
    /// The client itself.
    Client,
    /// Whoever gives commands on the machine.
    Operator,
    /// The server by itself.
    Server,
}

/// A person's own events.
#[derive(Debug, Clone, Copy)]
pub struct Activity<'a> {
    /// They, the newest first.
    pub events: &'a [EventLine<'a>],
    /// Address of older ones, if there are any.
    pub next: Option<&'a str>,
}

/// The trail, and what of it is wanted. The form sends `kind`, `person`, `client`, `from`, `to` and `zone`.
#[derive(Debug, Clone, Copy)]
pub struct AuditEvents<'a> {
    /// The events, the newest first.
    pub events: &'a [EventLine<'a>],
    /// Address of newer ones, if there are any.
    pub previous: Option<&'a str>,
    /// Address of older ones, if there may be any.
    pub next: Option<&'a str>,
    /// Address of a file with the same events as CSV.
    pub csv: &'a str,
    /// The same as NDJSON: an object a line.
    pub ndjson: &'a str,
    /// Events that a file has at most.
    pub most_exported: u64,
    /// Every kind, by its name in the trail.
    pub kinds: &'a [&'a str],
    /// The kind that is wanted, or empty.
    pub kind: &'a str,
    /// The person that is wanted, as typed, or empty.
    pub person: &'a str,
    /// The client that is wanted, as typed, or empty.
    pub client: &'a str,
    /// The first day that is wanted, as typed, or empty.
    pub from: &'a str,
    /// The last day that is wanted, as typed, or empty.
    pub to: &'a str,
    /// How many minutes the reader's clock is behind UTC; a script fills it in.
    pub zone: i64,
    /// What cannot be meant.
    pub faults: &'a [AuditField],
}

/// A field of the audit trail's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditField {
    /// Nobody is called like that.
    Person,
    /// The first day is none.
    From,
    /// The last day is none.
    To,
}

impl Pages {
    /// A person's own events.
    pub fn activity(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Activity<'_>) -> String {
        let t = Words::of(chrome);
        let inside = Inside::new(self, chrome, shell, Place::Activity, t.activity_title(), false);
        let lines = page.events.iter().map(|line| EventWords::new(t, line)).collect();
        rendered(&ActivityPage { inside, page, lines })
    }

    /// The audit trail.
    pub fn console_audit(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &AuditEvents<'_>) -> String {
        let t = Words::of(chrome);
        let inside = Inside::new(self, chrome, shell, Place::Audit, t.audit_title(), !page.faults.is_empty());
        let lines = page.events.iter().map(|line| EventWords::new(t, line)).collect();
        let kinds = page.kinds.iter().map(|kind| (*kind, kind_words(t, kind))).collect();
        rendered(&AuditPage { inside, page, lines, kinds })
    }
}

/// An event in words.
struct EventWords<'a> {
    line: &'a EventLine<'a>,
    title: Markup,
    /// Who did it, where that is nobody who has a name.
    actor: Option<Markup>,
    /// Said to the person whom it is about, where it was not they.
    others_doing: Option<Markup>,
    at: Markup,
    /// The same to the second.
    exactly_at: Markup,
    /// More, in the words of the page's language.
    detail: Option<Detail<'a>>,
    /// Said where it stands for several.
    count: Option<Markup>,
}

impl<'a> EventWords<'a> {
    fn new(t: Words, line: &'a EventLine<'a>) -> Self {
        let actor = match line.actor {
            AuditActor::Stranger => Some(t.actor_stranger()),
            AuditActor::Person => Some(t.actor_person()),
            AuditActor::Administrator(_) => None,
            AuditActor::Client => Some(t.actor_client()),
            AuditActor::Operator => Some(t.actor_operator()),
            AuditActor::Server => Some(t.actor_server()),
        };
        let of_others = matches!(line.actor, AuditActor::Administrator(_) | AuditActor::Operator);
        let others_doing = of_others.then(|| t.activity_by_administrator());
        let count = (line.count > 1).then(|| t.event_count(line.count));
        Self {
            line,
            title: kind_words(t, line.kind),
            actor,
            others_doing,
            at: moment(t, line.at),
            exactly_at: moment_with_seconds(t, line.at),
            detail: line.detail.map(|detail| Detail::new(t, detail)),
            count,
        }
    }

    /// What the client or application is called, as long as it is there: its id says nothing to people.
    fn party(&self) -> Option<&'a str> {
        self.line.party.and_then(|party| party.name)
    }

    /// One whose id the page has to say: the others have a page that does.
    fn only_here(named: Option<&Named<'a>>) -> Option<Named<'a>> {
        named.copied().filter(|named| !named.has_page && named.name.is_some())
    }

    /// Whoever did it in the console.
    fn administrator(&self) -> Option<Named<'a>> {
        match self.line.actor {
            AuditActor::Administrator(named) => Some(named),
            _ => None,
        }
    }
}

fn kind_words(t: Words, kind: &str) -> Markup {
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
        "app_password_created" => t.event_app_password_created(),
        "app_password_revoked" => t.event_app_password_revoked(),
        "keys_changed" => t.event_keys_changed(),
        "configuration_reloaded" => t.event_configuration_reloaded(),
        // A newer program's kind is shown by its name.
        other => escaped(other),
    }
}

/// What the trail says beside an event.
enum Detail<'a> {
    Words(Markup),
    /// Names of scopes, keys or settings, or the words of a newer program.
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
        "of many accounts or addresses" => t.detail_of_many(),
        "groups and roles" => t.detail_groups_and_roles(),
        "address" => t.detail_address(),
        "verification of the address" => t.detail_address_verification(),
        "username" => t.detail_username(),
        "roles" => t.detail_roles(),
        "groups" => t.detail_groups(),
        "application password" => t.detail_app_password(),
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
        "withdraw approval" => t.detail_approval_withdrawn(),
        "trials on" => t.detail_trials_on(),
        "trials off" => t.detail_trials_off(),
        "nothing has changed" => t.detail_nothing_changed(),
        part if part.starts_with("session ") => t.detail_one_session(),
        part if part.starts_with("rotate_secret ") => t.detail_new_secret(),
        _ => return None,
    })
}

/// What has ended, and how much of it: `sessions 2 grants 1`, or one of the two.
fn ended_words(t: Words, detail: &str) -> Option<Vec<Markup>> {
    let words: Vec<&str> = detail.split(' ').collect();
    let pair = |pair: &[&str]| match *pair {
        ["sessions", count] => count.parse::<u64>().ok().map(|count| t.detail_sessions(count)),
        ["grants", count] => count.parse::<u64>().ok().map(|count| t.detail_grants(count)),
        _ => None,
    };
    words.chunks(2).map(pair).collect()
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
    page: &'a AuditEvents<'a>,
    lines: Vec<EventWords<'a>>,
    kinds: Vec<(&'a str, Markup)>,
}

impl AuditPage<'_> {
    fn has(&self, field: AuditField) -> bool {
        self.page.faults.contains(&field)
    }

    fn is_first(&self, field: AuditField) -> bool {
        self.page.faults.first() == Some(&field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Language;

    #[test]
    fn what_the_program_says_beside_an_event_is_in_the_readers_language() {
        let t = Words { language: Language::Turkish };
        for (said, words) in [
            ("wrong", "Hatalı parola"),
            ("wrong, at the password change", "Hatalı parola, parola değiştirilirken"),
            ("name, picture", "Ad, Profil fotoğrafı"),
            ("sessions 2 grants 1", "Sonlandırılan oturum: 2, Sonlandırılan erişim: 1"),
            ("grants 3", "Sonlandırılan erişim: 3"),
            ("session 0G", "Bir oturum"),
        ] {
            assert!(matches!(Detail::new(t, said), Detail::Words(found) if found.0 == words), "{said}");
        }
        for code in ["openid email", "sessions many", "sessions", "login.window_seconds", "", "name, x"] {
            assert!(matches!(Detail::new(t, code), Detail::Code(found) if found == code), "{code}");
        }
    }
}
