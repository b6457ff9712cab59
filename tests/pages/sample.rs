//! Every page in every state, with the same sample data.

use sealgate_config as config;
use sealgate_config::Language;
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationMethod};
use sealgate_domain::open_access::{AccessKind, ClientTokens, OpenAccess};
use sealgate_domain::password_rules::PasswordFault;
use sealgate_domain::scope::ScopeValue;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::upstream_trip::UpstreamProblem;
use sealgate_domain::user::{Email, ManagerDecisions, Role, Subject, User, UserState};
use sealgate_pages::{
    AccountChooserPage, Addresses, AppLoginPage, AppLoginProblem, ClientLink, ConfirmLogoutPage, ConsentPage,
    ConsentResource, CreateAccountPage, CreateAccountProblem, CredentialChoice, EnrolProblem, ErrorPage, ForbiddenPage,
    ForgotPasswordPage, Frame, InvitationPage, KeptFormPage, LeavePage, LinkTarget, LoginPage, LoginProblem,
    MaintenancePage, NewAccountPage, NewPasswordPage, NewPasswordProblem, PageLink, Pages, PasskeyOffer, Problem,
    ProveAddressPage, Publisher, ResetDonePage, ReturnFormPage, SendAgainPage, SignedOutPage, UpstreamButton,
    UpstreamFailure, WeakSignInPage, html, language_tag,
};

use crate::account::account_pages;
use crate::console::console_pages;
use crate::factor::factor_pages;

pub(crate) const LANGUAGES: [Language; 2] = [Language::Turkish, Language::English];

const PROBLEMS: [(&str, Problem); 30] = [
    ("sign-in-needed", Problem::SignInNeeded),
    ("unknown-client", Problem::UnknownClient),
    ("redirect-uri", Problem::RedirectUri),
    ("no-redirect-uri", Problem::NoRedirectUri),
    ("logout-redirect-uri", Problem::LogoutRedirectUri),
    ("invalid-request", Problem::InvalidRequest),
    ("expired-form", Problem::ExpiredForm),
    ("cookie-missing", Problem::CookieMissing),
    ("nothing-to-do", Problem::NothingToDo),
    ("signed-in-already", Problem::SignedInAlready),
    ("upstream-trip", Problem::UpstreamTrip),
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
    ("network", Problem::Network),
    ("factors-reset", Problem::FactorsReset),
    ("enrolment-link", Problem::EnrolmentLink),
    ("reset-link", Problem::ResetLink),
    ("undo-link", Problem::UndoLink),
    ("invitation-link", Problem::InvitationLink),
    ("internal", Problem::Internal),
];

/// Sample data for the pages.
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

pub(crate) fn frame<'a>(pages: &'a Pages, language: Language, address: &str) -> Frame<'a> {
    let addresses = Addresses {
        stylesheet: "sealgate.css".into(),
        console_stylesheet: "sealgate.css".into(),
        script: "sealgate.js".into(),
        keys_script: "keys.js".into(),
        return_script: "return.js".into(),
        logo: None,
        turkish: address.into(),
        english: address.into(),
    };
    pages.frame(language, addresses)
}

pub(crate) const AT: UnixTime = UnixTime::from_seconds(1_800_000_000);

impl Sample {
    pub(crate) fn sub() -> Subject {
        Subject::parse(Self::plain().subject).expect("a subject")
    }

    /// Returns a user with a valid e-mail address.
    pub(crate) fn user(&self) -> User {
        User {
            sub: Self::sub(),
            email: Email::parse(self.account).or_else(|| Email::parse(Self::plain().account)),
            username: None,
            email_verified: true,
            name: self.person.into(),
            phone_number: None,
            picture: None,
            roles: [Role::Admin].into(),
            groups: [self.client.to_owned()].into(),
            password: None,
            source: None,
            state: UserState::Enabled,
            created_at: AT,
            updated_at: AT,
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        }
    }

    /// Returns open accesses of every kind.
    pub(crate) fn accesses(&self) -> Vec<OpenAccess> {
        let place = |number: u8, user_agent: &str, access| OpenAccess {
            sid: Some(SessionId::from_bytes([number; 16])),
            address: Some([192, 0, 2, 7].into()),
            user_agent: Some(user_agent.into()),
            ..access
        };
        let session = |number: u8, user_agent: &str| OpenAccess {
            last_used_at: Some(UnixTime::from_seconds(1_800_003_600)),
            kept_until: (number == 1).then_some(AT),
            methods: vec![AuthenticationMethod::Password, AuthenticationMethod::Totp],
            ..place(
                number,
                user_agent,
                OpenAccess::new(AccessKind::Session, SessionId::from_bytes([number; 16]).to_string(), AT),
            )
        };
        let at = |kind, id: &str| OpenAccess {
            target: Some("wiki".into()),
            title: Some(self.client.into()),
            ..OpenAccess::new(kind, id.to_owned(), AT)
        };
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0";
        let named = |kind, id| OpenAccess { name: Some(self.person.into()), ..at(kind, id) };
        vec![
            session(1, firefox),
            OpenAccess { has_app_login: true, ..place(1, firefox, at(AccessKind::AppSession, "a1")) },
            place(1, firefox, at(AccessKind::AppSession, "a2")),
            session(2, self.person),
            OpenAccess { tokens: Some(ClientTokens::Refresh), last_used_at: Some(AT), ..at(AccessKind::Client, "c1") },
            at(AccessKind::Client, "c2"),
            OpenAccess { last_used_at: Some(AT), ..named(AccessKind::AppPassword, "p1") },
            named(AccessKind::AppPassword, "p2"),
            OpenAccess { is_refused: true, ..named(AccessKind::AppLogin, "wiki") },
        ]
    }
}

/// Returns every page in every state, with its name.
#[expect(clippy::too_many_lines, reason = "a list of pages")]
pub(crate) fn every_page(sample: &Sample, language: Language) -> Vec<(String, String)> {
    let pages = pages(sample.operator, Language::English);
    let &Sample { client, account, person, action, csrf, subject, request_id, .. } = sample;
    let frame = || frame(&pages, language, action);
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((format!("{name}.{}", language_tag(language)), html));

    let passkey = Some(PasskeyOffer { action, options: client, seconds: 900 });
    let (forgot, create) = (Some(action), Some(action));
    let bare_page = |problem| LoginPage {
        frame: frame(),
        action,
        csrf,
        client: Some(client),
        email: "",
        keep: None,
        has_password: true,
        is_name_step: false,
        upstreams: &[],
        local: None,
        upstream_failure: None,
        forgot: None,
        create: None,
        passkey: None,
        problem,
    };
    let login = |client, email: &str, problem| {
        let keep = Some(!email.is_empty());
        html(&LoginPage { client, email, keep, forgot, create, passkey, ..bare_page(problem) })
    };
    add("login", login(Some(client), "", None));
    let bare = |problem| html(&bare_page(problem));
    let upstreams = &[UpstreamButton { name: "acme", label: client }, UpstreamButton { name: "other", label: person }];
    add("login-upstreams", html(&LoginPage { upstreams, passkey, forgot, ..bare_page(None) }));
    add("login-upstreams-no-passkeys", html(&LoginPage { upstreams, keep: Some(true), ..bare_page(None) }));
    add("login-name", html(&LoginPage { upstreams, passkey, forgot, is_name_step: true, ..bare_page(None) }));
    for problem in UpstreamProblem::ALL {
        let upstream_failure = Some(UpstreamFailure { label: client, problem });
        let (upstreams, local) = (&upstreams[..1], Some(action));
        let page = LoginPage { upstreams, upstream_failure, local, has_password: false, passkey, ..bare_page(None) };
        add(&format!("login-upstream-{}", problem.as_str().replace('_', "-")), html(&page));
    }
    add("leave", html(&LeavePage { frame: frame(), label: client, url: action, is_sign_out: false }));
    add("leave-to-sign-out", html(&LeavePage { frame: frame(), label: client, url: action, is_sign_out: true }));
    add("login-no-passkeys", bare(None));
    add("login-wrong-no-mail", bare(Some(LoginProblem::WrongCredentials)));
    add("login-hint", login(Some(client), account, None));
    add("login-no-client", login(None, "", None));
    for (name, problem) in [
        ("login-wrong", LoginProblem::WrongCredentials),
        ("login-throttled", LoginProblem::Throttled { seconds: 30 }),
        ("login-throttled-minutes", LoginProblem::Throttled { seconds: 900 }),
        ("login-busy", LoginProblem::Busy),
        ("login-passkey-refused", LoginProblem::PasskeyRefused),
    ] {
        add(name, login(Some(client), account, Some(problem)));
    }

    for (name, is_requested) in [("forgot-password", false), ("forgot-password-asked", true)] {
        add(name, html(&ForgotPasswordPage { frame: frame(), action, csrf, is_requested, sign_in: action }));
    }
    for (name, problem) in [
        ("new-password", None),
        ("new-password-short", Some(NewPasswordProblem::Fault(PasswordFault::TooShort))),
        ("new-password-personal", Some(NewPasswordProblem::Fault(PasswordFault::Personal))),
        ("new-password-busy", Some(NewPasswordProblem::Busy)),
    ] {
        add(name, html(&NewPasswordPage { frame: frame(), action, csrf, account, username: account, problem }));
    }
    let invitation = |app, is_shared, choice| {
        let inviter = Some(person).filter(|_| app);
        let app = Some(client).filter(|_| app);
        let username = account;
        html(&InvitationPage { frame: frame(), action, csrf, account, username, inviter, app, is_shared, choice })
    };
    let password = |or_passkey, problem| CredentialChoice::Password { or_passkey, has_focus: true, problem };
    let passkey = |problem| CredentialChoice::Passkey { options: person, name: "", problem };
    let short = NewPasswordProblem::Fault(PasswordFault::TooShort);
    add("invitation", invitation(true, false, password(true, None)));
    add("invitation-without-app", invitation(false, false, password(false, None)));
    add("invitation-shared", invitation(true, true, password(true, None)));
    add("invitation-short", invitation(true, false, password(true, Some(short))));
    add("invitation-busy", invitation(true, false, password(true, Some(NewPasswordProblem::Busy))));
    add("invitation-passkey", invitation(true, false, passkey(None)));
    add("invitation-passkey-refused", invitation(true, false, passkey(Some(EnrolProblem::KeyRefused))));
    let create = |domains, problem: Option<CreateAccountProblem>| {
        let typed = if problem.is_some() { account } else { "" };
        html(&CreateAccountPage { frame: frame(), action, csrf, typed, domains, sign_in: action, problem })
    };
    add("create-account", create("", None));
    add("create-account-domains", create(subject, None));
    for (name, problem) in [
        ("malformed", CreateAccountProblem::Malformed),
        ("not-ascii", CreateAccountProblem::NotAscii),
        ("domain", CreateAccountProblem::Domain),
        ("busy", CreateAccountProblem::Busy),
        ("over", CreateAccountProblem::Over),
        ("taken", CreateAccountProblem::Taken),
    ] {
        add(&format!("create-account-{name}"), create(subject, Some(problem)));
    }
    for (name, is_wrong) in [("create-account-code", false), ("create-account-code-wrong", true)] {
        add(name, html(&ProveAddressPage { frame: frame(), action, csrf, again: action, is_wrong }));
    }
    let new_account = |person_name, name_is_wrong, choice| {
        html(&NewAccountPage { frame: frame(), action, csrf, address: account, person_name, name_is_wrong, choice })
    };
    let first = |problem| CredentialChoice::Password { or_passkey: true, has_focus: false, problem };
    add("new-account", new_account("", false, first(None)));
    add("new-account-no-name", new_account("", true, first(None)));
    add("new-account-short", new_account(person, false, first(Some(short))));
    add("new-account-passkey", new_account(person, false, passkey(None)));
    add("new-account-passkey-refused", new_account(person, false, passkey(Some(EnrolProblem::KeyRefused))));
    add("reset-done", html(&ResetDonePage { frame: frame(), sign_in: action }));

    let scopes = [
        (ScopeValue::OpenId, vec![subject.to_owned()]),
        (ScopeValue::Profile, sample.values.clone()),
        (ScopeValue::Email, vec![account.to_owned()]),
        (ScopeValue::Phone, Vec::new()),
        (ScopeValue::Groups, sample.values.clone()),
    ];
    let resource =
        ConsentResource { app: client, id: "https://wiki.example.com", scopes: vec!["Read pages", sample.person] };
    let consent_for = |resource, publisher, website, scopes, offline_access| {
        html(&ConsentPage {
            frame: frame(),
            action,
            csrf,
            client,
            logo: (publisher == Publisher::Operator).then_some("/oauth/client-logos/c1?v=x"),
            host: "app.example.com",
            only_on_device: publisher == Publisher::Itself,
            publisher,
            is_new: true,
            website,
            needs_approval: publisher == Publisher::Itself,
            terms: website
                .map(|_| ClientLink { address: "https://app.example.com/terms", host: "app.example.com".to_owned() }),
            policy: website
                .map(|_| ClientLink { address: "https://app.example.com/privacy", host: "app.example.com".to_owned() }),
            account,
            scopes,
            resource,
            offline_access,
        })
    };
    let consent =
        |publisher, website, scopes, offline_access| consent_for(None, publisher, website, scopes, offline_access);
    add("consent", consent(Publisher::Itself, None, &scopes, true));
    let without_address = [(ScopeValue::Email, Vec::new())];
    add("consent-no-address", consent(Publisher::Operator, None, &without_address, false));
    add("consent-online", consent(Publisher::Operator, None, &scopes[..3], false));
    add("consent-developer", consent(Publisher::Developer(sample.person), Some(client), &scopes, true));
    add("consent-resource", consent_for(Some(&resource), Publisher::Operator, None, &scopes[..1], true));
    add("consent-only-resource", consent_for(Some(&resource), Publisher::Operator, None, &[], false));
    add("consent-nobody", consent(Publisher::DeletedUser, Some(client), &scopes, true));

    let accounts = [sample.user(), User { sub: Subject::from_random([7; 16]), name: String::new(), ..sample.user() }];
    let chooser = |client| html(&AccountChooserPage { frame: frame(), action, csrf, client, accounts: &accounts });
    add("chooser", chooser(Some(client)));
    add("chooser-own", chooser(None));

    let hidden = [("state", client), (request_id, "x")];
    let logout = |client, account| {
        html(&ConfirmLogoutPage { frame: frame(), action, csrf, client, account, stay: action, hidden: &hidden })
    };
    add("logout", logout(Some(client), Some(account)));
    add("logout-plain", logout(None, None));
    let signed_out = |client, app_login, upstream| {
        html(&SignedOutPage { frame: frame(), client, app_login, upstream, sign_in: action })
    };
    add("signed-out", signed_out(Some(client), Some(client), Some(client)));
    add("signed-out-plain", signed_out(None, None, None));

    let error =
        |problem, to| html(&ErrorPage { frame: frame(), problem, request_id, link: PageLink { address: action, to } });
    for (name, problem) in PROBLEMS {
        add(&format!("error-{name}"), error(problem, LinkTarget::Application(client)));
    }
    for (name, to) in [
        ("again", LinkTarget::Again),
        ("start", LinkTarget::Start),
        ("account", LinkTarget::Account),
        ("another-account", LinkTarget::AnotherAccount),
    ] {
        add(&format!("error-way-{name}"), error(Problem::Internal, to));
    }
    for (name, needed, security) in
        [("two", AssuranceLevel::Two, Some(action)), ("resistant", AssuranceLevel::PhishingResistant, None)]
    {
        let (app, again, switch_account) = (client, action, action);
        let page = WeakSignInPage { frame: frame(), app, needed, security, again, switch_account };
        add(&format!("weak-sign-in-{name}"), html(&page));
    }
    for (name, problem) in [
        ("missing", AppLoginProblem::Missing),
        ("refused", AppLoginProblem::Refused),
        ("service", AppLoginProblem::ServiceAccount),
    ] {
        let (app, account_page, again, switch_account) = (client, action, action, action);
        let page = AppLoginPage { frame: frame(), app, problem, account_page, again, switch_account };
        add(&format!("app-login-{name}"), html(&page));
    }
    add("forbidden", html(&ForbiddenPage { frame: frame(), app: client, account, switch_account: action }));
    let until = Some(UnixTime::from_seconds(1_795_356_309));
    for (name, message, until, switch_account) in
        [("", Some(person), until, Some(action)), ("-closed", Some(client), until, None), ("-plain", None, None, None)]
    {
        let (app, again) = (client, action);
        let page = MaintenancePage { frame: frame(), app, message, until, again, switch_account, request_id };
        add(&format!("maintenance{name}"), html(&page));
    }
    let fields = [(client.to_owned(), account.to_owned())];
    let (target, charset, instead) = (action, "utf-8", action);
    let again = SendAgainPage { frame: frame(), app: client, account, target, charset, fields: &fields, instead };
    add("send-again", html(&again));
    add("kept-form", html(&KeptFormPage { frame: frame(), app: client, action }));
    let fields = [("code", client.to_owned()), ("state", account.to_owned())];
    add("return-form", html(&ReturnFormPage { frame: frame(), action, host: client, fields: &fields }));
    let inside = account_pages(&frame(), sample).into_iter().chain(console_pages(&frame(), sample));
    let inside = factor_pages(&frame(), sample).into_iter().chain(inside);
    all.extend(inside.map(|(name, html)| (format!("{name}.{}", language_tag(language)), html)));
    all
}

/// Returns every page of the plain sample in both languages.
pub(crate) fn all_pages() -> Vec<(String, String)> {
    LANGUAGES.into_iter().flat_map(|language| every_page(&Sample::plain(), language)).collect()
}

pub(crate) fn page(name: &str) -> String {
    all_pages().into_iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}")).1
}
