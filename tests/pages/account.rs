//! The account pages, filled in.

use sealgate::facade::domain::app_password::AppPassword;
use sealgate::facade::domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate::facade::domain::client::ClientId;
use sealgate::facade::domain::scope::{Scope, ScopeValue};
use sealgate::facade::domain::time::UnixTime;
use sealgate::facade::domain::user::User;
use sealgate::facade::domain::username::Username;
use sealgate::facade::page::{
    ActivityPage, AppPasswordFault, AppPasswordsPage, Application, ApplicationsPage, Done, EventLine, Frame, HomeApp,
    HomePage, Inside, Named, NewAppPassword, PasswordPage, PasswordProblem, ProfileField, ProfilePage, SessionsPage,
    html,
};
use sealgate::facade::password::PasswordFault;

use crate::sample::{AT, Sample};

const BEFORE: UnixTime = UnixTime::from_seconds(1_799_000_000);

fn inside<'a>(frame: &Frame<'a>, account: &'a str, done: Option<Done>) -> Inside<'a> {
    Inside { frame: frame.clone(), prefix: "", account, console: None, done, app_passwords: true, home: true }
}

/// The account pages in every state.
pub(crate) fn account_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, action, csrf, subject, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let after = |done| inside(frame, account, done);
    let inside = || inside(frame, account, None);

    let user = User { username: Username::parse("wiki"), ..sample.user() };
    let profile = |done, faults| {
        html(&ProfilePage {
            inside: after(done),
            csrf,
            user: &user,
            name: person,
            phone_number: "+90 212 555 01 01",
            picture: "https://example.com/people/ayse.png",
            shown_picture: Some(action),
            faults,
        })
    };
    add("account-profile", profile(None, &[]));
    let faults = [ProfileField::Name, ProfileField::PhoneNumber, ProfileField::Picture];
    add("account-profile-wrong", profile(None, &faults));
    for done in [Done::Profile, Done::Password, Done::Session, Done::OtherSessions, Done::Withdrawn, Done::AppPassword]
    {
        assert_eq!(Done::parse(done.as_str()), Some(done));
        add(&format!("account-done-{}", done.as_str()), profile(Some(done), &[]));
    }

    let password = |problem| html(&PasswordPage { inside: inside(), csrf, email: account, problem });
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
        ("busy", PasswordProblem::Busy),
    ] {
        add(&format!("account-password-{name}"), password(Some(problem)));
    }

    let sessions = [
        Sample::session(1, "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"),
        Sample::session(2, person),
    ];
    let page = |sessions| {
        let (subject, own) = (Sample::sub(), Sample::session(1, "").id);
        html(&SessionsPage { inside: inside(), csrf, subject, own, sessions, switch_account: action })
    };
    add("account-sessions", page(&sessions));
    add("account-sessions-one", page(&sessions[..1]));

    let event = |kind, actor, address: Option<[u8; 4]>, count, party: Option<&str>| EventLine {
        event: AuditEvent { address: address.map(Into::into), count, ..AuditEvent::new(AT, kind, actor) },
        administrator: None,
        subject: None,
        party: party.map(|name| Named { id: subject.into(), name: Some(name.into()), has_page: false }),
    };
    let address = Some([192, 0, 2, 7]);
    let events = [
        event(AuditKind::SignedIn, Actor::Person, address, 1, Some(client)),
        event(AuditKind::SignInFailed, Actor::Person, None, 3, None),
        event(AuditKind::PasswordChanged, Actor::Operator, address, 1, Some(client)),
    ];
    let next = Some("/account/activity?after=x");
    add("account-activity", html(&ActivityPage { inside: inside(), events: &events, next }));
    add("account-activity-none", html(&ActivityPage { inside: inside(), events: &[], next: None }));

    all.extend(application_pages(frame, sample));
    all
}

/// The pages about applications in every state.
fn application_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, action, csrf, subject, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let inside = || inside(frame, account, None);

    let scope = |values: &[ScopeValue]| -> Scope { values.iter().copied().collect() };
    let application = |scope| Application {
        client: ClientId::parse("c1").expect("an id"),
        name: client.into(),
        scope,
        since: BEFORE,
    };
    let all_but_groups = Scope::all().without(ScopeValue::Groups);
    let applications = [application(all_but_groups), application(scope(&[ScopeValue::OpenId]))];
    let page = |applications| html(&ApplicationsPage { inside: inside(), csrf, applications });
    add("account-applications", page(&applications));
    add("account-applications-none", page(&[]));

    let (fresh, _) = AppPassword::new(client, person, &[0; 20], BEFORE);
    let used = AppPassword { last_used_at: Some(AT), ..fresh.clone() };
    let both = [(&fresh, client), (&used, client)];
    let page = |apps, passwords, fault, made| {
        let (app, name) = ("Wiki", person);
        html(&AppPasswordsPage { inside: inside(), csrf, apps, app, passwords, name, fault, made })
    };
    let apps = &[(subject, client), ("Wiki", person)];
    add("account-app-passwords", page(apps, &both, None, None));
    let made = NewAppPassword { password: "an application password", user: account, app: client };
    add("account-app-passwords-made", page(apps, &both, None, Some(made)));
    add("account-app-passwords-name", page(apps, &both, Some(AppPasswordFault::Name), None));
    add("account-app-passwords-full", page(apps, &both, Some(AppPasswordFault::Full), None));
    add("account-app-passwords-nowhere", page(&[], &[], None, None));

    let app = |description| HomeApp { address: action.into(), title: client, description, icon: None };
    add("home", html(&HomePage { inside: inside(), apps: &[app(Some(person)), app(None)] }));
    add("home-none", html(&HomePage { inside: inside(), apps: &[] }));
    all
}
