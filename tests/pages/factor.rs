//! Second factor pages with sample data.

use sealgate_domain::assurance::AssuranceLevel;
use sealgate_pages::{
    AppEnrolment, EnrolPage, EnrolProblem, EnrolStep, FactorChoice, FactorPage, FactorProblem, Frame, KeyEnrolment,
    RecoveryCodesPage, RecoveryUsedPage, UnmetPage, html,
};

use crate::markup::{tags, text};
use crate::sample::{AT, Sample, page};

const URI: &str = "otpauth://totp/Acme:ayse.isik%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Acme";

/// Returns the second factor pages in every state.
pub(crate) fn factor_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, action, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let frame = || frame.clone();

    let every = [FactorChoice::App, FactorChoice::Key, FactorChoice::Recovery];
    let factor = |client, chosen, offers, problem| {
        let (key_options, start_over) = (Some(person), action);
        html(&FactorPage {
            frame: frame(),
            action,
            csrf,
            client,
            account,
            chosen,
            offers,
            key_options,
            problem,
            start_over,
        })
    };
    let some = Some(client);
    add("factor-app", factor(some, FactorChoice::App, &every, None));
    add("factor-app-own", factor(None, FactorChoice::App, &every, None));
    add("factor-app-only", factor(some, FactorChoice::App, &every[..1], None));
    add("factor-recovery", factor(some, FactorChoice::Recovery, &every, None));
    add("factor-key", factor(some, FactorChoice::Key, &every, None));
    add("factor-key-only", factor(some, FactorChoice::Key, &every[1..2], None));
    for (name, chosen, problem) in [
        ("app-wrong", FactorChoice::App, FactorProblem::WrongCode),
        ("app-clock", FactorChoice::App, FactorProblem::ClockIsOff),
        ("app-wait", FactorChoice::App, FactorProblem::Wait { seconds: 30 }),
        ("app-wait-minutes", FactorChoice::App, FactorProblem::Wait { seconds: 1920 }),
        ("app-blocked", FactorChoice::App, FactorProblem::Blocked),
        ("app-busy", FactorChoice::App, FactorProblem::Busy),
        ("recovery-wrong", FactorChoice::Recovery, FactorProblem::WrongCode),
        ("key-refused", FactorChoice::Key, FactorProblem::KeyRefused),
        ("key-copied", FactorChoice::Key, FactorProblem::KeyMayBeCopied),
        ("key-blocked", FactorChoice::Key, FactorProblem::Blocked),
    ] {
        add(&format!("factor-{name}"), factor(some, chosen, &every, Some(problem)));
    }

    let enrol = |enrolment, takes_apps, later| {
        html(&EnrolPage { frame: frame(), action, csrf, account, enrolment, takes_apps, later, start_over: action })
    };
    let (secret, uri, name) = ("GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ", URI, person);
    let app = |problem| EnrolStep::App(AppEnrolment { secret, uri, name, problem });
    let (security_key, passkey) = (client, person);
    let key = |problem| EnrolStep::Key(KeyEnrolment { security_key, passkey, name, problem });
    add("enrol", enrol(EnrolStep::Choice, true, Some(AT)));
    add("enrol-strong", enrol(EnrolStep::Choice, false, None));
    add("enrol-app", enrol(app(None), true, None));
    add("enrol-key", enrol(key(None), true, Some(AT)));
    add("enrol-key-strong", enrol(key(None), false, None));
    for (name, problem) in [
        ("wrong", EnrolProblem::WrongCode),
        ("clock", EnrolProblem::ClockIsOff),
        ("expired", EnrolProblem::Expired),
        ("full", EnrolProblem::Full),
    ] {
        add(&format!("enrol-app-{name}"), enrol(app(Some(problem)), true, None));
    }
    for (name, problem) in [
        ("known", EnrolProblem::KeyKnown),
        ("refused", EnrolProblem::KeyRefused),
        ("unverified", EnrolProblem::NotVerified),
    ] {
        add(&format!("enrol-key-{name}"), enrol(key(Some(problem)), true, None));
    }

    let codes = ["0123-4567-89AB-CDEF"; 10];
    let kept = |replaced| html(&RecoveryCodesPage { frame: frame(), account, codes: &codes, replaced, next: action });
    let used = |left, few| {
        html(&RecoveryUsedPage { frame: frame(), account, left, few, security: "/account/security", next: action })
    };
    add("recovery-used", used(9, false));
    add("recovery-used-few", used(1, true));
    add("recovery-codes", kept(false));
    add("recovery-codes-replaced", kept(true));

    let unmet =
        |client, needed, security| html(&UnmetPage { frame: frame(), action, csrf, client, account, needed, security });
    let resistant = AssuranceLevel::PhishingResistant;
    add("unmet-two", unmet(some, AssuranceLevel::Two, Some(action)));
    add("unmet-two-own", unmet(None, AssuranceLevel::Two, Some(action)));
    add("unmet-resistant", unmet(some, resistant, None));
    add("unmet-resistant-own", unmet(None, resistant, Some(action)));
    all
}

/// Without JavaScript, the page shows no button that does nothing, and mentions the other methods.
#[test]
fn the_key_page_names_its_requirements_without_scripts() {
    for (name, others) in [("factor-key.en", true), ("factor-key-only.en", false), ("enrol-key.en", false)] {
        let html = page(name);
        let tags = tags(&html);
        assert!(tags.iter().any(|tag| tag.attribute("data-without-scripts").is_some()), "{name}");
        let options =
            |tag: &&crate::markup::Tag| ["data-gets", "data-creates"].iter().any(|it| tag.attribute(it).is_some());
        let buttons: Vec<_> = tags.iter().filter(options).collect();
        assert!(!buttons.is_empty() && buttons.iter().all(|tag| tag.attribute("hidden").is_some()), "{name}");
        assert!(text(&html).contains("works only with JavaScript"), "{name}");
        assert_eq!(text(&html).contains("Or choose another way below."), others, "{name}");
    }
}

/// The page contains the messages that the script shows, in the page's language.
#[test]
fn every_ceremony_failure_has_a_message_in_the_page() {
    for name in ["login.tr", "factor-key.tr", "enrol-key.tr"] {
        let html = page(name);
        let tags = tags(&html);
        let said = tags.iter().find(|tag| tag.attribute("id") == Some("ceremony")).unwrap();
        assert_eq!(said.attribute("role"), Some("status"), "{name}");
        for word in ["waiting", "cancelled", "late", "known", "security", "unsupported", "failed"] {
            let words = said.attribute(&format!("data-{word}")).unwrap_or_default();
            assert!(words.ends_with('.'), "{name}: {word}");
            assert!(sealgate_pages::KEYS_SCRIPT.contains(&format!("\"{word}\"")), "{word}");
        }
    }
}

#[test]
fn recovery_codes_are_listed_last_and_the_selected_method_is_marked() {
    let html = page("factor-app.en");
    let place = |id: &str| html.find(&format!("id=\"{id}\"")).unwrap();
    assert!(place("use-totp") < place("use-key") && place("use-key") < place("use-recovery"));
    let tags = tags(&html);
    let current: Vec<_> = tags.iter().filter(|tag| tag.attribute("aria-current") == Some("page")).collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0].attribute("id"), Some("use-totp"));
    assert!(!page("factor-app-only.en").contains("id=\"use-"), "there is nothing to choose");
}

/// The document with its QR code, the stylesheet and the script stay below the maximum size of a
/// page.
#[test]
fn the_qr_code_has_a_light_background() {
    let html = page("enrol-app.tr");
    assert!(html.contains("<svg ") && html.len() < 9_000, "{}", html.len());
}
