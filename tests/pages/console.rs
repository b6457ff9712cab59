//! The console's pages, filled in.

use sealgate::page::console::{
    AppLine, ClientFault, ClientField, ClientForm, ClientLine, ClientPage, ClientSecretLine, Clients, KeyLine,
    KeyState, Keys, LimitLine, Limits, NewSecret, NewUser, Roles, ServerLine, Trial, TrialProblem, UriFault, UserField,
    UserLine, UserPage, Users,
};
use sealgate::page::{
    AuditActor, AuditEvents, AuditField, Chrome, Done, EventLine, Named, Pages, SessionLine, Shell, Standing,
    language_tag,
};

use crate::sample::Sample;

/// The console's pages in every state.
pub(crate) fn console_pages(pages: &Pages, chrome: &Chrome<'_>, sample: &Sample) -> Vec<(String, String)> {
    let parts = [client_pages(pages, chrome, sample), people_pages(pages, chrome, sample)];
    parts.into_iter().flatten().chain(operation_pages(pages, chrome, sample)).collect()
}

/// The pages about clients in every state.
fn client_pages(pages: &Pages, chrome: &Chrome<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((format!("{name}.{}", language_tag(chrome.language)), html));
    let shell = Shell {
        prefix: "",
        account,
        console: Some(Standing::Administrator),
        done: None,
        app_passwords: true,
        home: true,
    };
    let developer = Shell { console: Some(Standing::Developer), ..shell };

    let line = ClientLine { id: "c1", name: client, public: true, enabled: true, vouched_for: true };
    let lines = [line, ClientLine { public: false, enabled: false, vouched_for: false, ..line }];
    let clients = Clients { clients: &lines, next: Some("/console?after=c1") };
    for done in [Done::Client, Done::ClientDeleted, Done::ClientState, Done::User, Done::UserRevoked] {
        assert_eq!(Done::parse(done.as_str()), Some(done));
        let shell = Shell { done: Some(done), ..shell };
        add(&format!("console-done-{}", done.as_str()), pages.console_clients(chrome, &shell, &clients));
    }
    add("console-clients", pages.console_clients(chrome, &developer, &clients));
    add("console-clients-none", pages.console_clients(chrome, &shell, &Clients { clients: &[], next: None }));

    let form = ClientForm {
        csrf,
        name: client,
        description: person,
        public: false,
        redirect_uris: "https://app.example.com/callback",
        post_logout_redirect_uris: "https://app.example.com/",
        scopes: &["profile", "offline_access"],
        secret_in_body: false,
        faults: &[],
    };
    add("console-client-new", pages.console_new_client(chrome, &shell, &form));
    let of = |field, uri| ClientFault { field, uri };
    for (number, fault) in (0..).zip([
        UriFault::Long,
        UriFault::Characters,
        UriFault::Absolute,
        UriFault::Wildcard,
        UriFault::Fragment,
        UriFault::User,
        UriFault::Scheme,
        UriFault::Host,
    ]) {
        let faults = [
            of(ClientField::Name, None),
            of(ClientField::Description, None),
            of(ClientField::RedirectUris, Some((fault, 2))),
            of(ClientField::PostLogoutRedirectUris, None),
        ];
        let form = ClientForm { faults: &faults, public: true, ..form };
        add(&format!("console-client-wrong-{number}"), pages.console_new_client(chrome, &shell, &form));
    }
    let secrets = [
        ClientSecretLine { created_at: 1_800_000_000, expires_at: Some(1_800_086_400) },
        ClientSecretLine { created_at: 1_800_003_600, expires_at: None },
    ];
    let page = ClientPage {
        id: "c1",
        name: client,
        form,
        enabled: true,
        may_enable: true,
        vouched_for: true,
        may_approve: true,
        token_limit: Some(50),
        created_at: 1_800_000_000,
        secrets: &secrets,
        secret: Some(NewSecret("a secret that was just made")),
        issuer: "https://id.example.com",
        unsure: false,
    };
    add("console-client", pages.console_client(chrome, &shell, &page));
    let unapproved = ClientPage { vouched_for: false, enabled: false, token_limit: None, ..page };
    add("console-client-unapproved", pages.console_client(chrome, &shell, &unapproved));
    let disabled = ClientPage { may_enable: false, may_approve: false, ..unapproved };
    add("console-client-disabled", pages.console_client(chrome, &developer, &disabled));
    let public = ClientForm { public: true, ..form };
    let page = ClientPage { form: public, enabled: false, secrets: &[], secret: None, unsure: true, ..page };
    add("console-client-public", pages.console_client(chrome, &shell, &page));

    let trial = Trial {
        csrf,
        id: "c1",
        name: client,
        redirect_uri: "https://id.example.com/console/callback",
        on: false,
        claims: None,
        problem: None,
    };
    add("console-try", pages.console_trial(chrome, &shell, &trial));
    let shown = Trial { on: true, claims: Some([person, person, person]), ..trial };
    add("console-tried", pages.console_trial(chrome, &shell, &shown));
    for (name, problem) in [("refused", TrialProblem::Refused(client)), ("unknown", TrialProblem::Unknown)] {
        let page = Trial { problem: Some(problem), ..trial };
        add(&format!("console-try-{name}"), pages.console_trial(chrome, &shell, &page));
    }
    all
}

/// The pages about people in every state.
fn people_pages(pages: &Pages, chrome: &Chrome<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, csrf, subject, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((format!("{name}.{}", language_tag(chrome.language)), html));
    let shell = Shell {
        prefix: "",
        account,
        console: Some(Standing::Administrator),
        done: None,
        app_passwords: true,
        home: true,
    };
    let line = UserLine {
        subject: "u1",
        name: person,
        email: account,
        enabled: true,
        groups: client,
        roles: Roles { developer: true, admin: false },
        signed_in_at: Some(1_800_000_000),
    };
    let nobody = UserLine { groups: "", roles: Roles::default(), signed_in_at: None, enabled: false, ..line };
    let users = [line, UserLine { roles: Roles { developer: false, admin: true }, ..line }, nobody];
    let page = Users { users: &users, wanted: account, next: Some("/console/users?after=u1") };
    add("console-users", pages.console_users(chrome, &shell, &page));
    add("console-users-none", pages.console_users(chrome, &shell, &Users { users: &[], next: None, ..page }));
    add("console-users-none-yet", pages.console_users(chrome, &shell, &Users { users: &[], ..page }));
    let faults = [UserField::Email, UserField::Username, UserField::Name, UserField::Groups];
    let new = NewUser {
        csrf,
        email: account,
        username: client,
        name: person,
        groups: client,
        roles: Roles { developer: true, admin: false },
        faults: &[],
    };
    add("console-user-new", pages.console_new_user(chrome, &shell, &new));
    add("console-user-new-wrong", pages.console_new_user(chrome, &shell, &NewUser { faults: &faults, ..new }));
    let faults = [UserField::EmailTaken, UserField::UsernameTaken];
    add("console-user-new-taken", pages.console_new_user(chrome, &shell, &NewUser { faults: &faults, ..new }));
    let session = SessionLine {
        id: subject,
        current: false,
        user_agent: "curl/8.5.0",
        address: "192.0.2.7",
        signed_in_at: 1_800_000_000,
        last_seen_at: 1_800_003_600,
    };
    let page = UserPage {
        csrf,
        subject: "u1",
        email: account,
        username: None,
        name: person,
        groups: client,
        roles: Roles { developer: false, admin: true },
        enabled: true,
        own: false,
        created_at: 1_800_000_000,
        sessions: &[session],
        password: Some("a password that was just made"),
        faults: &[],
    };
    add("console-user", pages.console_user(chrome, &shell, &page));
    let page = UserPage { enabled: false, username: Some(client), sessions: &[], password: None, ..page };
    add("console-user-disabled", pages.console_user(chrome, &shell, &page));
    let nameless = UserPage { username: None, ..page };
    let taken = UserPage { faults: &[UserField::UsernameTaken], ..nameless };
    add("console-user-username-taken", pages.console_user(chrome, &shell, &taken));
    let wrong = UserPage { faults: &[UserField::Username], ..nameless };
    add("console-user-username-wrong", pages.console_user(chrome, &shell, &wrong));
    let faults = [UserField::Groups, UserField::OwnRole];
    add(
        "console-user-own-role",
        pages.console_user(chrome, &shell, &UserPage { own: true, faults: &faults[1..], ..page }),
    );
    add("console-user-own", pages.console_user(chrome, &shell, &UserPage { own: true, faults: &faults, ..page }));
    all
}

/// The pages about the running of the provider in every state.
fn operation_pages(pages: &Pages, chrome: &Chrome<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((format!("{name}.{}", language_tag(chrome.language)), html));
    let shell = Shell {
        prefix: "",
        account,
        console: Some(Standing::Administrator),
        done: None,
        app_passwords: true,
        home: true,
    };
    let at = Some(1_800_000_000);
    let key = KeyLine {
        kid: "BnBb5n1yDkJMl3_kCkBdSk9oQFTqDpDrHmRYuHtyCVg",
        state: KeyState::Active,
        published_at: 1_800_000_000,
        activate_at: at,
        retire_at: None,
        remove_at: None,
    };
    let keys = [
        KeyLine { state: KeyState::PrePublished, activate_at: None, ..key },
        key,
        KeyLine { state: KeyState::Retired, retire_at: at, remove_at: at, ..key },
        KeyLine { state: KeyState::Removed, retire_at: at, remove_at: at, ..key },
    ];
    add("console-keys", pages.console_keys(chrome, &shell, &Keys { keys: &keys, next_change: at }));
    add("console-keys-quiet", pages.console_keys(chrome, &shell, &Keys { keys: &keys[1..2], next_change: None }));
    let limits = [
        LimitLine { path: Some("/oauth/token"), limit: Some(50), by_credential: true },
        LimitLine { path: Some("/oauth/jwks"), limit: None, by_credential: false },
        LimitLine { path: None, limit: Some(1), by_credential: false },
    ];
    let page = Limits {
        issuer: "https://id.example.com",
        limits: &limits,
        sign_ins: Some(600),
        failures_per_account: 10,
        failures_per_address: 50,
        window_minutes: 15,
    };
    add("console-settings", pages.console_settings(chrome, &shell, &page));

    let servers = [None, Some(true), Some(false)].map(|alive| ServerLine { address: person.to_owned(), alive });
    let apps = [AppLine { name: client, address: "/account", servers: &servers }];
    add("console-apps", pages.console_apps(chrome, &shell, &apps));
    add("console-apps-none", pages.console_apps(chrome, &shell, &[]));

    let somebody = Named { id: "u1", name: Some(account), has_page: true };
    let event = EventLine {
        kind: "keys_changed",
        at: 1_800_000_000,
        count: 1,
        actor: AuditActor::Operator,
        subject: Some(somebody),
        party: Some(Named { id: "c1", name: Some(client), has_page: true }),
        address: Some("192.0.2.7"),
        request_id: Some(sample.request_id),
        detail: Some(person),
    };
    let actors = [
        AuditActor::Stranger,
        AuditActor::Person,
        AuditActor::Administrator(Named { name: None, has_page: false, ..somebody }),
        AuditActor::Client,
        AuditActor::Operator,
        AuditActor::Server,
    ];
    let events = actors.map(|actor| EventLine { actor, count: 2, ..event });
    let page = AuditEvents {
        events: &events,
        previous: Some("/console/audit?zone=0"),
        next: Some("/console/audit?after=x"),
        csv: "/console/audit/export?format=csv",
        ndjson: "/console/audit/export?format=ndjson",
        most_exported: 2500,
        kinds: &["signed_in", "keys_changed"],
        kind: "keys_changed",
        person: account,
        client,
        from: "2026-11-01",
        to: "2026-11-21",
        zone: -180,
        faults: &[],
    };
    add("console-audit", pages.console_audit(chrome, &shell, &page));
    add(
        "console-audit-none",
        pages.console_audit(chrome, &shell, &AuditEvents { events: &[], previous: None, next: None, ..page }),
    );
    let faults = [AuditField::Person, AuditField::From, AuditField::To];
    add("console-audit-wrong", pages.console_audit(chrome, &shell, &AuditEvents { faults: &faults, ..page }));
    all
}
