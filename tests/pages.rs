//! The pages: their words in both languages, their markup, and that what people type stays text.
//! Every page in every state is left in `target/pages` to be looked at.

#[path = "pages/account.rs"]
mod account;
#[path = "pages/console.rs"]
mod console;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sealgate::config::{self, Language};
use sealgate::page::{
    AccountChooser, AccountLine, CONTENT_SECURITY_POLICY, Chrome, ConfirmLogout, Consent, ErrorPage, Forbidden,
    LanguageSwitch, Login, LoginProblem, Pages, Problem, SCRIPT, STYLESHEET, ScopeLine, SendAgain, SignedOut,
    language_tag,
};

use account::account_pages;
use console::console_pages;

const LANGUAGES: [Language; 2] = [Language::Turkish, Language::English];

const PROBLEMS: [(&str, Problem); 18] = [
    ("unknown-client", Problem::UnknownClient),
    ("redirect-uri", Problem::RedirectUri),
    ("logout-redirect-uri", Problem::LogoutRedirectUri),
    ("invalid-request", Problem::InvalidRequest),
    ("expired-form", Problem::ExpiredForm),
    ("cookie-missing", Problem::CookieMissing),
    ("nothing-to-do", Problem::NothingToDo),
    ("not-found", Problem::NotFound),
    ("too-many-requests", Problem::TooManyRequests { seconds: 42 }),
    ("too-many-requests-minutes", Problem::TooManyRequests { seconds: 600 }),
    ("too-many-requests-one", Problem::TooManyRequests { seconds: 1 }),
    ("sign-in-loop", Problem::SignInLoop),
    ("upstream", Problem::Upstream),
    ("unavailable", Problem::Unavailable),
    ("console", Problem::Console),
    ("form-of-another", Problem::FormOfAnother),
    ("form-not-kept", Problem::FormNotKept),
    ("internal", Problem::Internal),
];

/// What the pages of a test are filled with.
struct Sample {
    operator: &'static str,
    client: &'static str,
    account: &'static str,
    person: &'static str,
    values: Vec<String>,
    action: &'static str,
    csrf: &'static str,
    subject: &'static str,
    request_id: &'static str,
}

impl Sample {
    fn plain() -> Self {
        Self {
            operator: "Acme",
            client: "Wiki",
            account: "ayse.isik@example.com",
            person: "Ayşe Işık",
            values: vec!["Ayşe Işık".into(), "https://example.com/people/ayse.png".into()],
            action: "/oauth/login",
            csrf: "LkT0cV2bUe9gqk3l",
            subject: "6f1c0f6e-7b0e-4f4e-9a53-0d8e1c4d2b77",
            request_id: "01J9Z6Q2M4T8W0YB",
        }
    }

    fn filled_with(text: &'static str) -> Self {
        Self {
            operator: text,
            client: text,
            account: text,
            person: text,
            values: vec![text.into(), text.into()],
            action: text,
            csrf: text,
            subject: text,
            request_id: text,
        }
    }
}

fn pages(operator: &str, default_language: Language) -> Pages {
    let settings = config::Pages { operator: operator.into(), default_language, logo: None, accent: None };
    Pages::new(&settings).expect("the message files are whole")
}

fn chrome(language: Language, switch: &str) -> Chrome<'_> {
    let switch = LanguageSwitch { turkish: switch, english: switch };
    Chrome { language, stylesheet: "sealgate.css", script: "sealgate.js", logo: None, switch }
}

/// Every page in every state, by name.
fn every_page(sample: &Sample, language: Language) -> Vec<(String, String)> {
    let pages = pages(sample.operator, Language::English);
    let &Sample { client, account, action, csrf, subject, request_id, .. } = sample;
    let chrome = chrome(language, action);
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((format!("{name}.{}", language_tag(language)), html));

    let login = Login { action, csrf, client: Some(client), email: account, problem: None };
    add("login", pages.login(&chrome, &Login { email: "", ..login }));
    add("login-hint", pages.login(&chrome, &login));
    add("login-no-client", pages.login(&chrome, &Login { client: None, email: "", ..login }));
    for (name, problem) in [
        ("login-wrong", LoginProblem::WrongCredentials),
        ("login-throttled", LoginProblem::Throttled { seconds: 30 }),
        ("login-throttled-minutes", LoginProblem::Throttled { seconds: 900 }),
        ("login-busy", LoginProblem::Busy),
    ] {
        add(name, pages.login(&chrome, &Login { problem: Some(problem), ..login }));
    }

    let (id, email) = ([subject.to_owned()], [account.to_owned()]);
    let scopes = [
        ScopeLine { scope: "openid", values: &id },
        ScopeLine { scope: "profile", values: &sample.values },
        ScopeLine { scope: "email", values: &email },
        ScopeLine { scope: "phone", values: &[] },
        ScopeLine { scope: client, values: &[] },
    ];
    let consent = Consent { action, csrf, client, account, scopes: &scopes, offline_access: true };
    add("consent", pages.consent(&chrome, &consent));
    add("consent-online", pages.consent(&chrome, &Consent { offline_access: false, scopes: &scopes[..3], ..consent }));

    let accounts = [
        AccountLine { subject, name: Some(sample.person), email: account },
        AccountLine { subject: "another", name: None, email: account },
    ];
    let chooser = AccountChooser { action, csrf, client: Some(client), accounts: &accounts };
    add("chooser", pages.account_chooser(&chrome, &chooser));
    add("chooser-own", pages.account_chooser(&chrome, &AccountChooser { client: None, ..chooser }));

    let hidden = [("state", client), (request_id, "x")];
    let logout = ConfirmLogout { action, csrf, client: Some(client), account: Some(account), hidden: &hidden };
    add("logout", pages.confirm_logout(&chrome, &logout));
    add("logout-plain", pages.confirm_logout(&chrome, &ConfirmLogout { client: None, account: None, ..logout }));
    add("signed-out", pages.signed_out(&chrome, &SignedOut { client: Some(client) }));
    add("signed-out-plain", pages.signed_out(&chrome, &SignedOut { client: None }));

    for (name, problem) in PROBLEMS {
        add(&format!("error-{name}"), pages.error(&chrome, &ErrorPage { problem, request_id }));
    }
    add("forbidden", pages.forbidden(&chrome, &Forbidden { app: client, account, switch_account: action }));
    let fields = [(client.to_owned(), account.to_owned())];
    let again = SendAgain { app: client, account, target: action, charset: "utf-8", fields: &fields, instead: action };
    add("send-again", pages.send_again(&chrome, &again));
    all.extend(account_pages(&pages, &chrome, sample));
    all.extend(console_pages(&pages, &chrome, sample));
    all
}

/// Every page of the plain sample in both languages.
fn all_pages() -> Vec<(String, String)> {
    LANGUAGES.into_iter().flat_map(|language| every_page(&Sample::plain(), language)).collect()
}

fn page(name: &str) -> String {
    all_pages().into_iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}")).1
}

/// An element's name and attributes. The templates write attributes as `name="value"` or bare, so this is enough to
/// read them; a value that broke out of its attribute would show as a foreign attribute or element.
#[derive(Debug)]
struct Tag {
    name: String,
    attributes: BTreeMap<String, String>,
}

impl Tag {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

fn tags(html: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        found.push(tag(&rest[start + 1..end]));
        rest = &rest[end + 1..];
    }
    found
}

fn tag(text: &str) -> Tag {
    let (name, mut rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let mut attributes = BTreeMap::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Tag { name: name.to_owned(), attributes };
        }
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let key = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let close = quoted.find('"').expect("an attribute ends");
            quoted[..close].clone_into(&mut value);
            rest = &quoted[close + 1..];
        }
        assert!(attributes.insert(key, value).is_none(), "an attribute stands twice in <{text}>");
    }
}

/// What a person reads: text without tags, white space folded, the entities of the templates' escaping undone.
fn text(html: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in html.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            _ if !inside => out.push(c),
            _ => {}
        }
    }
    let out = out.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"").replace("&#39;", "'");
    out.replace("&#38;", "&").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page").join(file)
}

fn templates() -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![source("templates")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the templates are there") {
            let path = entry.expect("a template").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                found.push((path.clone(), fs::read_to_string(path).expect("a template is text")));
            }
        }
    }
    found
}

#[test]
fn every_page_is_small_and_asks_for_nothing_but_its_stylesheet_and_script() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/pages");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("sealgate.css"), STYLESHEET).unwrap();
    fs::write(folder.join("sealgate.js"), SCRIPT).unwrap();
    for (name, html) in all_pages() {
        fs::write(folder.join(format!("{name}.html")), &html).unwrap();
        assert!(html.len() < 30_000, "{name} has {} bytes", html.len());
        for tag in tags(&html) {
            assert!(!["style", "img", "iframe", "object", "base"].contains(&tag.name.as_str()), "{name}");
            if tag.name == "script" {
                assert_eq!((tag.attribute("src"), tag.attribute("defer")), (Some("sealgate.js"), Some("")), "{name}");
            }
            for (attribute, value) in &tag.attributes {
                assert!(attribute != "style" && !attribute.starts_with("on"), "{name}: inline code in {tag:?}");
                if ["href", "src", "action"].contains(&attribute.as_str()) {
                    let known = ["sealgate.css", "sealgate.js", "/oauth/login", "/oauth/logout", "data:,", "#content"];
                    assert!(
                        ["/account", "/console"].iter().any(|own| value.starts_with(own))
                            || known.contains(&value.as_str()),
                        "{name}: {value}"
                    );
                }
            }
        }
    }
    assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
}

#[test]
fn the_script_fetches_nothing_and_builds_no_markup() {
    assert!(SCRIPT.len() < 10_000);
    for word in ["fetch(", "XMLHttpRequest", "innerHTML", "insertAdjacent", "document.write", "eval(", "import("] {
        assert!(!SCRIPT.contains(word), "{word}");
    }
}

#[test]
fn elements_are_closed_in_the_order_in_which_they_were_opened() {
    for (name, html) in all_pages() {
        let mut open: Vec<String> = Vec::new();
        for tag in tags(&html) {
            match tag.name.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop().as_deref(), Some(closed), "{name}"),
                None if ["!doctype", "meta", "link", "input", "img"].contains(&tag.name.as_str()) => {}
                None => open.push(tag.name),
            }
        }
        assert_eq!(open, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn every_page_names_its_language_title_heading_and_main_content() {
    for (name, html) in all_pages() {
        let tags = tags(&html);
        let language = name.rsplit('.').next().unwrap();
        let count = |wanted: &str| tags.iter().filter(|tag| tag.name == wanted).count();
        let root = tags.iter().find(|tag| tag.name == "html").unwrap();
        assert_eq!(root.attribute("lang"), Some(language), "{name}");
        assert_eq!((count("title"), count("h1"), count("main")), (1, 1, 1), "{name}");
        // A page that is shown once cannot be shown in the other language.
        if name.starts_with("send-again") {
            continue;
        }
        let links: Vec<_> = tags.iter().filter_map(|tag| tag.attribute("hreflang")).collect();
        assert_eq!(links, ["tr", "en"], "{name}");
        let current: Vec<_> = tags.iter().filter(|tag| tag.attribute("aria-current") == Some("true")).collect();
        assert_eq!(current.len(), 1, "{name}");
        assert_eq!(current[0].attribute("hreflang"), Some(language), "{name}");
    }
}

#[test]
fn every_field_has_a_label_and_every_reference_a_target() {
    for (name, html) in all_pages() {
        let tags = tags(&html);
        let ids: Vec<&str> = tags.iter().filter_map(|tag| tag.attribute("id")).collect();
        assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{name}: an id stands twice");
        let labelled: Vec<&str> = tags.iter().filter_map(|tag| tag.attribute("for")).collect();
        for tag in &tags {
            let shown = tag.attribute("type") != Some("hidden") && tag.attribute("hidden").is_none();
            if ["input", "textarea", "select"].contains(&tag.name.as_str()) && shown {
                let id = tag.attribute("id").unwrap_or_else(|| panic!("{name}: {tag:?} has no id"));
                // Radio buttons share their name.
                if tag.attribute("type") != Some("radio") {
                    assert_eq!(tag.attribute("name"), Some(id), "{name}");
                }
                assert!(labelled.contains(&id), "{name}: {id} has no label");
            }
            for reference in ["for", "aria-describedby", "aria-labelledby"] {
                for target in tag.attribute(reference).into_iter().flat_map(str::split_whitespace) {
                    assert!(ids.contains(&target), "{name}: {reference}={target} leads nowhere");
                }
            }
        }
    }
}

#[test]
fn ids_and_names_that_password_managers_and_clients_rely_on_stay() {
    let stands_once = |page_name: &str, element: &str, attributes: &[(&str, &str)]| {
        let html = page(page_name);
        let matches =
            |tag: &&Tag| tag.name == element && attributes.iter().all(|&(name, v)| tag.attribute(name) == Some(v));
        assert_eq!(tags(&html).iter().filter(matches).count(), 1, "{page_name}: {attributes:?}\n{html}");
    };
    let subject = Sample::plain().subject;
    stands_once("login.en", "input", &[("id", "email"), ("name", "email"), ("autocomplete", "username")]);
    stands_once("login.en", "input", &[("id", "email"), ("inputmode", "email"), ("spellcheck", "false")]);
    stands_once("login.en", "input", &[("id", "password"), ("name", "password"), ("type", "password")]);
    stands_once("login.en", "input", &[("id", "password"), ("autocomplete", "current-password")]);
    stands_once("login.en", "button", &[("id", "login-submit"), ("name", "login-submit")]);
    stands_once("login-hint.en", "input", &[("id", "email"), ("value", "ayse.isik@example.com")]);
    stands_once("consent.en", "button", &[("id", "consent-allow"), ("name", "consent-allow"), ("value", "yes")]);
    stands_once("consent.en", "button", &[("id", "consent-deny"), ("name", "consent-deny"), ("value", "yes")]);
    stands_once("consent.en", "input", &[("id", "offline_access"), ("type", "checkbox"), ("checked", "")]);
    stands_once("chooser.en", "button", &[("id", "account-1"), ("name", "account"), ("value", subject)]);
    stands_once("chooser.en", "button", &[("id", "account-2"), ("name", "account"), ("value", "another")]);
    stands_once("chooser.en", "button", &[("id", "account-other"), ("name", "account"), ("value", "")]);
    stands_once("logout.en", "button", &[("id", "logout-confirm"), ("name", "logout-confirm")]);
    stands_once("logout.en", "input", &[("type", "hidden"), ("name", "state"), ("value", "Wiki")]);
    for form in ["login.en", "consent.en", "chooser.en", "logout.en"] {
        stands_once(form, "input", &[("type", "hidden"), ("name", "csrf"), ("value", "LkT0cV2bUe9gqk3l")]);
        stands_once(form, "form", &[("method", "post"), ("action", "/oauth/login")]);
    }
}

#[test]
fn allow_and_deny_look_the_same() {
    let html = page("consent.en");
    let tags = tags(&html);
    let class = |id: &str| tags.iter().find(|tag| tag.attribute("id") == Some(id)).unwrap().attribute("class");
    assert_eq!(class("consent-allow"), class("consent-deny"));
}

#[test]
fn offline_access_is_a_choice_only_where_it_is_asked_for() {
    assert!(page("consent.tr").contains("id=\"offline_access\""));
    assert!(!page("consent-online.tr").contains("offline_access"));
}

#[test]
fn consent_shows_the_very_values_and_says_where_there_are_none() {
    let shown = text(&page("consent.en"));
    for value in ["Ayşe Işık", "https://example.com/people/ayse.png", "ayse.isik@example.com", Sample::plain().subject]
    {
        assert!(shown.contains(value), "{value} is not in: {shown}");
    }
    assert!(shown.contains("Your phone number Nothing is stored here at present."), "{shown}");
}

#[test]
fn a_refused_sign_in_is_announced_and_bound_to_its_fields() {
    for name in ["login-wrong.en", "login-throttled.en", "login-busy.tr"] {
        let html = page(name);
        let tags = tags(&html);
        let alert = tags.iter().find(|tag| tag.attribute("role") == Some("alert")).unwrap();
        for id in ["email", "password"] {
            let field = tags.iter().find(|tag| tag.attribute("id") == Some(id)).unwrap();
            assert_eq!(field.attribute("aria-describedby"), alert.attribute("id"), "{name}");
            assert_eq!(field.attribute("aria-invalid").is_some(), name.starts_with("login-wrong"), "{name}");
        }
    }
    assert!(!page("login.en").contains("role=\"alert\""));
    assert!(page("login-wrong.en").contains("<title>Error: Sign in – Acme</title>"));
}

#[test]
fn a_wait_is_told_in_the_unit_that_a_person_would_use() {
    assert!(text(&page("login-throttled.en")).contains("Wait 30 seconds, then try again."));
    assert!(text(&page("login-throttled-minutes.en")).contains("Wait 15 minutes, then try again."));
    assert!(text(&page("login-throttled-minutes.tr")).contains("15 dakika bekleyip yeniden deneyin."));
    assert!(text(&page("error-too-many-requests-one.tr")).contains("1 saniye bekleyip bu sayfayı yenileyin."));
    let pages = pages("Acme", Language::English);
    let told = |seconds| {
        let page = ErrorPage { problem: Problem::TooManyRequests { seconds }, request_id: "r" };
        text(&pages.error(&chrome(Language::English, "/"), &page))
    };
    assert!(told(0).contains("Wait one second,"));
    assert!(told(1).contains("Wait one second,"));
    assert!(told(90).contains("Wait 90 seconds,"));
    assert!(told(91).contains("Wait 2 minutes,"), "a wait is rounded up");
    assert!(told(u64::MAX).contains("minutes"));
}

#[test]
fn markup_in_any_value_stays_text() {
    let hostile = r#"'"><script>alert(1)</script><b onclick="x">&{{ t }}"#;
    let shape = |html: &str| -> Vec<(String, Vec<String>)> {
        tags(html).into_iter().map(|tag| (tag.name, tag.attributes.into_keys().collect())).collect()
    };
    for language in LANGUAGES {
        let plain = every_page(&Sample::plain(), language);
        for ((name, html), (_, plain)) in every_page(&Sample::filled_with(hostile), language).into_iter().zip(plain) {
            assert!(!html.contains("<script>") && !html.contains("<b ") && !html.contains("'\">"), "{name}:\n{html}");
            assert_eq!(shape(&html), shape(&plain), "{name}: a value changed the structure of the page");
            // Escaped once, not twice: a person reads exactly what was given.
            assert!(text(&html).contains(hostile), "{name}:\n{html}");
        }
    }
}

#[test]
fn names_stand_in_bdi_so_that_their_direction_stays_their_own() {
    for name in ["consent.en", "consent.tr", "login.en", "login.tr", "forbidden.tr", "logout.en"] {
        assert!(page(name).contains("<bdi>Wiki</bdi>"), "{name}");
    }
}

#[test]
fn no_turkish_suffix_is_glued_to_a_name() {
    for line in include_str!("../src/page/messages/tr.ftl").lines().filter(|line| !line.starts_with('#')) {
        for after in line.split('}').skip(1) {
            let after = after.trim_start_matches("</bdi>");
            assert!(!after.starts_with(|c: char| c.is_alphabetic() || "'’-".contains(c)), "{line}");
        }
    }
}

#[test]
fn templates_hold_no_words_of_their_own() {
    for (path, mut template) in templates() {
        for (open, close) in [("{%", "%}"), ("{{", "}}")] {
            while let Some(start) = template.find(open) {
                let end = start + template[start..].find(close).expect("a tag ends") + close.len();
                template.replace_range(start..end, "");
            }
        }
        assert_eq!(text(&template), "", "{}", path.display());
    }
}

#[test]
fn every_page_is_worded_in_its_own_language() {
    let english = every_page(&Sample::plain(), Language::English);
    for ((name, turkish), (_, english)) in every_page(&Sample::plain(), Language::Turkish).into_iter().zip(english) {
        let heading = |html: &str| {
            let start = html.find("<h1>").unwrap();
            text(&html[start..html.find("</h1>").unwrap()])
        };
        // The page of a client or a person is headed by its name.
        let named = heading(&turkish) == Sample::plain().client || heading(&turkish) == Sample::plain().person;
        assert!(named || heading(&turkish) != heading(&english), "{name}");
        assert_ne!(text(&turkish), text(&english), "{name}");
        for html in [turkish, english] {
            assert!(!html.contains("{$") && !html.contains("{ $"), "{name}: an argument is missing");
        }
    }
}

#[test]
fn ui_locales_comes_before_the_saved_choice_and_that_before_the_browser() {
    let pages = pages("Acme", Language::English);
    assert_eq!(pages.language(Some("tr"), Some("en"), Some("en")), Language::Turkish);
    assert_eq!(pages.language(None, Some("tr"), Some("en")), Language::Turkish);
    assert_eq!(pages.language(None, None, Some("tr")), Language::Turkish);
    assert_eq!(pages.language(None, None, None), Language::English);
    assert_eq!(pages.language(Some("se"), Some("xx"), Some("tr")), Language::Turkish, "unknown ones are passed over");
    assert_eq!(pages.language(Some("se de tr en"), None, None), Language::Turkish);
    assert_eq!(pages.language(Some(""), Some(""), Some("")), Language::English);
}

#[test]
fn the_stylesheet_fetches_nothing_and_changes_no_letters() {
    let css = STYLESHEET;
    assert!(css.len() < 30_000 && !css.contains("url(") && !css.contains("@import"));
    // Upper case depends on the language: it would spoil codes, ids and Turkish words.
    assert!(!css.contains("text-transform"));
    let pages = pages("Acme", Language::English);
    for asset in [pages.stylesheet(), pages.script()] {
        assert_eq!(asset.version.len(), 16);
        assert!(asset.version.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

#[test]
fn colours_have_the_contrast_of_wcag_aa_in_light_and_dark() {
    let css = STYLESHEET;
    let (light, dark) = css.split_once("@media (prefers-color-scheme: dark)").unwrap();
    for (scheme, part) in [("light", light), ("dark", dark)] {
        let luminance = |name: &str| {
            let hex = part.split_once(&format!("--{name}: #")).unwrap_or_else(|| panic!("{scheme} lacks {name}")).1;
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        let check = |front: &str, ground: &str, least: f64| {
            let (one, other) = (luminance(front), luminance(ground));
            let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
            assert!(contrast >= least, "{scheme}: {front} on {ground} has {contrast:.2}");
        };
        for ground in ["card", "page"] {
            for front in ["text", "quiet", "accent", "accent-strong"] {
                check(front, ground, 4.5);
            }
        }
        check("accent-strong", "wash", 4.5);
        check("quiet", "wash", 4.5);
        check("on-accent", "accent", 4.5);
        check("on-accent", "accent-strong", 4.5);
        check("bad", "bad-wash", 4.5);
        for edge in ["edge", "accent", "bad"] {
            check(edge, "card", 3.0);
        }
    }
}
