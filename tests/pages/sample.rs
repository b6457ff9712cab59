//! Every page in every state, filled with the same sample.

use sealgate::config::{self, Language};
use sealgate::page::{
    AccountChooser, AccountLine, Chrome, ConfirmLogout, Consent, ErrorPage, Forbidden, LanguageSwitch, Login,
    LoginProblem, Pages, Problem, Publisher, ReturnForm, ScopeLine, SendAgain, SignedOut, Way, WayTo, language_tag,
};

use crate::account::account_pages;
use crate::console::console_pages;

pub(crate) const LANGUAGES: [Language; 2] = [Language::Turkish, Language::English];

const PROBLEMS: [(&str, Problem); 22] = [
    ("unknown-client", Problem::UnknownClient),
    ("redirect-uri", Problem::RedirectUri),
    ("no-redirect-uri", Problem::NoRedirectUri),
    ("logout-redirect-uri", Problem::LogoutRedirectUri),
    ("invalid-request", Problem::InvalidRequest),
    ("expired-form", Problem::ExpiredForm),
    ("cookie-missing", Problem::CookieMissing),
    ("nothing-to-do", Problem::NothingToDo),
    ("signed-in-already", Problem::SignedInAlready),
    ("not-found", Problem::NotFound),
    ("unknown-host", Problem::UnknownHost),
    ("for-programs", Problem::ForPrograms),
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
pub(crate) struct Sample {
    pub(crate) operator: &'static str,
    pub(crate) client: &'static str,
    pub(crate) account: &'static str,
    pub(crate) person: &'static str,
    pub(crate) values: Vec<String>,
    pub(crate) action: &'static str,
    pub(crate) csrf: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) request_id: &'static str,
}

impl Sample {
    pub(crate) fn plain() -> Self {
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

    pub(crate) fn filled_with(text: &'static str) -> Self {
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

pub(crate) fn pages(operator: &str, default_language: Language) -> Pages {
    let settings = config::PagesConfig { operator: operator.into(), default_language, logo: None, accent: None };
    Pages::new(&settings)
}

pub(crate) fn chrome(language: Language, switch: &str) -> Chrome<'_> {
    let switch = LanguageSwitch { turkish: switch, english: switch };
    Chrome { language, stylesheet: "sealgate.css", script: "sealgate.js", logo: None, switch }
}

/// Every page in every state, by name.
pub(crate) fn every_page(sample: &Sample, language: Language) -> Vec<(String, String)> {
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
        ScopeLine { scope: "groups", values: &sample.values },
        ScopeLine { scope: client, values: &[] },
    ];
    let consent = Consent {
        action,
        csrf,
        client,
        host: "app.example.com",
        publisher: Publisher::Itself,
        is_new: true,
        website: None,
        account,
        scopes: &scopes,
        offline_access: true,
    };
    add("consent", pages.consent(&chrome, &consent));
    add(
        "consent-online",
        pages.consent(
            &chrome,
            &Consent { offline_access: false, publisher: Publisher::Operator, scopes: &scopes[..3], ..consent },
        ),
    );

    for (name, publisher) in [("developer", Publisher::Developer(sample.person)), ("nobody", Publisher::Nobody)] {
        let page = Consent { publisher, website: Some(client), ..consent };
        add(&format!("consent-{name}"), pages.consent(&chrome, &page));
    }

    let accounts = [
        AccountLine { subject, name: Some(sample.person), email: account },
        AccountLine { subject: "another", name: None, email: account },
    ];
    let chooser = AccountChooser { action, csrf, client: Some(client), accounts: &accounts };
    add("chooser", pages.account_chooser(&chrome, &chooser));
    add("chooser-own", pages.account_chooser(&chrome, &AccountChooser { client: None, ..chooser }));

    let hidden = [("state", client), (request_id, "x")];
    let logout =
        ConfirmLogout { action, csrf, client: Some(client), account: Some(account), stay: action, hidden: &hidden };
    add("logout", pages.confirm_logout(&chrome, &logout));
    add("logout-plain", pages.confirm_logout(&chrome, &ConfirmLogout { client: None, account: None, ..logout }));
    add("signed-out", pages.signed_out(&chrome, &SignedOut { client: Some(client), sign_in: action }));
    add("signed-out-plain", pages.signed_out(&chrome, &SignedOut { client: None, sign_in: action }));

    for (name, problem) in PROBLEMS {
        let way = Way { address: action, to: WayTo::Application(client) };
        add(&format!("error-{name}"), pages.error(&chrome, &ErrorPage { problem, request_id, way }));
    }
    for (name, to) in [
        ("again", WayTo::Again),
        ("start", WayTo::Start),
        ("account", WayTo::Account),
        ("another-account", WayTo::AnotherAccount),
    ] {
        let way = Way { address: action, to };
        let page = ErrorPage { problem: Problem::Internal, request_id, way };
        add(&format!("error-way-{name}"), pages.error(&chrome, &page));
    }
    add("forbidden", pages.forbidden(&chrome, &Forbidden { app: client, account, switch_account: action }));
    let fields = [(client.to_owned(), account.to_owned())];
    let again = SendAgain { app: client, account, target: action, charset: "utf-8", fields: &fields, instead: action };
    add("send-again", pages.send_again(&chrome, &again));
    let fields = [("code", client.to_owned()), ("state", account.to_owned())];
    add("return-form", pages.return_form(&chrome, &ReturnForm { action, host: client, fields: &fields }));
    all.extend(account_pages(&pages, &chrome, sample));
    all.extend(console_pages(&pages, &chrome, sample));
    all
}

/// Every page of the plain sample in both languages.
pub(crate) fn all_pages() -> Vec<(String, String)> {
    LANGUAGES.into_iter().flat_map(|language| every_page(&Sample::plain(), language)).collect()
}

pub(crate) fn page(name: &str) -> String {
    all_pages().into_iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}")).1
}
