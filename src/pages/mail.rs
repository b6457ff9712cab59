//! Content of mails, as text and as single-column HTML with the same words.
//!
//! The HTML has no picture, no script and no external resources.

use askama::Template;
use askama::filters::Safe;
use chrono::{DateTime, Datelike, Utc};

use super::language::language_tag;
use super::words::{Markup, Words, escaped};
use sealgate_config::{Accent, Language};
use sealgate_domain::account_links::{CODE_LIFE, INVITATION_LIFE, RESET_LIFE, UNDO_LIFE};
use sealgate_domain::mail::{CodePurpose, Mail, Notice, RequestOrigin};
use sealgate_domain::time::UnixTime;

/// Values of a mail.
pub struct MailView<'a> {
    pub language: Language,
    pub operator: &'a str,
    /// Host of the issuer.
    pub host: &'a str,
    pub accent: Option<Accent>,
    pub at: UnixTime,
    pub origin: Option<&'a RequestOrigin>,
    pub mail: &'a Mail,
    /// Link of the mail. A mail has at most one.
    pub link: Option<&'a str>,
}

/// Default colours of the stylesheet.
const ACCENT: [&str; 2] = ["#0a5c53", "#7fd6c6"];

#[derive(Clone, Copy)]
enum Form {
    Text,
    Html,
}

/// Parts of a mail from top to bottom.
struct Parts {
    title: Markup,
    before: Vec<Markup>,
    code: Option<String>,
    action: Option<Action>,
    after: Vec<Markup>,
    /// Time and origin of the request.
    details: Vec<Markup>,
    copy_link: Markup,
    footer: Markup,
}

struct Action {
    label: Markup,
    link: String,
}

#[derive(Template)]
#[template(path = "mail.html")]
struct MailTemplate<'a> {
    language: &'static str,
    operator: &'a str,
    accent: String,
    dark: Markup,
    parts: Parts,
}

impl MailView<'_> {
    /// Returns the subject, one line. `None` if the mail is not sent.
    pub fn subject(&self) -> Option<String> {
        let Parts { title, .. } = self.parts(Form::Text)?;
        Some(plain(&self.t().mail_subject(name_markup(self.operator, Form::Text), title)))
    }

    /// Returns the text, with one line per paragraph. `None` if the mail is not sent.
    pub fn text(&self) -> Option<String> {
        let parts = self.parts(Form::Text)?;
        let mut paragraphs = vec![plain(&parts.title)];
        paragraphs.extend(parts.before.iter().map(plain));
        paragraphs.extend(parts.code.map(|code| format!("    {code}")));
        paragraphs.extend(parts.action.map(|action| action.link));
        paragraphs.extend(parts.after.iter().map(plain));
        paragraphs.push(parts.details.iter().map(plain).collect::<Vec<_>>().join("\n"));
        Some(format!("{}\n\n-- \n{}\n", paragraphs.join("\n\n"), plain(&parts.footer)))
    }

    /// Returns the HTML. `None` if the mail is not sent.
    pub fn html(&self) -> Option<String> {
        let [light, dark] = match self.accent {
            Some(accent) => [accent.light.to_string(), accent.dark.to_string()],
            None => ACCENT.map(str::to_owned),
        };
        // Mail programs without support for dark schemes ignore this rule. In other programs, the
        // rule overrides the colours of the elements.
        let dark = format!(
            "@media (prefers-color-scheme:dark){{.page{{background-color:#0e1514!important}}\
             .card{{background-color:#17201e!important}}.text{{color:#e7edeb!important}}.quiet{{color:#a6b4b0!important}}\
             .code{{background-color:#1f2b28!important}}.name{{color:{dark}!important}}\
             .button{{background-color:{dark}!important;color:#06231e!important}}}}"
        );
        let template = MailTemplate {
            language: language_tag(self.language),
            operator: self.operator,
            accent: light,
            // The rule contains only colours, from the code and the configuration, and no untrusted
            // text.
            dark: Safe(dark),
            parts: self.parts(Form::Html)?,
        };
        Some(super::html(&template))
    }

    fn t(&self) -> Words {
        Words { language: self.language }
    }

    fn parts(&self, form: Form) -> Option<Parts> {
        let t = self.t();
        let operator = &name_markup(self.operator, form);
        let minutes = |life: std::time::Duration| life.as_secs() / 60;
        let days = |life: std::time::Duration| life.as_secs() / 86_400;
        let (title, before, label, after) = match self.mail {
            Mail::ResetWanted { .. } | Mail::AddressWanted { .. } => return None,
            Mail::Reset { .. } => (
                t.mail_reset_title(),
                vec![t.mail_reset_lead(operator)],
                Some(t.mail_reset_button()),
                vec![t.mail_reset_life(minutes(RESET_LIFE)), t.mail_keep_link(), t.mail_reset_not_you()],
            ),
            Mail::PasskeysOnly => (
                t.mail_passkeys_title(),
                vec![t.mail_passkeys_lead(operator), t.mail_passkeys_how()],
                None,
                vec![t.mail_passkeys_not_you()],
            ),
            Mail::PasswordElsewhere => (
                t.mail_elsewhere_title(),
                vec![t.mail_elsewhere_lead(operator), t.password_managed(), t.mail_elsewhere_help()],
                None,
                vec![t.mail_passkeys_not_you()],
            ),
            Mail::Invitation { inviter, app, .. } => {
                let mut before = vec![match inviter {
                    Some(inviter) => t.mail_invitation_lead_inviter(name_markup(inviter, form), operator),
                    None => t.mail_invitation_lead(operator),
                }];
                before.extend(app.as_ref().map(|app| t.mail_invitation_app(name_markup(app, form))));
                before.push(t.mail_invitation_do());
                let life = t.mail_invitation_life(days(INVITATION_LIFE));
                let after = vec![life, t.mail_keep_link(), t.mail_invitation_not_you()];
                (t.mail_invitation_title(), before, Some(t.mail_invitation_button()), after)
            }
            Mail::VerificationCode { purpose, .. } => {
                let (title, lead) = match purpose {
                    CodePurpose::Address => (t.mail_code_title(), t.mail_code_lead_address(operator)),
                    CodePurpose::NewAddress => (t.mail_code_title_new(), t.mail_code_lead_new(operator)),
                    CodePurpose::Registration => (t.mail_code_title(), t.mail_code_lead_registration(operator)),
                };
                let how = t.mail_code_how(minutes(CODE_LIFE));
                (title, vec![lead], None, vec![how, t.mail_code_never(operator), t.mail_code_not_you()])
            }
            Mail::AccountExists { purpose: CodePurpose::Registration } => (
                t.mail_exists_title(),
                vec![t.mail_exists_lead(operator)],
                Some(t.mail_exists_button()),
                vec![t.mail_exists_not_you()],
            ),
            // A user requested this address for another account. The address stays with its current
            // account.
            Mail::AccountExists { purpose: CodePurpose::Address | CodePurpose::NewAddress } => (
                t.mail_exists_title_new(),
                vec![t.mail_exists_lead_new(operator)],
                Some(t.mail_exists_button()),
                vec![t.mail_exists_not_you_new()],
            ),
            Mail::AddressChanged { new_address, .. } => (
                t.mail_undo_title(),
                vec![t.mail_undo_lead(name_markup(new_address, form), operator), t.mail_undo_do()],
                Some(t.mail_undo_button()),
                vec![t.mail_undo_life(days(UNDO_LIFE)), t.mail_keep_link()],
            ),
            Mail::Notice { notice, count } => {
                let (title, what) = notice_words(t, *notice, operator);
                let mut before = vec![what];
                if *count > 1 {
                    before.push(t.mail_notice_count(u64::from(*count)));
                }
                before.push(what_to_do(t, *notice));
                let label = match notice {
                    Notice::ClientNeedsApproval => t.mail_notice_client_button(),
                    _ => t.mail_notice_button(),
                };
                (title, before, Some(label), Vec::new())
            }
            Mail::Test => (t.mail_test_title(), vec![t.mail_test_lead(operator)], None, Vec::new()),
        };
        let code = match self.mail {
            Mail::VerificationCode { code, .. } => Some(grouped(code)),
            _ => None,
        };
        let action = label.zip(self.link).map(|(label, link)| Action { label, link: link.to_owned() });
        let footer = t.mail_footer(name_markup(self.host, form), operator);
        let details = self.details(form);
        Some(Parts { title, before, code, action, after, details, copy_link: t.mail_copy_link(), footer })
    }

    fn details(&self, form: Form) -> Vec<Markup> {
        let t = self.t();
        let mut details = vec![t.mail_time(t.long_moment(self.at))];
        // Users do not need the network address of an administrator.
        let by_administrator = matches!(
            self.mail,
            Mail::Invitation { .. }
                | Mail::Notice {
                    notice: Notice::AdministratorActed | Notice::FactorsReset | Notice::ClientNeedsApproval,
                    ..
                }
        );
        let Some(origin) = self.origin.filter(|_| !by_administrator) else { return details };
        details.push(t.mail_from_address(name_markup(&origin.address.to_string(), form)));
        let name = |text: &String| name_markup(text, form);
        let device = match (&origin.browser, &origin.system) {
            (Some(browser), Some(system)) => Some(t.device(name(browser), name(system))),
            (Some(one), None) | (None, Some(one)) => Some(name(one)),
            (None, None) => None,
        };
        details.extend(device.map(|device| t.mail_from_browser(device)));
        details
    }
}

impl Words {
    /// Formats a time to the minute, with the month in words.
    fn long_moment(self, at: UnixTime) -> Markup {
        let at = i64::try_from(at.seconds()).ok().and_then(|seconds| DateTime::<Utc>::from_timestamp(seconds, 0));
        let at = at.unwrap_or_default();
        let month = match at.month() {
            1 => self.month_january(),
            2 => self.month_february(),
            3 => self.month_march(),
            4 => self.month_april(),
            5 => self.month_may(),
            6 => self.month_june(),
            7 => self.month_july(),
            8 => self.month_august(),
            9 => self.month_september(),
            10 => self.month_october(),
            11 => self.month_november(),
            _ => self.month_december(),
        };
        self.mail_moment(u64::from(at.day()), month, at.format("%H:%M").to_string(), at.format("%Y").to_string())
    }
}

fn notice_words(t: Words, notice: Notice, operator: &Markup) -> (Markup, Markup) {
    match notice {
        Notice::PasswordChanged => (t.notice_password_changed_title(), t.notice_password_changed(operator)),
        Notice::PasswordReset => (t.notice_password_reset_title(), t.notice_password_reset(operator)),
        Notice::FactorAdded => (t.notice_factor_added_title(), t.notice_factor_added(operator)),
        Notice::FactorRemoved => (t.notice_factor_removed_title(), t.notice_factor_removed(operator)),
        Notice::FactorBlocked => (t.notice_factor_blocked_title(), t.notice_factor_blocked(operator)),
        Notice::FactorFailed => (t.notice_factor_failed_title(), t.notice_factor_failed(operator)),
        Notice::RecoveryCodeUsed => (t.notice_recovery_used_title(), t.notice_recovery_used(operator)),
        Notice::RecoveryCodesMade => (t.notice_recovery_made_title(), t.notice_recovery_made(operator)),
        Notice::KeyMayBeCopied => (t.notice_key_copied_title(), t.notice_key_copied(operator)),
        Notice::AppPasswordCreated => (t.notice_app_password_title(), t.notice_app_password(operator)),
        Notice::AccountLinked => (t.notice_account_linked_title(), t.notice_account_linked(operator)),
        Notice::AccountUnlinked => (t.notice_account_unlinked_title(), t.notice_account_unlinked(operator)),
        Notice::AppCredentialSet => (t.notice_app_credential_title(), t.notice_app_credential(operator)),
        Notice::AddressChanged => (t.notice_address_changed_title(), t.notice_address_changed(operator)),
        Notice::AddressReplaced => (t.notice_address_replaced_title(), t.notice_address_replaced(operator)),
        Notice::AdministratorActed => (t.notice_administrator_title(), t.notice_administrator(operator)),
        Notice::FactorsReset => (t.notice_factors_reset_title(), t.notice_factors_reset(operator)),
        Notice::ClientNeedsApproval => (t.notice_client_title(), t.notice_client(operator)),
    }
}

fn what_to_do(t: Words, notice: Notice) -> Markup {
    match notice {
        Notice::FactorBlocked | Notice::FactorFailed => t.mail_notice_not_you_password(),
        Notice::KeyMayBeCopied => t.mail_notice_remove_key(),
        Notice::AdministratorActed | Notice::AddressReplaced | Notice::AccountUnlinked => t.mail_notice_administrator(),
        Notice::AccountLinked => t.mail_notice_linked(),
        Notice::FactorsReset => t.mail_notice_locked_out(),
        Notice::ClientNeedsApproval => t.mail_notice_client(),
        _ => t.mail_notice_not_you(),
    }
}

/// Returns a name as part of a sentence.
fn name_markup(text: &str, form: Form) -> Markup {
    match form {
        Form::Text => Safe(text.to_owned()),
        Form::Html => escaped(text),
    }
}

/// Removes the tags from a message of the pages.
fn plain(markup: &Markup) -> String {
    let tags = ["<bdi>", "</bdi>", "<code>", "</code>"];
    tags.iter().fold(markup.0.replace('\n', " "), |text, tag| text.replace(tag, ""))
}

/// Groups digits in fours.
fn grouped(code: &str) -> String {
    let digits: Vec<char> = code.chars().collect();
    digits.chunks(4).map(String::from_iter).collect::<Vec<_>>().join(" ")
}
