//! The account pages, filled in.

use sealgate::page::{
    Activity, AppChoice, AppPasswordFault, AppPasswordLine, AppPasswordMade, AppPasswords, ApplicationLine,
    Applications, AuditActor, Chrome, Done, EventLine, Home, HomeApp, Named, Pages, PasswordChange, PasswordProblem,
    Profile, ProfileField, SessionLine, Sessions, Shell, language_tag,
};

use crate::sample::Sample;

/// The account pages in every state.
pub(crate) fn account_pages(pages: &Pages, chrome: &Chrome<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, action, csrf, subject, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((format!("{name}.{}", language_tag(chrome.language)), html));
    let shell = Shell { prefix: "", account, console: None, done: None, app_passwords: true, home: true };

    let picture = "https://example.com/people/ayse.png";
    let profile = Profile {
        csrf,
        email: account,
        username: Some(client),
        name: person,
        phone_number: "+90 212 555 01 01",
        picture,
        shown_picture: Some(action),
        faults: &[],
        updated_at: 1_800_000_000,
    };
    add("account-profile", pages.profile(chrome, &shell, &profile));
    let faults = [ProfileField::Name, ProfileField::PhoneNumber, ProfileField::Picture];
    add("account-profile-wrong", pages.profile(chrome, &shell, &Profile { faults: &faults, ..profile }));
    for done in [Done::Profile, Done::Password, Done::Session, Done::OtherSessions, Done::Withdrawn, Done::AppPassword]
    {
        assert_eq!(Done::parse(done.as_str()), Some(done));
        let shell = Shell { done: Some(done), ..shell };
        add(&format!("account-done-{}", done.as_str()), pages.profile(chrome, &shell, &profile));
    }

    let password = PasswordChange { csrf, email: account, problem: None };
    add("account-password", pages.password_change(chrome, &shell, &password));
    for (name, problem) in [
        ("current", PasswordProblem::WrongCurrent),
        ("short", PasswordProblem::TooShort),
        ("personal", PasswordProblem::Personal),
        ("common", PasswordProblem::Common),
        ("long", PasswordProblem::TooLong),
        ("unchanged", PasswordProblem::Unchanged),
        ("different", PasswordProblem::Different),
        ("throttled", PasswordProblem::Throttled { seconds: 30 }),
        ("throttled-minutes", PasswordProblem::Throttled { seconds: 900 }),
        ("busy", PasswordProblem::Busy),
    ] {
        let page = PasswordChange { problem: Some(problem), ..password };
        add(&format!("account-password-{name}"), pages.password_change(chrome, &shell, &page));
    }

    let session = SessionLine {
        id: subject,
        current: true,
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
        address: "192.0.2.7",
        signed_in_at: 1_800_000_000,
        last_seen_at: 1_800_003_600,
    };
    let sessions = [session, SessionLine { current: false, user_agent: person, address: client, ..session }];
    let page = Sessions { csrf, sessions: &sessions, switch_account: action };
    add("account-sessions", pages.sessions(chrome, &shell, &page));
    add("account-sessions-one", pages.sessions(chrome, &shell, &Sessions { sessions: &sessions[..1], ..page }));

    let scopes = ["openid", "profile", "email", "phone", "offline_access"];
    let line = ApplicationLine { client: subject, name: client, scopes: &scopes, since: 1_799_000_000 };
    let page = Applications { csrf, applications: &[line, ApplicationLine { scopes: &scopes[..1], ..line }] };
    add("account-applications", pages.applications(chrome, &shell, &page));
    let event = EventLine {
        kind: "signed_in",
        at: 1_800_000_000,
        count: 1,
        actor: AuditActor::Person,
        subject: None,
        party: Some(Named { id: subject, name: Some(client), has_page: false }),
        address: Some("192.0.2.7"),
        request_id: None,
        detail: None,
    };
    let failed = EventLine { kind: "sign_in_failed", count: 3, party: None, address: None, ..event };
    let events = [event, failed, EventLine { kind: "password_changed", actor: AuditActor::Operator, ..event }];
    let page = Activity { events: &events, next: Some("/account/activity?after=x") };
    add("account-activity", pages.activity(chrome, &shell, &page));
    add("account-activity-none", pages.activity(chrome, &shell, &Activity { events: &[], next: None }));
    let choices = [
        AppChoice { app: subject, title: client, chosen: false },
        AppChoice { app: client, title: person, chosen: true },
    ];
    let unused =
        AppPasswordLine { id: subject, name: person, app: client, created_at: 1_799_000_000, last_used_at: None };
    let passwords = [unused, AppPasswordLine { last_used_at: Some(1_800_000_000), ..unused }];
    let page = AppPasswords { csrf, apps: &choices, passwords: &passwords, name: person, fault: None, made: None };
    add("account-app-passwords", pages.app_passwords(chrome, &shell, &page));
    let made = AppPasswordMade { password: "an application password", user: account, app: client };
    add("account-app-passwords-made", pages.app_passwords(chrome, &shell, &AppPasswords { made: Some(made), ..page }));
    for (name, fault) in [("name", AppPasswordFault::Name), ("full", AppPasswordFault::Full)] {
        let page = AppPasswords { fault: Some(fault), ..page };
        add(&format!("account-app-passwords-{name}"), pages.app_passwords(chrome, &shell, &page));
    }
    let nowhere = AppPasswords { apps: &[], passwords: &[], ..page };
    add("account-app-passwords-nowhere", pages.app_passwords(chrome, &shell, &nowhere));
    let app = HomeApp { address: action, title: client, description: Some(person), icon: None };
    let apps = [app, HomeApp { description: None, ..app }];
    add("home", pages.home(chrome, &shell, &Home { apps: &apps }));
    add("home-none", pages.home(chrome, &shell, &Home { apps: &[] }));
    let page = Applications { csrf, applications: &[] };
    add("account-applications-none", pages.applications(chrome, &shell, &Applications { applications: &[], ..page }));
    all
}
