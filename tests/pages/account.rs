//! Account pages with sample data.

use sealgate_domain::app_credential::AppCredential;
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::{AssuranceLevel, FactorId};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::factors::FactorKind;
use sealgate_domain::open_access::{AccessKind, OpenAccess};
use sealgate_domain::password_rules::PasswordFault;
use sealgate_domain::scope::{Scope, ScopeValue};
use sealgate_domain::secret::Sealed;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::upstream_trip::UpstreamProblem;
use sealgate_domain::user::User;
use sealgate_domain::username::Username;
use sealgate_pages::{
    AccessTable, ActivityPage, AddFactorPage, AddressPage, AddressProblem, AppEnrolment, AppLoginFault, AppLoginForm,
    AppLoginLine, AppLoginsPage, AppPasswordFault, AppPasswordsPage, ApplicationsPage, BeginLinkPage, ConfirmLinkPage,
    Done, EnrolProblem, EnrolStep, EventLine, FactorLine, FactorSettingsPage, Frame, HomeApp, HomeAppLogin, HomePage,
    Inside, KeyEnrolment, LinkDone, LinkDonePage, LinkProblem, LinkRefusal, LinkRefusedPage, LinkableSource,
    LinkedAccount, LinkedAccounts, LoginProblem, MakeCodesPage, Named, NewAddressPage, NewAddressProblem,
    NewAppPassword, PasskeySignals, PasswordPage, PasswordProblem, ProfileField, ProfilePage, RecoveryState,
    SecurityPage, SecurityProblem, SessionsPage, UndoOutcome, UndoPage, UndonePage, UnlinkPage, WaitingCode, html,
};

use crate::sample::{AT, Sample};

const BEFORE: UnixTime = UnixTime::from_seconds(1_799_000_000);

fn inside<'a>(frame: &Frame<'a>, account: &'a str, done: Option<Done>) -> Inside<'a> {
    Inside {
        frame: frame.clone(),
        prefix: "",
        account,
        console: ConsoleRoles::NONE,
        done,
        app_passwords: true,
        app_logins: true,
        api: true,
        once: "0nce".to_owned(),
        home: true,
    }
}

/// Returns the page of names and passwords at applications in every state.
fn app_login_pages<'a>(inside: &dyn Fn() -> Inside<'a>, sample: &Sample) -> Vec<(&'static str, String)> {
    let &Sample { client, person, action, csrf, .. } = sample;
    let stored = |is_refused| AppCredential {
        app: "wiki".into(),
        username: person.into(),
        password: Sealed::from_bytes(b"a sealed password".to_vec()),
        changed_at: BEFORE,
        is_refused,
    };
    let (good, refused) = (stored(false), stored(true));
    let line = |takes, stored| AppLoginLine { app: "wiki", title: client, takes, stored };
    let lines = [line(true, None), line(true, Some(&good)), line(true, Some(&refused)), line(false, Some(&good))];
    let page = |form, fault, saved, can_store, needed| {
        html(&AppLoginsPage { inside: inside(), csrf, lines: &lines, form, fault, saved, can_store, needed })
    };
    let form = Some(AppLoginForm { app: "wiki", title: client, username: person });
    let none = AppLoginsPage {
        inside: inside(),
        csrf,
        lines: &[],
        form: None,
        fault: None,
        saved: None,
        can_store: true,
        needed: None,
    };
    vec![
        ("", page(None, None, None, true, None)),
        ("-form", page(form, None, None, true, None)),
        ("-username", page(form, Some(AppLoginFault::Username), None, true, None)),
        ("-password", page(form, Some(AppLoginFault::Password), None, true, None)),
        ("-full", page(form, Some(AppLoginFault::Full), None, true, None)),
        ("-saved", page(None, None, Some((client, action)), true, None)),
        ("-unavailable", page(form, None, None, false, None)),
        ("-weak-two", page(form, None, None, true, Some(AssuranceLevel::Two))),
        ("-weak-resistant", page(form, None, None, true, Some(AssuranceLevel::PhishingResistant))),
        ("-nowhere", html(&none)),
    ]
}

/// Returns the account pages in every state.
pub(crate) fn account_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, action, csrf, subject, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let after = |done| inside(frame, account, done);
    let inside = || inside(frame, account, None);

    let user = User { username: Username::parse("wiki"), ..sample.user() };
    let profile_page = |done: Option<Done>, faults| ProfilePage {
        has_address_page: done.is_some(),
        inside: after(done),
        csrf,
        user: &user,
        upstream: None,
        name: person,
        phone_number: "+90 212 555 01 01",
        picture: "https://example.com/people/ayse.png",
        shown_picture: Some(action),
        faults,
    };
    let profile = |done, faults| html(&profile_page(done, faults));
    add("account-profile", profile(None, &[]));
    let without_address = User { email: None, email_verified: false, ..user.clone() };
    for (name, has_address_page) in [("account-profile-no-address", true), ("account-profile-no-address-page", false)] {
        let page = ProfilePage { user: &without_address, has_address_page, ..profile_page(None, &[]) };
        add(name, html(&page));
    }
    let faults = [ProfileField::Name, ProfileField::PhoneNumber, ProfileField::Picture];
    add("account-profile-wrong", profile(None, &faults));
    for done in [
        Done::Profile,
        Done::Password,
        Done::AddressVerified,
        Done::AddressChanged,
        Done::AddressReturned,
        Done::AddressAdded,
        Done::Session,
        Done::OtherSessions,
        Done::Withdrawn,
        Done::AppPassword,
        Done::AppLogin,
        Done::AppLoginRemoved,
        Done::FactorAdded,
        Done::FactorRenamed,
        Done::FactorRemoved,
    ] {
        assert_eq!(Done::parse(done.as_str()), Some(done));
        add(&format!("account-done-{}", done.as_str()), profile(Some(done), &[]));
    }

    let password =
        |problem| html(&PasswordPage { inside: inside(), csrf, account, is_managed: false, upstream: None, problem });
    add("account-password", password(None));
    for (name, problem) in [
        ("current", PasswordProblem::WrongCurrent),
        ("short", PasswordProblem::New(PasswordFault::TooShort)),
        ("personal", PasswordProblem::New(PasswordFault::Personal)),
        ("common", PasswordProblem::New(PasswordFault::Common)),
        ("long", PasswordProblem::New(PasswordFault::TooLong)),
        ("unchanged", PasswordProblem::Unchanged),
        ("different", PasswordProblem::Different),
        ("throttled", PasswordProblem::Throttled { seconds: 30 }),
        ("throttled-minutes", PasswordProblem::Throttled { seconds: 900 }),
        ("too-many-changes", PasswordProblem::TooManyChanges),
        ("busy", PasswordProblem::Busy),
    ] {
        add(&format!("account-password-{name}"), password(Some(problem)));
    }

    let event = |kind, actor, address: Option<[u8; 4]>, count, party: Option<&str>| EventLine {
        event: AuditEvent { address: address.map(Into::into), count, ..AuditEvent::new(AT, kind, actor) },
        administrator: None,
        subject: None,
        party: party.map(|name| Named { id: subject.into(), name: Some(name.into()), has_page: false }),
    };
    let address = Some([192, 0, 2, 7]);
    let events = [
        event(AuditKind::SignedIn, Actor::User, address, 1, Some(client)),
        event(AuditKind::SignInFailed, Actor::User, None, 3, None),
        event(AuditKind::PasswordChanged, Actor::Operator, address, 1, Some(client)),
        EventLine {
            event: AuditEvent::new(AT, AuditKind::FactorAdded, Actor::User).with_detail(format!("passkey {person}")),
            ..event(AuditKind::FactorAdded, Actor::User, None, 1, None)
        },
    ];
    let next = Some("/account/activity?after=x");
    add("account-activity", html(&ActivityPage { inside: inside(), events: &events, next }));
    add("account-activity-none", html(&ActivityPage { inside: inside(), events: &[], next: None }));

    all.extend(session_pages(frame, sample));
    all.extend(address_pages(frame, sample));
    all.extend(application_pages(frame, sample));
    all.extend(security_pages(frame, sample));
    all
}

/// Returns the pages about sessions in every state.
fn session_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { account, person, action, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let accesses = sample.accesses();
    let page = |rows, next, is_elsewhere, new_factors| {
        let own = Some(SessionId::from_bytes([1; 16]));
        html(&SessionsPage {
            inside: inside(frame, account, None),
            csrf,
            own,
            accesses: AccessTable { rows, next },
            is_elsewhere,
            new_factors,
            factors_csrf: csrf,
            switch_account: action,
        })
    };
    let factor = FactorLine {
        id: FactorId::from_bytes([1; 16]),
        kind: FactorKind::Passkey,
        is_synced: Some(true),
        name: person,
        added_at: BEFORE,
        last_used_at: None,
    };
    add("account-sessions", page(&accesses, Some("/account/sessions?after=8"), true, &[]));
    add("account-sessions-one", page(&accesses[..1], None, false, &[]));
    add("account-sessions-credentials", page(&accesses[..1], None, false, &[factor]));
    all
}

/// Returns the pages about the e-mail address in every state.
fn address_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { account, csrf, action, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let of = |address, verified, waiting, problem| {
        let inside = inside(frame, account, None);
        html(&AddressPage { inside, csrf, address, verified, waiting, problem })
    };
    let page = |verified, waiting, problem| of(Some(account), verified, waiting, problem);
    add("account-address-none", of(None, false, None, None));
    add("account-address-code-added", of(None, false, Some(WaitingCode::OfNewAddress(account)), None));
    add("account-address", page(true, None, None));
    add("account-address-unverified", page(false, None, None));
    add("account-address-code", page(false, Some(WaitingCode::OfAddress(account)), None));
    add("account-address-code-new", page(true, Some(WaitingCode::OfNewAddress(account)), None));
    let wrong = Some(AddressProblem::WrongCode);
    add("account-address-code-wrong", page(false, Some(WaitingCode::OfAddress(account)), wrong));
    for (name, problem) in [
        ("over", AddressProblem::Over),
        ("too-many", AddressProblem::TooMany),
        ("busy", AddressProblem::Busy),
        ("undeliverable", AddressProblem::Undeliverable),
        ("taken", AddressProblem::Taken),
    ] {
        add(&format!("account-address-{name}"), page(false, None, Some(problem)));
    }
    let new_of = |address, problem| {
        let inside = inside(frame, account, None);
        html(&NewAddressPage { inside, csrf, address, typed: action, domains: "example.test", problem })
    };
    let new = |problem| new_of(Some(account), problem);
    add("account-new-address-added", new_of(None, None));
    add("account-new-address", new(None));
    for (name, problem) in [
        ("domain", NewAddressProblem::Domain),
        ("malformed", NewAddressProblem::Malformed),
        ("not-ascii", NewAddressProblem::NotAscii),
        ("unchanged", NewAddressProblem::Unchanged),
        ("too-many", NewAddressProblem::TooMany),
        ("busy", NewAddressProblem::Busy),
    ] {
        add(&format!("account-new-address-{name}"), new(Some(problem)));
    }
    add("undo", html(&UndoPage { frame: frame.clone(), action, csrf, old: account, new: account }));
    let added = [account.to_owned(), action.to_owned()];
    for (name, outcome, added) in [
        ("reset", UndoOutcome::ResetMailed, &added[..]),
        ("passkey", UndoOutcome::Passkey, &[]),
        ("administrator", UndoOutcome::AskAdministrator, &[]),
        ("closed", UndoOutcome::Closed, &added[..1]),
        ("taken", UndoOutcome::Taken, &[]),
    ] {
        add(&format!("undone-{name}"), html(&UndonePage { frame: frame.clone(), outcome, added, sign_in: action }));
    }
    all
}

/// Returns the pages about applications in every state.
fn application_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, action, csrf, subject, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let inside = || inside(frame, account, None);

    let scope = |values: &[ScopeValue]| -> Scope { values.iter().copied().collect() };
    let application = |scope| OpenAccess {
        title: Some(client.into()),
        scope: Some(scope),
        ..OpenAccess::new(AccessKind::Client, "c1".to_owned(), BEFORE)
    };
    let all_but_groups = Scope::all().without(ScopeValue::Groups);
    let applications = [application(all_but_groups), application(scope(&[ScopeValue::OpenId]))];
    let page = |applications| html(&ApplicationsPage { inside: inside(), csrf, applications });
    add("account-applications", page(&applications));
    add("account-applications-none", page(&[]));

    let (fresh, _) = AppPassword::new(client, person, AssuranceLevel::One, &[0; 20], BEFORE);
    let used = AppPassword { last_used_at: Some(AT), ..fresh.clone() };
    let both = [(&fresh, client), (&used, client)];
    let page_for = |apps, passwords, fault, needed, made| {
        let (app, name) = ("Wiki", person);
        html(&AppPasswordsPage { inside: inside(), csrf, apps, app, passwords, name, fault, needed, made })
    };
    let page = |apps, passwords, fault, made| page_for(apps, passwords, fault, None, made);
    let apps = &[(subject, client), ("Wiki", person)];
    add("account-app-passwords", page(apps, &both, None, None));
    let made = NewAppPassword { password: "an application password", user: account, app: client, header: None };
    add("account-app-passwords-made", page(apps, &both, None, Some(made)));
    add("account-app-passwords-name", page(apps, &both, Some(AppPasswordFault::Name), None));
    add("account-app-passwords-full", page(apps, &both, Some(AppPasswordFault::Full), None));
    for level in [AssuranceLevel::Two, AssuranceLevel::PhishingResistant] {
        add(&format!("account-app-passwords-weak-{level}"), page_for(apps, &both, None, Some(level), None));
    }
    add("account-app-passwords-nowhere", page(&[], &[], None, None));

    for (name, html) in app_login_pages(&inside, sample) {
        add(&format!("account-app-logins{name}"), html);
    }

    let app = |description, login: Option<HomeAppLogin>| {
        let in_maintenance = login.is_none();
        let is_unavailable = !in_maintenance;
        HomeApp {
            address: action.into(),
            title: client,
            description,
            icon: None,
            in_maintenance,
            is_unavailable,
            login,
        }
    };
    let form = "/account/app-logins?app=wiki".to_owned();
    let logins = [None, Some(HomeAppLogin::Missing(form.clone())), Some(HomeAppLogin::Refused(form))];
    let apps = logins.map(|login| app(Some(person).filter(|_| login.is_none()), login));
    add("home", html(&HomePage { inside: inside(), apps: &apps, search: None, offers_passkey: true }));
    let page = |apps, search| html(&HomePage { inside: inside(), apps, search, offers_passkey: false });
    add("home-none", page(&[], None));
    add("home-search", page(&apps, Some("")));
    add("home-search-none", page(&[], Some(client)));
    all
}

/// Returns the page "Security" and its subpages in every state.
fn security_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let inside = || inside(frame, account, None);

    let line = |kind, is_synced, last_used_at| FactorLine {
        id: FactorId::from_bytes([7; 16]),
        kind,
        is_synced,
        name: person,
        added_at: BEFORE,
        last_used_at,
    };
    let lines = [
        line(FactorKind::Passkey, Some(true), Some(AT)),
        line(FactorKind::SecurityKey, Some(false), None),
        line(FactorKind::Totp, None, Some(AT)),
    ];
    let none = LinkedAccounts::None(Vec::new());
    let page_with = |factors: &[FactorLine<'_>],
                     recovery,
                     room,
                     signals: Option<PasskeySignals<'_>>,
                     problem,
                     linked: &LinkedAccounts<'_>| {
        let (takes_apps, takes_keys) = (room, room);
        html(&SecurityPage { inside: inside(), factors, recovery, takes_apps, takes_keys, signals, linked, problem })
    };
    let page = |factors, recovery, room, signals, problem| page_with(factors, recovery, room, signals, problem, &none);
    let left = |count, few| RecoveryState::Left { count, few, made_at: BEFORE };
    let signals = |accepted| Some(PasskeySignals { accepted, details: client });
    add("account-security", page(&lines, left(8, false), true, signals(None), None));
    add("account-security-few", page(&lines, left(1, true), false, signals(Some(client)), None));
    add("account-security-keys", page(&lines[..2], RecoveryState::None, true, None, None));
    add("account-security-none", page(&[], RecoveryState::Unavailable, true, None, None));
    let refused = |problem| page(&lines, left(8, false), true, None, Some(problem));
    add("account-security-demanded", refused(SecurityProblem::Demanded));
    add("account-security-last-passkey", refused(SecurityProblem::LastPasskey));

    let linked = |linked_at, may_unlink| {
        let confirmed_at = linked_at;
        LinkedAccounts::Linked(LinkedAccount { label: client, linked_at, confirmed_at, may_unlink })
    };
    let sources = vec![LinkableSource { name: "acme", label: client }, LinkableSource { name: "corp", label: person }];
    for (name, linked) in
        [("own", linked(Some(BEFORE), true)), ("kept", linked(None, false)), ("open", LinkedAccounts::None(sources))]
    {
        let html = page_with(&lines, RecoveryState::None, true, None, None, &linked);
        add(&format!("account-security-linked-{name}"), html);
    }
    let begin = |is_directory, problem| {
        let (label, source) = (client, "corp");
        html(&BeginLinkPage { inside: inside(), csrf, source, label, is_directory, account: person, problem })
    };
    add("account-link", begin(false, None));
    add("account-link-directory", begin(true, None));
    add("account-link-wrong", begin(true, Some(LinkProblem::SignIn(LoginProblem::WrongCredentials))));
    add("account-link-away", begin(true, Some(LinkProblem::Away)));
    for (name, is_directory) in [("provider", false), ("directory", true)] {
        let (label, names) = (client, &[person, account][..]);
        let (has_password, is_administrator) = (is_directory, is_directory);
        let inside = inside();
        let page =
            ConfirmLinkPage { inside, csrf, label, is_directory, account, names, has_password, is_administrator };
        add(&format!("account-confirm-link-{name}"), html(&page));
    }
    let refused = |refusal| html(&LinkRefusedPage { inside: inside(), label: client, refusal });
    for (name, refusal) in [
        ("taken", LinkRefusal::Taken),
        ("name-taken", LinkRefusal::NameTaken),
        ("has-source", LinkRefusal::HasSource),
        ("denied", LinkRefusal::Provider(UpstreamProblem::Denied)),
        ("away", LinkRefusal::Provider(UpstreamProblem::Unavailable)),
        ("invalid", LinkRefusal::Provider(UpstreamProblem::Invalid)),
        ("groups", LinkRefusal::Provider(UpstreamProblem::GroupsOverage)),
        ("no-way-left", LinkRefusal::NoWayLeft),
        ("only-administrator", LinkRefusal::OnlyAdministrator),
    ] {
        add(&format!("account-link-{name}"), refused(refusal));
    }
    add("account-unlink", html(&UnlinkPage { inside: inside(), csrf, label: client }));
    for (name, done) in [("linked", LinkDone::Linked), ("unlinked", LinkDone::Unlinked)] {
        let page = LinkDonePage { frame: frame.clone(), label: client, done, sign_in: sample.action };
        add(&format!("{name}-accounts"), html(&page));
    }

    let adds = |enrolment| html(&AddFactorPage { inside: inside(), action: sample.action, csrf, enrolment });
    let uri = "otpauth://totp/Acme:ayse.isik%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Acme";
    let secret = "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ";
    let app = |problem| adds(EnrolStep::App(AppEnrolment { secret, uri, name: person, problem }));
    let key =
        |problem| adds(EnrolStep::Key(KeyEnrolment { security_key: client, passkey: person, name: person, problem }));
    add("account-security-add-app", app(None));
    add("account-security-add-app-wrong", app(Some(EnrolProblem::WrongCode)));
    add("account-security-add-key", key(None));
    add("account-security-add-key-known", key(Some(EnrolProblem::KeyKnown)));

    let settings = |factor, is_last| html(&FactorSettingsPage { inside: inside(), csrf, factor, is_last });
    add("account-security-factor", settings(lines[0], false));
    add("account-security-factor-last", settings(lines[2], true));
    let make = |replaces| html(&MakeCodesPage { inside: inside(), csrf, replaces });
    add("account-security-codes", make(true));
    add("account-security-codes-first", make(false));
    all
}

#[test]
fn icons_of_applications_skip_the_article_and_differ() {
    let icon = |title: &'static str| {
        let sample = Sample { client: title, ..Sample::plain() };
        let pages = crate::sample::pages(title, sealgate_config::Language::English);
        let frame = crate::sample::frame(&pages, sealgate_config::Language::English, "/");
        let all = account_pages(&frame, &sample);
        let (_, html) = all.into_iter().find(|(name, _)| name == "home").unwrap();
        let icon =
            html.split("<ul class=\"apps\" id=\"apps\">").nth(1).unwrap().split("<span class=\"seal").nth(1).unwrap();
        let (class, rest) = icon.split_once("\" aria-hidden=\"true\">").unwrap();
        (class.trim().to_owned(), rest.split_once('<').unwrap().0.to_owned())
    };
    for (title, letter) in
        [("The legacy application", "l"), ("A wiki", "w"), ("An", "A"), ("Theatre", "T"), ("the", "t")]
    {
        assert_eq!(icon(title).1, letter, "{title}");
    }
    assert_eq!(icon("Wiki"), icon("Wiki"));
    let titles = ["Wiki", "Mail", "Files", "Calendar", "Notes", "Tickets", "Forum", "Chat"];
    let tints: std::collections::BTreeSet<_> = titles.iter().map(|title| icon(title).0).collect();
    assert!(tints.len() >= 3 && tints.iter().all(|tint| tint.starts_with("tint-")), "{tints:?}");
}
