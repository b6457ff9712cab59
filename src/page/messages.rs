//! The words of the pages: one Fluent file a language, one typed method a message. A message that is not declared
//! here cannot be used, one that is not used is dead code, and one that a file lacks is found when the pages are
//! built. Text never reaches a page from anywhere else.

use askama::filters::{Html, Safe, escape};
use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use unic_langid::LanguageIdentifier;

use super::PagesError;
use super::language::language_tag;
use crate::config::Language;

/// Markup from our own files, in which every value is escaped.
pub(super) type Markup = Safe<String>;

/// All messages of one language.
pub(super) struct Messages {
    bundle: FluentBundle<FluentResource>,
}

/// Declares the messages: `plain` yields text, which templates escape; `rich` yields markup, its arguments escaped.
macro_rules! messages {
    ($declared:ident; $($kind:ident $method:ident = $id:literal ($($argument:ident),*);)+) => {
        pub(in crate::page) const $declared: &[Declared] =
            &[$(Declared { id: $id, arguments: &[$(stringify!($argument)),*] }),+];

        impl Messages {
            $(messages!(@$kind $method $id $($argument)*);)+
        }
    };
    (@plain $method:ident $id:literal $($argument:ident)*) => {
        pub(in crate::page) fn $method(&self, $($argument: impl Argument),*) -> String {
            self.format($id, &[$((stringify!($argument), $argument.value())),*])
        }
    };
    (@rich $method:ident $id:literal $($argument:ident)*) => {
        pub(in crate::page) fn $method(&self, $($argument: impl Argument),*) -> Markup {
            Safe(self.format($id, &[$((stringify!($argument), $argument.markup())),*]))
        }
    };
}

mod account;
mod console;
mod events;

messages! {
    SIGN_IN;
    plain document_title = "document-title" (page, operator);
    plain document_title_problem = "document-title-problem" (page, operator);
    plain language_switch = "language-switch" ();
    plain language_turkish = "language-turkish" ();
    plain language_english = "language-english" ();

    plain login_title = "login-title" ();
    rich login_lead = "login-lead" (operator);
    rich login_lead_client = "login-lead-client" (client, operator);
    plain login_email = "login-email" ();
    plain login_password = "login-password" ();
    plain login_show_password = "login-show-password" ();
    plain login_caps_lock = "login-caps-lock" ();
    plain login_submit = "login-submit" ();
    plain login_wrong_credentials = "login-wrong-credentials" ();
    plain login_throttled_seconds = "login-throttled-seconds" (seconds);
    plain login_throttled_minutes = "login-throttled-minutes" (minutes);
    plain login_busy = "login-busy" ();

    plain consent_title = "consent-title" ();
    rich consent_heading = "consent-heading" (client, operator);
    rich consent_account = "consent-account" (account);
    rich consent_self_registered = "consent-self-registered" (client, operator);
    rich consent_shares = "consent-shares" (client);
    rich consent_scope_openid = "consent-scope-openid" ();
    rich consent_scope_profile = "consent-scope-profile" ();
    rich consent_scope_email = "consent-scope-email" ();
    rich consent_scope_phone = "consent-scope-phone" ();
    rich consent_scope_groups = "consent-scope-groups" ();
    rich consent_scope_offline_access = "consent-scope-offline-access" ();
    rich consent_scope_other = "consent-scope-other" (scope);
    plain consent_nothing_stored = "consent-nothing-stored" ();
    plain consent_offline = "consent-offline" ();
    rich consent_offline_hint = "consent-offline-hint" (client);
    plain consent_publisher = "consent-publisher" ();
    rich consent_publisher_operator = "consent-publisher-operator" (operator);
    rich consent_publisher_developer = "consent-publisher-developer" (developer, operator);
    rich consent_publisher_nobody = "consent-publisher-nobody" (operator);
    rich consent_publisher_itself = "consent-publisher-itself" ();
    plain consent_new = "consent-new" ();
    plain consent_website = "consent-website" ();
    plain consent_return = "consent-return" ();
    plain consent_remembered = "consent-remembered" ();
    plain consent_allow = "consent-allow" ();
    plain consent_deny = "consent-deny" ();

    plain chooser_title = "chooser-title" ();
    rich chooser_lead = "chooser-lead" (client);
    plain chooser_lead_own = "chooser-lead-own" ();
    plain chooser_other = "chooser-other" ();

    plain logout_title = "logout-title" ();
    rich logout_asked_by = "logout-asked-by" (client);
    rich logout_account = "logout-account" (account);
    rich logout_effect = "logout-effect" (operator);
    plain logout_confirm = "logout-confirm" ();
    plain logout_stay = "logout-stay" ();
    plain signed_out_title = "signed-out-title" ();
    plain signed_out_close = "signed-out-close" ();
    rich signed_out_close_client = "signed-out-close-client" (client);
    plain signed_out_others = "signed-out-others" ();
    plain signed_out_sign_in = "signed-out-sign-in" ();

    plain forbidden_title = "forbidden-title" ();
    rich forbidden_text = "forbidden-text" (account, app);
    plain forbidden_advice = "forbidden-advice" ();
    plain forbidden_switch = "forbidden-switch" ();

    plain return_form_title = "return-form-title" ();
    rich return_form_text = "return-form-text" (host);
    plain return_form_submit = "return-form-submit" ();

    plain send_again_title = "send-again-title" ();
    rich send_again_text = "send-again-text" (app);
    rich send_again_account = "send-again-account" (account);
    plain send_again_submit = "send-again-submit" ();
    plain send_again_instead = "send-again-instead" ();
    plain send_again_once = "send-again-once" ();

    plain error_unknown_client_title = "error-unknown-client-title" ();
    rich error_unknown_client_text = "error-unknown-client-text" (operator);
    plain error_redirect_uri_title = "error-redirect-uri-title" ();
    rich error_redirect_uri_text = "error-redirect-uri-text" ();
    plain error_no_redirect_uri_title = "error-no-redirect-uri-title" ();
    rich error_no_redirect_uri_text = "error-no-redirect-uri-text" ();
    plain error_logout_redirect_uri_title = "error-logout-redirect-uri-title" ();
    rich error_logout_redirect_uri_text = "error-logout-redirect-uri-text" ();
    plain error_invalid_request_title = "error-invalid-request-title" ();
    rich error_invalid_request_text = "error-invalid-request-text" ();
    plain error_expired_form_title = "error-expired-form-title" ();
    rich error_expired_form_text = "error-expired-form-text" ();
    plain error_cookie_missing_title = "error-cookie-missing-title" ();
    rich error_cookie_missing_text = "error-cookie-missing-text" ();
    plain error_nothing_to_do_title = "error-nothing-to-do-title" ();
    rich error_nothing_to_do_text = "error-nothing-to-do-text" ();
    plain error_signed_in_already_title = "error-signed-in-already-title" ();
    rich error_signed_in_already_text = "error-signed-in-already-text" ();
    plain error_unknown_host_title = "error-unknown-host-title" ();
    rich error_unknown_host_text = "error-unknown-host-text" ();
    plain error_for_programs_title = "error-for-programs-title" ();
    rich error_for_programs_text = "error-for-programs-text" ();
    rich way_again = "way-again" ();
    rich way_application = "way-application" (name);
    rich way_start = "way-start" ();
    rich way_account = "way-account" ();
    rich way_another_account = "way-another-account" ();
    plain error_not_found_title = "error-not-found-title" ();
    rich error_not_found_text = "error-not-found-text" ();
    plain error_too_many_requests_title = "error-too-many-requests-title" ();
    rich error_too_many_requests_seconds = "error-too-many-requests-seconds" (seconds);
    rich error_too_many_requests_minutes = "error-too-many-requests-minutes" (minutes);
    plain error_sign_in_loop_title = "error-sign-in-loop-title" ();
    rich error_sign_in_loop_text = "error-sign-in-loop-text" ();
    plain error_upstream_title = "error-upstream-title" ();
    rich error_upstream_text = "error-upstream-text" ();
    plain error_unavailable_title = "error-unavailable-title" ();
    rich error_unavailable_text = "error-unavailable-text" ();
    plain error_form_of_another_title = "error-form-of-another-title" ();
    rich error_form_of_another_text = "error-form-of-another-text" ();
    plain error_form_not_kept_title = "error-form-not-kept-title" ();
    rich error_form_not_kept_text = "error-form-not-kept-text" ();
    plain error_internal_title = "error-internal-title" ();
    rich error_internal_text = "error-internal-text" ();
    plain error_reference = "error-reference" ();
}

/// Every message.
fn declared() -> impl Iterator<Item = &'static Declared> {
    [SIGN_IN, account::ACCOUNT, console::CONSOLE, events::EVENTS].into_iter().flatten()
}

/// A message and the arguments that it takes.
pub(super) struct Declared {
    id: &'static str,
    arguments: &'static [&'static str],
}

impl Messages {
    /// Reads the language's file and proves that every declared message is in it and can be formatted.
    pub(super) fn load(language: Language) -> Result<Self, PagesError> {
        let file = match language {
            Language::Turkish => include_str!("messages/tr.ftl"),
            Language::English => include_str!("messages/en.ftl"),
        };
        let tag = language_tag(language);
        let resource = FluentResource::try_new(file.to_owned())
            .map_err(|(_, errors)| PagesError::Syntax { language: tag, detail: format!("{errors:?}") })?;
        let locale: LanguageIdentifier =
            tag.parse().map_err(|_| PagesError::Syntax { language: tag, detail: "not a language tag".into() })?;
        let mut bundle = FluentBundle::new_concurrent(vec![locale]);
        // The markup isolates names (<bdi>); invisible marks would end up in what people copy and search.
        bundle.set_use_isolating(false);
        bundle
            .add_resource(resource)
            .map_err(|errors| PagesError::Syntax { language: tag, detail: format!("{errors:?}") })?;
        let messages = Self { bundle };
        for declared in declared() {
            messages.check(tag, declared)?;
        }
        Ok(messages)
    }

    fn check(&self, language: &'static str, declared: &Declared) -> Result<(), PagesError> {
        let id = declared.id;
        let pattern = self
            .bundle
            .get_message(id)
            .and_then(|message| message.value())
            .ok_or(PagesError::Missing { language, id })?;
        let arguments: FluentArgs<'_> =
            declared.arguments.iter().map(|&name| (name, FluentValue::from(2_u64))).collect();
        let mut errors = Vec::new();
        self.bundle.format_pattern(pattern, Some(&arguments), &mut errors);
        if errors.is_empty() {
            Ok(())
        } else {
            Err(PagesError::Arguments { language, id, detail: format!("{errors:?}") })
        }
    }

    fn format(&self, id: &'static str, arguments: &[(&'static str, FluentValue<'_>)]) -> String {
        // `load` found every declared message, so the id is never what a person sees.
        let Some(pattern) = self.bundle.get_message(id).and_then(|message| message.value()) else { return id.into() };
        let arguments: FluentArgs<'_> = arguments.iter().cloned().collect();
        self.bundle.format_pattern(pattern, Some(&arguments), &mut Vec::new()).into_owned()
    }
}

/// What a message takes: text or a whole number.
pub(super) trait Argument {
    /// The argument as Fluent sees it.
    fn value(&self) -> FluentValue<'_>;

    /// The argument as it goes into markup.
    fn markup(&self) -> FluentValue<'_> {
        escaped(self.value())
    }
}

/// Markup of our own, made elsewhere: it goes into other markup as it is.
impl Argument for Markup {
    fn value(&self) -> FluentValue<'_> {
        self.0.as_str().into()
    }

    fn markup(&self) -> FluentValue<'_> {
        self.value()
    }
}

impl Argument for str {
    fn value(&self) -> FluentValue<'_> {
        self.into()
    }
}

impl Argument for String {
    fn value(&self) -> FluentValue<'_> {
        self.as_str().into()
    }
}

impl Argument for u64 {
    fn value(&self) -> FluentValue<'_> {
        (*self).into()
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    fn value(&self) -> FluentValue<'_> {
        (**self).value()
    }

    fn markup(&self) -> FluentValue<'_> {
        (**self).markup()
    }
}

fn escaped(value: FluentValue<'_>) -> FluentValue<'_> {
    match value {
        FluentValue::String(text) => {
            let Ok(markup) = escape(text, Html);
            FluentValue::from(markup.0.to_string())
        }
        number => number,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Message ids with the names of the arguments of each.
    type Signatures<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

    fn signatures() -> Signatures<'static> {
        declared().map(|message| (message.id, message.arguments.iter().copied().collect())).collect()
    }

    fn written(file: &str) -> Signatures<'_> {
        let mut messages = Signatures::new();
        let mut current = "";
        for line in file.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                current = line.split_once(" =").expect("a message has a value").0;
                assert!(messages.insert(current, BTreeSet::new()).is_none(), "{current} stands twice");
            }
            for reference in line.split('$').skip(1) {
                let end = reference.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(reference.len());
                messages.get_mut(current).expect("an argument stands in a message").insert(&reference[..end]);
            }
        }
        messages
    }

    #[test]
    fn no_message_is_missing_or_left_over_in_either_language() {
        assert!(declared().count() > 60);
        assert_eq!(written(include_str!("messages/en.ftl")), signatures());
        assert_eq!(written(include_str!("messages/tr.ftl")), signatures());
    }

    #[test]
    fn every_message_is_used() {
        let mut code = String::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page")];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if !path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("messages")) {
                    code += &fs::read_to_string(path).unwrap();
                }
            }
        }
        for message in declared() {
            let call = format!(".{}(", message.id.replace('-', "_"));
            assert!(code.contains(&call), "nothing uses {}", message.id);
        }
    }

    #[test]
    fn a_file_that_lacks_a_message_or_gives_it_no_argument_is_refused() {
        let messages = Messages::load(Language::English).unwrap();
        let lacking = messages.check("en", &Declared { id: "no-such-message", arguments: &[] });
        assert!(matches!(lacking, Err(PagesError::Missing { id: "no-such-message", .. })));
        let starved = messages.check("en", &Declared { id: "consent-heading", arguments: &["client"] });
        assert!(matches!(starved, Err(PagesError::Arguments { id: "consent-heading", .. })));
    }

    #[test]
    fn values_are_escaped_in_markup_and_left_alone_in_text() {
        let messages = Messages::load(Language::English).unwrap();
        assert!(messages.consent_account("<i>").0.contains("<bdi>&#60;i&#62;</bdi>"));
        assert_eq!(messages.document_title("<i>", "Acme"), "<i> – Acme");
    }
}
