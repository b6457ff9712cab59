//! Console pages about the installation with sample data: overview, applications, access checks,
//! keys, e-mail and settings.

use sealgate_config::{Access, EffectiveSetting, SettingSource};
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::client::ClientId;
use sealgate_domain::console_role::ConsoleRole;
use sealgate_domain::key_ring::KeyRing;
use sealgate_domain::machine_warning::MachineWarning;
use sealgate_domain::mail::MailKind;
use sealgate_pages::console::{
    AccessOutcome, ApiTokenFault, ApiTokenForm, ApiTokenLine, ApiTokensPage, AppChangePage, AppLine, AppPage,
    AppSection, AppSessionLine, AppsPage, CheckAccessPage, CheckChoice, CheckField, CheckForm, CheckNote,
    CheckedHeader, CheckedLogin, CountedFigures, EditAppForm, EditAppPage, EditProblem, EditRuleForm, EditRuleLine,
    EditRulePage, ElementLink, FileState, KeyPlanPage, KeysPage, MailLine, MailPage, MailTemplatesPage, NewAppForm,
    NewAppPage, NewAppResult, OverviewPage, OverviewWarning, RefusalLine, RegistrationTokenFault,
    RegistrationTokenForm, RegistrationTokenLine, RegistrationTokensPage, ReloadPage, RotationLine, RuleLine,
    SectionLink, SettingChange, SettingsHome, SettingsList, SettingsPage, SignInChart,
};
use sealgate_pages::{Done, Frame, Inside, Named, html};

use crate::console::inside;
use crate::sample::{AT, Sample};

const KID: &str = "BnBb5n1yDkJMl3_kCkBdSk9oQFTqDpDrHmRYuHtyCVg";

/// Reasons of decisions. The last has no message of its own.
const REASONS: [&str; 24] = [
    "forwarded",
    "own",
    "no_application",
    "unauthenticated",
    "invalid_token",
    "audience",
    "client",
    "unapproved_client",
    "scope",
    "user",
    "group",
    "acr",
    "max_age",
    "too_many_groups",
    "unwritable_group",
    "destination",
    "below",
    "maintenance",
    "network",
    "unopened",
    "method",
    "method_case",
    "repeated_field",
    "dot_segment",
];

type Pages = Vec<(String, String)>;

/// Returns the pages in every state.
pub(crate) fn operation_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let parts = [
        key_pages,
        settings_pages,
        overview_pages,
        app_pages,
        check_pages,
        mail_pages,
        api_token_pages,
        registration_token_pages,
    ];
    parts.iter().flat_map(|pages| pages(frame, sample)).collect()
}

fn key_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let csrf = sample.csrf;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);
    let at = AT.seconds();
    let key = |activate: Option<u64>, retire: Option<u64>, remove: Option<u64>| {
        serde_json::json!({
            "kid": KID, "created_at": at, "published_at": at, "activate_at": activate, "retire_at": retire,
            "remove_at": remove,
        })
    };
    let ring = |keys: &[serde_json::Value]| -> KeyRing {
        serde_json::from_value(serde_json::json!({ "keys": keys })).expect("a ring")
    };
    let active = key(Some(at), None, None);
    let keys = [
        key(Some(at), Some(at), Some(at)),
        key(Some(at), Some(at), Some(at + 60)),
        active.clone(),
        key(None, None, None),
    ];
    let page = |keys: &[serde_json::Value], algorithms: &[(&'static str, _, bool)], problem| {
        let algorithm = |(name, next_rotation, is_rotating)| RotationLine { name, next_rotation, is_rotating };
        let algorithms: Vec<RotationLine> = algorithms.iter().copied().map(algorithm).collect();
        html(&KeysPage { inside: inside(), csrf, ring: &ring(keys), now: AT, algorithms: &algorithms, problem })
    };
    add("console-keys", page(&keys, &[("RS256", Some(AT), false), ("ES256", None, true)], None));
    let quiet = [("RS256", None, false)];
    add("console-keys-quiet", page(std::slice::from_ref(&active), &quiet, Some(sample.person)));
    let rotating = [active, key(Some(at + 60), None, None)];
    add("console-keys-rotating", page(&rotating, &[("RS256", None, true)], None));
    for (name, active_key, waiting_key) in
        [("first", None, None), ("next", Some(KID), None), ("waiting", Some(KID), Some(KID))]
    {
        let fields = [("action", "rotate"), ("once", "0nce")];
        let (activate_at, remove_at) = (AT, AT);
        let algorithm = active_key.map(|_| "ES256");
        let page = KeyPlanPage {
            inside: inside(),
            csrf,
            algorithm,
            active_key,
            waiting_key,
            activate_at,
            remove_at,
            fields: &fields,
        };
        add(&format!("console-key-plan-{name}"), html(&page));
    }
    all
}

fn settings_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let (csrf, person) = (sample.csrf, sample.person);
    let mut all = Vec::new();
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);
    let sections = [("server", 3, None), ("app", 9, Some(2)), ("log", 0, None)]
        .map(|(name, set, elements)| SectionLink { name, set, elements });
    let lines = || vec![person.to_owned()];
    for (name, state, is_refused) in [
        ("same", FileState::Same, false),
        ("faulty", FileState::Faulty(lines()), false),
        ("changed", FileState::Changed { reloadable: lines(), restart: lines() }, false),
        ("refused", FileState::Changed { reloadable: Vec::new(), restart: lines() }, true),
    ] {
        let home = SettingsHome {
            file: person,
            loaded_at: AT,
            state: &state,
            is_refused,
            changed: if is_refused { &[] } else { &[person] },
            may_reload: name != "same",
            sections: &sections,
            issuer: "https://id.example.com",
        };
        let inside = Inside { done: (!is_refused).then_some(Done::Reloaded), ..inside() };
        let page = SettingsPage { inside, csrf, find: "", home: Some(&home), list: None };
        all.push((format!("console-settings-{name}"), html(&page)));
    }
    let sources = [
        SettingSource::File { line: 7 },
        SettingSource::Hidden { line: 8 },
        SettingSource::Default,
        SettingSource::Computed,
        SettingSource::Unset,
    ];
    let settings = sources.map(|source| EffectiveSetting {
        section: "pages",
        element: None,
        path: person.to_owned(),
        value: (!matches!(source, SettingSource::Hidden { .. } | SettingSource::Unset)).then(|| person.to_owned()),
        source,
        default: Some("\"Sealgate\""),
        description: "Name of the operator.",
        is_in_applications_file: matches!(source, SettingSource::Hidden { .. }),
        needs_restart: source == SettingSource::Default,
    });
    let settings: Vec<&EffectiveSetting> = settings.iter().collect();
    let elements = [true, false].map(|is_current| ElementLink {
        name: person.to_owned(),
        address: "/console/settings?section=app".to_owned(),
        is_current,
    });
    for (name, section, lines) in
        [("list", Some("pages"), &settings[..]), ("found", None, &settings), ("none", None, &[][..])]
    {
        let list = SettingsList {
            section,
            elements: if section.is_some() { &elements } else { &[] },
            lines,
            total: lines.len() as u64,
            first: 1,
            previous: section.map(|_| "/console/settings?section=pages"),
            next: section.map(|_| "/console/settings?section=pages&page=3"),
        };
        let page = SettingsPage { inside: inside(), csrf, find: person, home: None, list: Some(&list) };
        all.push((format!("console-settings-{name}"), html(&page)));
    }
    for (name, names, node, has_changed) in
        [("reload", &[person][..], Some(person), true), ("reload-nothing", &[], None, false)]
    {
        let changes = [(None, Some(person)), (Some(person), None)].map(|(before, after)| SettingChange {
            key: person.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        });
        let page = ReloadPage {
            inside: inside(),
            csrf,
            node,
            names,
            changes: if names.is_empty() { &[] } else { &changes },
            more: names.len() as u64,
            has_changed,
            fields: &[("action", "reload")],
        };
        all.push((format!("console-settings-{name}"), html(&page)));
    }
    all
}

fn overview_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let text = sample.person.to_owned();
    let warnings = [
        OverviewWarning::TokenNotReady,
        OverviewWarning::NoActiveKey,
        OverviewWarning::RotationFails(text.clone()),
        OverviewWarning::UntrustedKeys(text.clone()),
        OverviewWarning::ServersDown(1),
        OverviewWarning::Unapproved(2),
        OverviewWarning::MailsUndeliverable(3),
        OverviewWarning::CertificateExpired(text.clone()),
        OverviewWarning::CertificateExpires(text.clone(), 3),
        OverviewWarning::ReloadRefused,
        OverviewWarning::Machine(MachineWarning::ClockNotSynchronized),
        OverviewWarning::Machine(MachineWarning::DiskReadOnly),
        OverviewWarning::Machine(MachineWarning::DiskFull),
        OverviewWarning::Machine(MachineWarning::DiskLow(512)),
        OverviewWarning::Machine(MachineWarning::FewInodes),
        OverviewWarning::Machine(MachineWarning::NeverBackedUp),
        OverviewWarning::Machine(MachineWarning::OldBackup(9)),
        OverviewWarning::Machine(MachineWarning::ClockDiffers(700)),
        OverviewWarning::Machine(MachineWarning::TokenSlow(800)),
        OverviewWarning::Machine(MachineWarning::FileExposed(text.clone())),
        OverviewWarning::Machine(MachineWarning::FewDescriptors { open: 900, most: 1000 }),
        OverviewWarning::Machine(MachineWarning::MailServerUnreachable(text.clone())),
        OverviewWarning::Configuration(text.clone()),
    ];
    let chart = |count: u64| SignInChart { periods: (0..count).map(|number| (AT, number, number % 3)).collect() };
    let figures = CountedFigures {
        at: AT,
        users: 12,
        sessions: 3,
        clients: 4,
        mails_waiting: 5,
        mails_undeliverable: 6,
        store_mebibytes: Some(7),
        hours: chart(24),
        days: chart(30),
    };
    let page = |is_busy: bool| {
        let certificates = [(text.clone(), AT)];
        html(&OverviewPage {
            inside: inside(frame, sample, ConsoleRole::Administrator, None),
            warnings: if is_busy { &warnings } else { &[] },
            figures: is_busy.then_some(&figures),
            servers: if is_busy { (1, 2) } else { (0, 0) },
            apps: 3,
            active_key: is_busy.then_some(KID),
            is_token_ready: is_busy,
            next_change: is_busy.then_some(AT),
            certificates: if is_busy { &certificates } else { &[] },
            mail_server: is_busy.then_some("mail.example.com"),
            is_database: !is_busy,
            version: "0.1.0",
            loaded_at: AT,
        })
    };
    vec![("console-overview".to_owned(), page(true)), ("console-overview-first".to_owned(), page(false))]
}

#[expect(clippy::too_many_lines, reason = "a list of pages")]
fn app_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let &Sample { client, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);
    let servers = [None, Some(true), Some(false)].map(|alive| (person.to_owned(), alive));
    let app = AppLine {
        name: "wiki",
        title: client,
        address: "/account".into(),
        servers: servers.into(),
        is_in_maintenance: true,
        sessions: Some(3),
    };
    let other =
        AppLine { address: "https://*.example.com".into(), is_in_maintenance: false, sessions: None, ..app.clone() };
    add("console-apps", html(&AppsPage { inside: inside(), apps: &[app.clone(), other.clone()] }));
    add("console-apps-none", html(&AppsPage { inside: inside(), apps: &[] }));
    let one = |text: &str| vec![text.to_owned()];
    let rule = RuleLine {
        path: "/".to_owned(),
        methods: one("GET"),
        access: Access::SignedIn,
        groups: one(person),
        users: one(person),
        scopes: one("wiki:read"),
        networks: one("10.0.0.0/8"),
        levels: one("2"),
        max_age_minutes: Some(5),
    };
    let open = |access| RuleLine {
        path: "/x/".to_owned(),
        methods: Vec::new(),
        access,
        groups: Vec::new(),
        users: Vec::new(),
        scopes: Vec::new(),
        networks: Vec::new(),
        levels: Vec::new(),
        max_age_minutes: None,
    };
    let rules = [rule, open(Access::Public), open(Access::Bearer)];
    let who = |name: Option<&str>, has_page| Named { id: "u1".into(), name: name.map(str::to_owned), has_page };
    let whos = [None, Some(who(Some(person), true)), Some(who(None, false))];
    let refusals: Vec<RefusalLine> = whos
        .into_iter()
        .enumerate()
        .map(|(number, who)| RefusalLine {
            at: AT,
            method: "GET".to_owned(),
            path: person.to_owned(),
            reason: "group",
            who,
            count: number as u64 + 1,
        })
        .collect();
    let groups = [(person.to_owned(), "/console/groups/members?name=x".to_owned(), 2)];
    let sessions = [(Some(person), true), (None, false)].map(|(name, has_page)| AppSessionLine {
        id: "s1".to_owned(),
        who: who(name, has_page),
        created_at: AT,
        expires_at: AT,
    });
    let page = |section, app: &AppLine<'_>, is_full: bool| {
        html(&AppPage {
            inside: inside(),
            app,
            section,
            is_editable: is_full,
            is_configured: !is_full,
            csrf,
            open_sessions: if is_full { &sessions } else { &[] },
            next: is_full.then_some("/console/apps/wiki/sessions?after=s1"),
            client: "sealgate-app-wiki",
            check: &CheckForm { url: "https://wiki.example.com/", method: "GET", ..CheckForm::default() },
            check_csrf: csrf,
            rules: if is_full { &rules } else { &[] },
            groups: if is_full { &groups } else { &[] },
            users: &if is_full { one(person) } else { Vec::new() },
            is_for_all_users: is_full,
            is_public: is_full,
            refusals: if is_full { &refusals } else { &[] },
        })
    };
    for section in [AppSection::Access, AppSection::Sessions, AppSection::Refusals] {
        add(&format!("console-app-{section:?}").to_lowercase(), page(section, &app, true));
        add(&format!("console-app-quiet-{section:?}").to_lowercase(), page(section, &other, false));
    }
    for (name, html) in edit_pages(frame, sample) {
        add(&name, html);
    }
    let form = NewAppForm { host: person.into(), title: person.into(), groups: person.into(), ..NewAppForm::default() };
    let results = [
        ("form", None),
        ("input", Some(NewAppResult::Input)),
        ("unreadable", Some(NewAppResult::Unreadable)),
        ("valid", Some(NewAppResult::Section { text: person.into(), faults: Vec::new() })),
        ("faults", Some(NewAppResult::Section { text: person.into(), faults: one(person) })),
    ];
    for (name, result) in results {
        let (result, seen) = (result.as_ref(), (name == "form").then_some("digest"));
        let page = NewAppPage { inside: inside(), csrf, form: &form, result, seen, file: "/etc/sealgate.toml" };
        add(&format!("console-new-app-{name}"), html(&page));
    }
    all
}

/// Returns the pages that change an application, in every state.
fn edit_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let &Sample { person, csrf, .. } = sample;
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);
    let (name, title, seen) = ("wiki", person, "digest");
    let mut all = Vec::new();
    let app =
        EditAppForm { title: person.into(), description: person.into(), host: person.into(), upstreams: person.into() };
    let rule = EditRuleForm {
        path: "/".into(),
        access: "bearer".into(),
        methods: "GET HEAD".into(),
        groups: person.into(),
        users: person.into(),
        networks: "10.0.0.0/8".into(),
        acr: "2".into(),
        max_age_seconds: "300".into(),
    };
    let line = EditRuleLine {
        url: "/console/apps/wiki/rule?at=0".into(),
        path: "/".into(),
        access: "bearer".into(),
        methods: "GET".into(),
    };
    let other = ["login".to_owned(), "icon".to_owned()];
    let problems = [
        EditProblem::Input,
        EditProblem::Socket,
        EditProblem::FixedServers,
        EditProblem::Changed,
        EditProblem::Disk,
        EditProblem::LastRule,
    ];
    for (number, problem) in (0..).zip([None].into_iter().chain(problems.map(Some))) {
        let other_keys = if problem.is_none() { &other[..] } else { &[] };
        let (form, rules) = (&app, &[line.clone(), EditRuleLine { methods: String::new(), ..line.clone() }]);
        let has_fixed_servers = problem == Some(EditProblem::FixedServers);
        let page = EditAppPage {
            inside: inside(),
            csrf,
            name,
            title,
            form,
            has_fixed_servers,
            other_keys,
            rules,
            seen,
            problem,
        };
        all.push((format!("console-app-edit-{number}"), html(&page)));
        let (form, at) = (&rule, (number % 2 == 0).then_some(number));
        let page = EditRulePage { inside: inside(), csrf, name, title, at, form, other_keys, seen, problem };
        all.push((format!("console-app-rule-{number}"), html(&page)));
    }
    let difference = [format!("-title = {person:?}"), format!("+title = {person:?}")];
    for (state, faults) in [("valid", &[][..]), ("faults", &[person.to_owned()])] {
        let fields = &[("action", "save"), ("seen", "digest")];
        let (file, action) = ("/var/lib/sealgate/applications.toml", "/console/apps/wiki/edit");
        let (difference, cancel) = (&difference, action);
        let page = AppChangePage { inside: inside(), csrf, name, file, difference, faults, fields, action, cancel };
        all.push((format!("console-app-change-{state}"), html(&page)));
    }
    all
}

fn check_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let &Sample { client, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let form = CheckForm {
        url: person,
        method: "GET",
        user: person,
        client: person,
        level: "2",
        address: "192.0.2.7",
        fault: None,
        found: None,
        found_clients: None,
    };
    let mut add = |name: &str, form: &CheckForm<'_>, outcome: Option<&AccessOutcome>| {
        let inside = inside(frame, sample, ConsoleRole::Administrator, None);
        let page = CheckAccessPage { inside, csrf, form, outcome };
        all.push((format!("console-check-{name}"), html(&page)));
    };
    add("form", &CheckForm::default(), None);
    let choices = [
        CheckChoice { value: person.to_owned(), name: person.to_owned() },
        CheckChoice { value: person.to_owned(), name: String::new() },
    ];
    add("found", &CheckForm { found: Some((&choices, 2)), ..form }, None);
    add("found-some", &CheckForm { found: Some((&choices, 12)), ..form }, None);
    add("found-none", &CheckForm { found: Some((&[], 0)), ..form }, None);
    add("found-clients", &CheckForm { found_clients: Some((&choices, 2)), ..form }, None);
    add("found-some-clients", &CheckForm { found_clients: Some((&choices, 12)), ..form }, None);
    add("found-no-client", &CheckForm { found_clients: Some((&[], 0)), ..form }, None);
    let fields = [
        CheckField::Url,
        CheckField::UrlCharacters,
        CheckField::Method,
        CheckField::User,
        CheckField::NoUser,
        CheckField::Client,
        CheckField::ClientAlone,
        CheckField::Address,
        CheckField::Token,
    ];
    for (number, field) in fields.into_iter().enumerate() {
        add(&format!("wrong-{number}"), &CheckForm { fault: Some(field), ..form }, None);
    }
    let refused =
        AccessOutcome { status: Some(403), app: Some(("wiki".into(), client.into())), ..AccessOutcome::default() };
    for reason in REASONS {
        add(reason, &form, Some(&AccessOutcome { reason, ..refused.clone() }));
    }
    for (name, note) in [
        ("disabled", CheckNote::UserDisabled),
        ("tokens", CheckNote::TokensOnly),
        ("address", CheckNote::AddressMissing),
    ] {
        add(name, &form, Some(&AccessOutcome { note: Some(note), status: Some(302), ..refused.clone() }));
    }
    let header = |value: Option<&str>, is_sent| CheckedHeader {
        name: "X-Name".into(),
        from: "name",
        is_sent,
        value: value.map(str::to_owned),
    };
    let allowed = AccessOutcome {
        is_forwarded: true,
        status: None,
        reason: "forwarded",
        rule: Some(person.into()),
        claim: Some("exp"),
        audience: Some(person.into()),
        headers: vec![header(Some(person), true), header(None, true), header(None, false)],
        login: Some(CheckedLogin::OfUser),
        upstream: Some(("http://127.0.0.1:8081".into(), person.into())),
        user: Some((person.into(), "u1".into())),
        client: Some((person.into(), "c1".into())),
        groups: person.into(),
        ..refused
    };
    add("allowed", &form, Some(&allowed));
    let login = Some(CheckedLogin::Service(person.into()));
    add("own-answer", &form, Some(&AccessOutcome { is_forwarded: false, login, ..allowed }));
    all
}

fn mail_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let &Sample { person, csrf, .. } = sample;
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);
    let mails: Vec<MailLine> = MailKind::ALL
        .into_iter()
        .enumerate()
        .map(|(number, kind)| MailLine {
            id: format!("m{number}"),
            kind,
            user: (number > 0).then(|| ("u1".to_owned(), person.to_owned())),
            created_at: AT,
            due_at: (number > 1).then_some(AT),
            attempts: number as u64,
            answer: (number > 2).then(|| person.to_owned()),
        })
        .collect();
    let page = |server, answer, test_fault, mails: &[MailLine]| {
        html(&MailPage {
            inside: inside(),
            csrf,
            server,
            to: sample.account,
            answer,
            test_fault,
            dead: mails,
            waiting: mails.get(..1).unwrap_or_default(),
            has_more: !mails.is_empty(),
            most: 50,
        })
    };
    let server = Some("mail.example.com");
    let templates = MailTemplatesPage { inside: inside(), tag: "tr", mails: &[(person.into(), person.into())] };
    [
        ("console-mail", page(server, None, None, &mails)),
        ("console-mail-off", page(None, None, None, &[])),
        ("console-mail-sent", page(server, Some(person), None, &[])),
        ("console-mail-address", page(server, None, Some(""), &[])),
        ("console-mail-failed", page(server, None, Some(person), &[])),
        ("console-mail-templates", html(&templates)),
    ]
    .map(|(name, html)| (name.to_owned(), html))
    .into()
}

fn registration_token_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let &Sample { person, csrf, .. } = sample;
    let line = |name: &str, registrations, creator: Option<(String, Option<String>)>| RegistrationTokenLine {
        id: "t1".to_owned(),
        name: name.to_owned(),
        creator,
        registrations,
        clients: ClientId::parse("c1").into_iter().collect(),
        created_at: AT,
        expires_at: AT,
    };
    let lines = [line(person, 5, Some(("u1".to_owned(), Some(person.to_owned())))), line("", 1, None)];
    let page = |role, tokens: &[RegistrationTokenLine], fault, new_token| {
        let form = RegistrationTokenForm { name: person.to_owned(), days: 7, registrations: 5, fault };
        html(&RegistrationTokensPage {
            inside: inside(frame, sample, role, None),
            csrf,
            tokens,
            form: &form,
            lifetimes: &[1, 7],
            registrations: &[1, 5],
            are_accepted: tokens.is_empty(),
            new_token,
            address: "https://id.example.com/oauth/register",
        })
    };
    let (administrator, auditor) = (ConsoleRole::Administrator, ConsoleRole::Auditor);
    let (name, full) = (Some(RegistrationTokenFault::Name), Some(RegistrationTokenFault::TooMany));
    let pages = [
        ("console-registration-tokens", page(administrator, &lines, None, None)),
        ("console-registration-tokens-none", page(administrator, &[], None, Some("token"))),
        ("console-registration-tokens-wrong", page(administrator, &lines, name, None)),
        ("console-registration-tokens-full", page(administrator, &lines, full, None)),
        ("console-registration-tokens-auditor", page(auditor, &lines, None, None)),
    ];
    pages.into_iter().map(|(name, html)| (name.to_owned(), html)).collect()
}

fn api_token_pages(frame: &Frame<'_>, sample: &Sample) -> Pages {
    let &Sample { person, csrf, .. } = sample;
    let line = |creator: Option<(String, Option<String>)>| ApiTokenLine {
        id: "t1".to_owned(),
        name: person.to_owned(),
        scopes: "users:read users:write".to_owned(),
        last_used_at: creator.is_some().then_some(AT),
        creator,
        created_at: AT,
        expires_at: AT,
    };
    let lines =
        [line(Some(("u1".to_owned(), Some(person.to_owned())))), line(Some(("u2".to_owned(), None))), line(None)];
    let page = |role, tokens: &[ApiTokenLine], faults: &[ApiTokenFault], new_token| {
        let form = ApiTokenForm {
            name: person.to_owned(),
            scopes: vec![ApiScope::UsersRead],
            days: 90,
            faults: faults.to_vec(),
        };
        html(&ApiTokensPage {
            inside: inside(frame, sample, role, None),
            csrf,
            tokens,
            form: &form,
            lifetimes: &[30, 90],
            new_token,
            address: "https://id.example.com/api/v1/",
        })
    };
    let wrong = [ApiTokenFault::Name, ApiTokenFault::Scopes];
    let administrator = ConsoleRole::Administrator;
    [
        ("console-api-tokens", page(administrator, &lines, &[], None)),
        ("console-api-tokens-none", page(administrator, &[], &wrong, None)),
        ("console-api-tokens-full", page(administrator, &lines, &[ApiTokenFault::TooMany], None)),
        ("console-api-tokens-new", page(administrator, &lines, &[], Some("sealgate_api_x"))),
        ("console-api-tokens-auditor", page(ConsoleRole::Auditor, &lines, &[], None)),
    ]
    .map(|(name, html)| (name.to_owned(), html))
    .into()
}
