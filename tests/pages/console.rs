//! Console pages with sample data.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use sealgate_domain::account_links::InvitationState;
use sealgate_domain::assertion_source::{AssertionSource, Workload};
use sealgate_domain::assurance::{AssuranceLevel, FactorId};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::{
    AuthMethod, Authority, Client, ClientDecision, ClientDetails, ClientId, ClientSecret, ClientState, ClientType,
    ConsentRule,
};
use sealgate_domain::client_logout::BackchannelLogout;
use sealgate_domain::console_role::{ConsoleRole, ConsoleRoles};
use sealgate_domain::factors::FactorKind;
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::mail::MailKind;
use sealgate_domain::oauth::introspection::IntrospectionAccess;
use sealgate_domain::redirect_uri::{RedirectUri, RedirectUriFault};
use sealgate_domain::scope::{Scope, ScopeValue};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::service::ServiceAccess;
use sealgate_domain::shown_client::ClientPart;
use sealgate_domain::source::{SourceId, SourceLink, SourceName, SourceState, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{ManagerDecisions, Role, User, UserState};
use sealgate_domain::user_list::{ListedState, ListedUser, UserOrder};
use sealgate_domain::username::Username;
use sealgate_pages::console::{
    BulkAction, BulkFault, BulkLine, BulkPage, BulkResultPage, BulkSkip, ClientFault, ClientField, ClientForm,
    ClientGrantLine, ClientOwner, ClientPage, ClientRefusal, ClientRulesForm, ClientSection, ClientTestPage,
    ClientTestProblem, ClientsPage, ConfirmDetail, ConfirmLabel, ConfirmPage, GroupConfirmPage, GroupFault, GroupLine,
    GroupPage, GroupUse, GroupsPage, GuardedChange, InvitationForm, Library, NewClientPage, NewUserPage, OwnedClients,
    PromotedUser, ResetState, SignInChart, TypedProfile, UserAppLogins, UserFactors, UserField, UserFilter,
    UserInvitation, UserLine, UserPage, UserSection, UsersPage,
};
use sealgate_pages::{
    AccessTable, AppLoginFault, AuditField, AuditLogPage, Done, EventLine, FactorLine, Frame, Inside, LiveView, Named,
    html,
};

use crate::console_operation::operation_pages;
use crate::sample::{AT, Sample};

/// Returns the console pages in every state.
pub(crate) fn console_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let (bulk, groups) = (bulk_pages(frame, sample), group_pages(frame, sample));
    let parts = [client_pages(frame, sample), people_pages(frame, sample), bulk, groups];
    parts.into_iter().flatten().chain(operation_pages(frame, sample)).chain(audit_pages(frame, sample)).collect()
}

pub(crate) fn inside<'a>(frame: &Frame<'a>, sample: &Sample, role: ConsoleRole, done: Option<Done>) -> Inside<'a> {
    let (frame, account) = (frame.clone(), sample.account);
    Inside {
        frame,
        prefix: "",
        account,
        console: ConsoleRoles::new(&[role]),
        done,
        app_passwords: true,
        app_logins: true,
        api: true,
        once: "0nce".to_owned(),
        home: true,
    }
}

fn client(sample: &Sample, public: bool) -> Client {
    Client {
        id: ClientId::parse("c1").expect("an id"),
        name: sample.client.into(),
        client_type: if public { ClientType::Public } else { ClientType::Confidential },
        auth_method: AuthMethod::None,
        secrets: Vec::new(),
        assertion_source: None,
        redirect_uris: Vec::new(),
        post_logout_redirect_uris: Vec::new(),
        scope: Scope::all(),
        grant_types: Vec::new(),
        consent: ConsentRule::Ask,
        state: ClientState::Enabled,
        created_at: AT,
        incarnation: 0,
        details: ClientDetails::default(),
        owner: Some(Sample::sub()),
        registration: None,
        refresh_retry_seconds: None,
        token_limit: None,
        level: None,
        service: Some(ServiceAccess {
            apps: BTreeMap::from([("wiki".to_owned(), BTreeSet::from(["wiki:read".to_owned()]))]),
            groups: BTreeSet::from(["backup".to_owned()]),
        }),
        visible_groups: GroupFilter::default(),
        backchannel_logout: Some(BackchannelLogout {
            uri: RedirectUri::of_application("https://rp.test/logout"),
            session_required: true,
        }),
        introspection: Some(IntrospectionAccess { apps: BTreeSet::from(["wiki".to_owned()]) }),
        approval: Some(ClientDecision { by: Authority::Operator, at: AT }),
        disabled: None,
        logo: None,
        from_configuration: false,
    }
}

/// Returns the form with an error in every field, once for each kind of invalid URI.
fn wrong_forms(form: &ClientForm) -> impl Iterator<Item = (usize, ClientForm)> {
    let of = |field, uri| ClientFault { field, uri };
    let uri_faults = [
        RedirectUriFault::TooLong,
        RedirectUriFault::Characters,
        RedirectUriFault::NotAbsolute,
        RedirectUriFault::Wildcard,
        RedirectUriFault::Fragment,
        RedirectUriFault::UserName,
        RedirectUriFault::Scheme,
        RedirectUriFault::Host,
    ];
    uri_faults.into_iter().enumerate().map(move |(number, fault)| {
        let faults = vec![
            of(ClientField::Name, None),
            of(ClientField::Description, None),
            of(ClientField::RedirectUris, Some((fault, 2))),
            of(ClientField::PostLogoutRedirectUris, None),
            of(ClientField::DefaultScope, None),
        ];
        (number, ClientForm { faults, public: true, ..form.clone() })
    })
}

/// All messages about a finished action.
const DONE: [Done; 13] = [
    Done::Client,
    Done::ClientDeleted,
    Done::ClientState,
    Done::User,
    Done::UserRevoked,
    Done::UserDeleted,
    Done::Users,
    Done::UserInvited,
    Done::InvitationWithdrawn,
    Done::KeyRotated,
    Done::MailRetried,
    Done::MailDeleted,
    Done::App,
];

/// Returns the pages about clients in every state.
#[expect(clippy::too_many_lines, reason = "a list of pages")]
fn client_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let inside_of = |role| inside(frame, sample, role, None);
    let inside_of_admin = || inside_of(ConsoleRole::Administrator);

    let approved = client(sample, true);
    let unapproved = Client { state: ClientState::Disabled, approval: None, ..client(sample, false) };
    let left = ClientOwner::WithoutAccess { id: "u1".to_owned(), name: sample.account.to_owned() };
    let owner = ClientOwner::Active { id: "u1".to_owned(), name: sample.account.to_owned() };
    let both = [(approved.clone(), Some(owner.clone())), (unapproved.clone(), Some(left.clone()))];
    let page = |inside, clients: &[_], next| {
        let only_without_owner = clients.is_empty();
        html(&ClientsPage { inside, clients, only_without_owner, next })
    };
    let next = Some("/console/clients?after=c1");
    for done in DONE {
        assert_eq!(Done::parse(done.as_str()), Some(done));
        let inside = inside(frame, sample, ConsoleRole::Administrator, Some(done));
        add(&format!("console-done-{}", done.as_str()), page(inside, &both, next));
    }
    add("console-clients", page(inside_of(ConsoleRole::Developer), &both, next));
    add("console-clients-none", page(inside_of_admin(), &[], None));

    let form = ClientForm {
        id: person.into(),
        name: sample.client.into(),
        description: person.into(),
        public: false,
        redirect_uris: "https://app.example.com/callback".into(),
        post_logout_redirect_uris: "https://app.example.com/".into(),
        scope: [ScopeValue::OpenId, ScopeValue::Profile, ScopeValue::OfflineAccess].into_iter().collect(),
        default_scope: "openid profile".into(),
        secret_in_body: false,
        faults: Vec::new(),
    };
    let page = |form: &ClientForm| html(&NewClientPage { inside: inside_of_admin(), csrf, form });
    add("console-client-new", page(&form));
    for (number, form) in wrong_forms(&form) {
        add(&format!("console-client-wrong-{number}"), page(&form));
    }
    let secret = |created_at, expires_at| ClientSecret { hash: SecretHash::for_secret(b""), created_at, expires_at };
    let secrets =
        [secret(AT, Some(UnixTime::from_seconds(1_800_086_400))), secret(UnixTime::from_seconds(1_800_003_600), None)];
    let enabled = Client { approval: approved.approval, ..client(sample, false) };
    let secret = Some("a secret that was just made");
    let rules = ClientRulesForm { is_consent_implied: true, token_limit: "none".into(), owner: person.into() };
    let named = |name: Option<&str>, has_page| Named { id: "u1".into(), name: name.map(str::to_owned), has_page };
    let grants = [Some(named(Some(person), true)), Some(named(None, false)), None].map(|who| ClientGrantLine {
        id: "g1".to_owned(),
        who,
        scope: "openid profile".to_owned(),
        created_at: AT,
        expires_at: AT,
    });
    let library = Cell::new(None);
    let page = |section, client: &Client, form: &ClientForm, own: bool, secret: Option<&str>| {
        html(&ClientPage {
            section,
            library: library.get(),
            rules: &rules,
            grants: if own { &[] } else { &grants },
            next: (!own).then_some("/console/clients/c1/grants?after=g1"),
            may_change: true,
            inside: inside_of(if own { ConsoleRole::Developer } else { ConsoleRole::Administrator }),
            csrf,
            client,
            form,
            may_enable: !own,
            may_disable: true,
            may_approve: !own,
            level: if own { AssuranceLevel::One } else { AssuranceLevel::PhishingResistant },
            token_limit: client.is_vouched_for().then_some(50),
            keys: if client.uses_assertions() { person.to_owned() } else { String::new() },
            secrets: &secrets.iter().filter(|_| !client.is_public()).collect::<Vec<_>>(),
            new_secret: secret,
            issuer: "https://id.example.com",
            refused: match (own, client.uses_assertions(), secret) {
                (true, true, _) => Some(ClientRefusal::UnusableKeys),
                (true, false, _) => Some(ClientRefusal::TooManySecrets),
                (false, _, None) if client.is_enabled() => Some(ClientRefusal::LogoutUri),
                (false, _, None) => Some(ClientRefusal::Rules),
                (false, ..) => None,
            },
            changed: if client.is_enabled() || own || secret.is_some() { &[] } else { &ClientPart::ALL },
            seen: "a.b.c",
            owner: Some(if client.is_enabled() { &owner } else { &left }),
        })
    };
    for section in ClientSection::ALL {
        let mut add = |name: &str, html| add(&format!("{name}-{section:?}").to_lowercase(), html);
        add("console-client", page(section, &enabled, &form, false, secret));
        add("console-client-unapproved", page(section, &unapproved, &form, false, secret));
        add("console-client-disabled", page(section, &unapproved, &form, true, None));
    }
    for shown in Library::ALL {
        library.set(Some(shown));
        let name = format!("console-client-{shown:?}").to_lowercase();
        add(&name, page(ClientSection::Connect, &enabled, &form, false, None));
        let secret_in_body = ClientForm { secret_in_body: !form.secret_in_body, ..form.clone() };
        add(&format!("{name}-other"), page(ClientSection::Connect, &enabled, &secret_in_body, false, None));
    }
    library.set(None);
    let workload = Workload::new("k8s", "system:serviceaccount:jobs:backup").expect("a workload");
    for (name, source, own) in [
        ("console-client-keys", AssertionSource::JwksUri("https://app.example.com/jwks".to_owned()), true),
        ("console-client-workload", AssertionSource::Workload(workload), false),
    ] {
        let mut client = enabled.clone();
        client.set_auth_method(AuthMethod::PrivateKeyJwt);
        client.assertion_source = Some(source);
        add(name, page(ClientSection::Secrets, &client, &form, own, None));
    }
    let public = Client { state: ClientState::Disabled, ..approved };
    for section in [ClientSection::Settings, ClientSection::Connect, ClientSection::Rules] {
        let name = format!("console-client-public-{section:?}").to_lowercase();
        add(&name, page(section, &public, &ClientForm { public: true, ..form.clone() }, false, None));
    }

    let redirect_uri = "https://id.example.com/console/callback";
    let redirect_uris = vec![RedirectUri::parse(redirect_uri).expect("a URI")];
    let on = Client { redirect_uris, ..enabled.clone() };
    let claims = [person, person, person].map(str::to_owned);
    let page = |client, claims, problem| {
        html(&ClientTestPage { inside: inside_of_admin(), csrf, client, redirect_uri, claims, problem })
    };
    add("console-try", page(&enabled, None, None));
    add("console-tried", page(&on, Some(&claims), None));
    add("console-try-refused", page(&enabled, None, Some(ClientTestProblem::Refused(sample.client))));
    add("console-try-unknown", page(&enabled, None, Some(ClientTestProblem::Unknown)));
    all
}

/// Returns the page of a user with the form for a name and password at an application, in every state.
fn app_login_pages(inside: &Inside<'_>, sample: &Sample) -> Vec<(&'static str, String)> {
    let (title, user) = (sample.client, sample.user());
    let apps = [("mail", "Mail"), ("wiki", title)];
    let page = |apps, fault| {
        html(&UserPage {
            may_change: true,
            managed: &[],
            inside: inside.clone(),
            csrf: sample.csrf,
            user: &user,
            section: UserSection::Applications,
            own: false,
            typed: None,
            profile: None,
            accesses: AccessTable { rows: &[], next: None },
            own_session: None,
            factors: UserFactors { lines: &[], recovery_left: None, blocked: false, reset: None },
            invitation: UserInvitation::default(),
            app_logins: Some(UserAppLogins { apps, app: "wiki", username: sample.person, fault }),
            may_send_reset_link: false,
            password: None,
            link: None,
            faults: &[],
        })
    };
    vec![
        ("console-user-app-logins", page(&apps, None)),
        ("console-user-app-logins-username", page(&apps, Some(AppLoginFault::Username))),
        ("console-user-app-logins-password", page(&apps, Some(AppLoginFault::Password))),
        ("console-user-app-logins-full", page(&apps, Some(AppLoginFault::Full))),
    ]
}

/// Returns the page of a user with this form for the profile.
fn profile_page(
    inside: &Inside<'_>,
    sample: &Sample,
    user: &User,
    profile: Option<TypedProfile<'_>>,
    faults: &[UserField],
) -> String {
    html(&UserPage {
        may_change: true,
        managed: &[],
        inside: inside.clone(),
        csrf: sample.csrf,
        user,
        section: UserSection::Profile,
        own: false,
        typed: None,
        profile,
        accesses: AccessTable { rows: &[], next: None },
        own_session: None,
        factors: UserFactors { lines: &[], recovery_left: None, blocked: false, reset: None },
        invitation: UserInvitation::default(),
        app_logins: None,
        may_send_reset_link: false,
        password: None,
        link: None,
        faults,
    })
}

/// Returns a user of a directory, without a phone number.
fn of_directory(sample: &Sample) -> User {
    let link = SourceLink {
        source: SourceName::parse("corp").expect("a name"),
        id: SourceId::from_bytes(b"1").expect("an id"),
    };
    let source = UserSource {
        link,
        groups: [].into(),
        state: SourceState::Enabled,
        changed_at: AT,
        confirmed_at: None,
        origin: None,
        linked: None,
    };
    User { source: Some(source), phone_number: None, ..sample.user() }
}

/// Returns the pages about users in every state.
#[expect(clippy::too_many_lines, reason = "a list of pages")]
fn people_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);

    let user = sample.user();
    let disabled = User { state: UserState::Disabled, username: Username::parse("wiki"), ..user.clone() };
    let nobody = User { roles: [].into(), groups: [].into(), username: None, ..disabled.clone() };
    let developer = User { roles: [Role::Developer].into(), ..user.clone() };
    let row_of = |user: User, signed_in_at, factor, state| {
        let listed = ListedUser { sub: user.sub, signed_in_at, factor, is_reset: false, state };
        UserLine { user, listed }
    };
    let (enabled, none) = (ListedState::Enabled, ListedState::NoCredential);
    let mut reset = row_of(nobody.clone(), None, None, ListedState::Disabled);
    reset.listed.is_reset = true;
    let users = [
        row_of(developer.clone(), Some(AT), Some(FactorKind::Totp), enabled),
        row_of(user.clone(), Some(AT), Some(FactorKind::Passkey), enabled),
        row_of(developer, None, Some(FactorKind::SecurityKey), enabled),
        reset,
        row_of(nobody.clone(), None, None, none),
        row_of(user.clone(), None, None, ListedState::Invited),
        row_of(User { name: String::new(), ..user.clone() }, None, None, ListedState::InvitationExpired),
    ];
    let (groups, sources) = ([client.to_owned()], [client.to_owned()]);
    let set = UserFilter {
        wanted: account,
        group: client,
        state: Some(ListedState::Invited),
        role: "none",
        factor: "totp",
        source: client,
        sort: UserOrder::Created,
        reversed: true,
        groups: &groups,
        sources: &sources,
    };
    let orders = UserOrder::ALL.map(|order| (order, format!("/console/users?sort={}", order.as_str())));
    let page = |users, filter, (skipped, total)| {
        html(&UsersPage {
            inside: inside(),
            users,
            csrf,
            back: "/console/users?page=2",
            exported: if skipped > 0 { "&group=staff" } else { "" },
            may_invite: skipped > 0,
            filter,
            skipped,
            total,
            without_factor: Some((3, 5, AT)),
            previous: (skipped > 0).then_some("/console/users"),
            next: (total > skipped).then_some("/console/users?page=3"),
            orders: &orders,
            has_sign_ins: skipped == 0,
            most: (skipped > 0).then_some(250_000),
        })
    };
    add("console-users", page(&users, UserFilter::default(), (0, 7)));
    add("console-users-filtered", page(&users, set, (40, 100)));
    add("console-users-none", page(&[], set, (0, 0)));

    let page = |faults| {
        let (email, username, name, groups, roles) = (account, client, person, client, &[Role::Developer].into());
        let invitation = None;
        html(&NewUserPage {
            inside: inside(),
            csrf,
            email,
            username,
            name,
            groups,
            managed: &[],
            roles,
            invitation,
            faults,
        })
    };
    let inviting = |apps, faults| {
        let (email, username, name, groups, roles) = (account, "", person, "", &[Role::Developer].into());
        let invitation = Some(InvitationForm { apps, app: "wiki" });
        html(&NewUserPage {
            inside: inside(),
            csrf,
            email,
            username,
            name,
            groups,
            managed: &[],
            roles,
            invitation,
            faults,
        })
    };
    let apps = [("mail", "Mail"), ("wiki", client)];
    add("console-user-new-invite", inviting(&apps, &[]));
    add("console-user-new-invite-wrong", inviting(&[], &[UserField::Email]));
    add("console-user-new", page(&[]));
    add("console-user-new-wrong", page(&[UserField::Email, UserField::Username, UserField::Name, UserField::Groups]));
    add("console-user-new-taken", page(&[UserField::EmailTaken, UserField::UsernameTaken]));

    let accesses = sample.accesses();
    let none = UserFactors { lines: &[], recovery_left: None, blocked: false, reset: None };
    let page = |section, user, own, rows, password, faults| {
        let (link, factors, invitation) = (None, none, UserInvitation::default());
        html(&UserPage {
            may_change: true,
            managed: &[],
            inside: inside(),
            csrf,
            user,
            section,
            own,
            typed: None,
            profile: None,
            accesses: AccessTable { rows, next: None },
            own_session: None,
            factors,
            invitation,
            app_logins: None,
            may_send_reset_link: true,
            password,
            link,
            faults,
        })
    };
    let username = Username::parse("wiki");
    let without_address = User { email: None, email_verified: false, username, ..user.clone() };
    add("console-user-no-address", page(UserSection::Profile, &without_address, false, &[], None, &[]));
    let factor = |kind, is_synced, last_used_at| FactorLine {
        id: FactorId::from_bytes([7; 16]),
        kind,
        is_synced,
        name: person,
        added_at: AT,
        last_used_at,
    };
    let factors = [
        factor(FactorKind::Totp, None, Some(AT)),
        factor(FactorKind::SecurityKey, Some(false), None),
        factor(FactorKind::Passkey, Some(true), None),
    ];
    let factors_page = |factors, own, link| {
        let (user, rows, password, faults) = (&user, &[], None, &[]);
        html(&UserPage {
            may_change: true,
            managed: &[],
            inside: inside(),
            csrf,
            user,
            section: UserSection::Security,
            own,
            typed: None,
            profile: None,
            accesses: AccessTable { rows, next: None },
            own_session: None,
            factors,
            invitation: UserInvitation::default(),
            app_logins: None,
            may_send_reset_link: false,
            password,
            link,
            faults,
        })
    };
    let all_of_them = UserFactors { lines: &factors, recovery_left: Some(2), blocked: true, ..none };
    add("console-user-factors", factors_page(all_of_them, false, None));
    add("console-user-factors-own", factors_page(all_of_them, true, None));
    let reset = UserFactors { reset: Some(ResetState::Open { until: AT }), ..none };
    let link =
        Some("https://id.example.com/oauth/enrolment?token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    add("console-user-factors-link", factors_page(reset, false, link));
    let late = UserFactors { reset: Some(ResetState::Late), ..none };
    add("console-user-factors-late", factors_page(late, false, None));
    let invited = |state, until, may_send| {
        let invitation = UserInvitation { state, until, may_send };
        html(&UserPage {
            may_change: true,
            managed: &[],
            inside: inside(),
            csrf,
            user: &user,
            section: UserSection::Profile,
            own: false,
            typed: None,
            profile: None,
            accesses: AccessTable { rows: &[], next: None },
            own_session: None,
            factors: none,
            invitation,
            app_logins: None,
            may_send_reset_link: false,
            password: None,
            link: None,
            faults: &[],
        })
    };
    for (name, html) in app_login_pages(&inside(), sample) {
        add(name, html);
    }
    add("console-user-invited", invited(Some((InvitationState::Invited, AT)), Some(AT), true));
    add("console-user-invitation-expired", invited(Some((InvitationState::Expired, AT)), Some(AT), true));
    add("console-user-invitation-accepted", invited(Some((InvitationState::Accepted, AT)), None, false));
    add("console-user-not-invited", invited(None, None, true));
    for section in UserSection::ALL {
        let mut add = |name: &str, html| add(&format!("{name}-{section:?}").to_lowercase(), html);
        add("console-user", page(section, &user, false, &accesses, Some("a password that was just made"), &[]));
        add("console-user-disabled", page(section, &disabled, false, &[], None, &[]));
    }
    let nameless = User { username: None, ..disabled.clone() };
    add(
        "console-user-username-taken",
        page(UserSection::Profile, &nameless, false, &[], None, &[UserField::UsernameTaken]),
    );
    add("console-user-username-wrong", page(UserSection::Profile, &nameless, false, &[], None, &[UserField::Username]));
    for (number, change) in (0..).zip([
        GuardedChange::ResetPassword,
        GuardedChange::DisableUser,
        GuardedChange::RevokeAccess,
        GuardedChange::ResetFactors,
        GuardedChange::SetRole(ConsoleRoles::ADMINISTRATORS),
        GuardedChange::SetRole(ConsoleRoles::new(&[ConsoleRole::Auditor, ConsoleRole::UserManager])),
        GuardedChange::SetRole(ConsoleRoles::NONE),
        GuardedChange::AddUser(ConsoleRoles::new(&[ConsoleRole::Developer])),
        GuardedChange::DisableClient,
        GuardedChange::DeleteClient,
        GuardedChange::RotateSecret,
        GuardedChange::AddSecret,
        GuardedChange::RemoveSecret,
        GuardedChange::SetKeys,
        GuardedChange::UseSecret,
        GuardedChange::DeleteUser,
        GuardedChange::ChangeAddress,
        GuardedChange::ChangeAddress,
        GuardedChange::SetUsername,
        GuardedChange::EnableUser,
        GuardedChange::UnblockFactors,
        GuardedChange::ChangeGroups,
        GuardedChange::EnableClient,
        GuardedChange::WidenClient,
        GuardedChange::SetLevel(AssuranceLevel::Two),
        GuardedChange::Approve,
        GuardedChange::RevokeApproval,
        GuardedChange::SetClientRules,
        GuardedChange::EndGrants,
        GuardedChange::DeleteMail(MailKind::Notice),
        GuardedChange::CreateApiToken,
        GuardedChange::RemoveApiToken,
        GuardedChange::CreateRegistrationToken,
        GuardedChange::RevokeRegistrationToken,
    ]) {
        let labels = [
            ConfirmLabel::GroupsAdded,
            ConfirmLabel::GroupsRemoved,
            ConfirmLabel::Username,
            ConfirmLabel::RedirectUris,
            ConfirmLabel::PostLogoutRedirectUris,
            ConfirmLabel::Scope,
            ConfirmLabel::RedirectUrisAdded,
            ConfirmLabel::PostLogoutRedirectUrisAdded,
            ConfirmLabel::ScopesAdded,
            ConfirmLabel::ApiScopes,
            ConfirmLabel::ExpiresAt,
            ConfirmLabel::ConsentRule,
            ConfirmLabel::TokenLimit,
            ConfirmLabel::Owner,
        ];
        let details = labels.map(|label| ConfirmDetail { label, values: vec![client.to_owned(), person.to_owned()] });
        let listed = vec![(person.to_owned(), "c1".to_owned())];
        let clients = OwnedClients { total: u64::from(change == GuardedChange::DeleteUser) * 2, listed };
        let fields = [("action", "save"), ("groups", client)];
        let (action, cancel, name) = ("/console/users/u1", "/console/users/u1", person);
        let (identifier, new_address) = (account, (number % 2 == 0).then_some(account));
        let (email, is_open_to_manager) = (Some((account, true)), number % 2 == 0);
        let promoted = PromotedUser { email, factors: &[], is_open_to_manager, sessions: &[], changes: &[] };
        let page = ConfirmPage {
            inside: inside(),
            csrf,
            change,
            name,
            identifier,
            new_address,
            details: if number > 12 { &details } else { &[] },
            promoted: (number % 3 == 0).then_some(promoted),
            clients: &clients,
            fields: &fields,
            action,
            cancel,
        };
        add(&format!("console-confirm-{number}"), html(&page));
    }
    let wrong = [UserField::Name, UserField::Email, UserField::Username, UserField::Phone];
    let typed = TypedProfile { name: person, email: account, phone_number: client, username: client, shown: None };
    for (name, faults, profile) in [
        ("wrong", &wrong[..], Some(typed)),
        ("taken", &[UserField::EmailTaken], None),
        ("phone", &wrong[3..], Some(typed)),
    ] {
        add(&format!("console-user-profile-{name}"), profile_page(&inside(), sample, &nameless, profile, faults));
    }
    add("console-user-directory", profile_page(&inside(), sample, &of_directory(sample), None, &[]));
    add("console-user-own-role", page(UserSection::Profile, &disabled, true, &[], None, &[UserField::OwnRole]));
    add("console-user-own-danger", page(UserSection::Danger, &disabled, true, &[], None, &[]));
    let by_manager = ManagerDecisions { disabled: true, ..ManagerDecisions::default() };
    let by_manager = User { by_manager, ..disabled.clone() };
    add("console-user-danger-by-manager", page(UserSection::Danger, &by_manager, false, &[], None, &[]));
    add(
        "console-user-own",
        page(UserSection::Profile, &disabled, true, &[], None, &[UserField::Groups, UserField::OwnRole]),
    );
    all
}

/// Returns the pages about changes to several users in every state.
fn bulk_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: String, html: String| all.push((name, html));
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);
    let bulk_line = |name: &str| BulkLine { name: name.to_owned(), identifier: account.to_owned() };
    let selected = [bulk_line(person), bulk_line("")];
    let skipped = [
        BulkSkip::Own,
        BulkSkip::Unchanged,
        BulkSkip::Directory,
        BulkSkip::TooManyGroups,
        BulkSkip::HasCredential,
        BulkSkip::CannotInvite,
        BulkSkip::Unknown,
        BulkSkip::Deleted,
        BulkSkip::Refused,
        BulkSkip::Failed,
    ];
    for reason in skipped {
        assert_eq!(BulkSkip::parse(reason.as_str()), Some(reason));
    }
    let skipped = skipped.map(|reason| (bulk_line(person), reason));
    let fields = [("action", "disable"), ("to_group", client)];
    let page = |action, roles, users, fault| {
        let back = "/console/users?page=2";
        html(&BulkPage {
            inside: inside(),
            csrf,
            action,
            group: client,
            roles,
            users,
            open_to_managers: if roles.is_empty() { 0 } else { 2 },
            skipped: &skipped,
            fault,
            fields: &fields,
            back,
        })
    };
    for action in BulkAction::ALL {
        add(format!("console-bulk-{}", action.as_str()), page(action, ConsoleRoles::NONE, &selected, None));
    }
    for role in ConsoleRole::ALL {
        let roles = ConsoleRoles::new(&[role]);
        add(format!("console-bulk-role-{role:?}"), page(BulkAction::AddToGroup, roles, &selected[..1], None));
    }
    for (name, done) in [("some", &selected[..]), ("none", &[])] {
        let (action, group, back) = (BulkAction::AddToGroup, client, "/console/users?page=2");
        let page = BulkResultPage { inside: inside(), action, group, done, left_out: &skipped, back };
        add(format!("console-bulk-result-{name}"), html(&page));
    }
    add("console-bulk-nothing".to_owned(), page(BulkAction::Enable, ConsoleRoles::NONE, &[], None));
    for (number, fault) in (0..).zip([BulkFault::NoUsers, BulkFault::TooMany { most: 100 }, BulkFault::Group]) {
        add(format!("console-bulk-fault-{number}"), page(BulkAction::AddToGroup, ConsoleRoles::NONE, &[], Some(fault)));
    }
    all
}

/// Returns the pages about groups in every state.
fn group_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: String, html: String| all.push((name, html));
    let inside = || inside(frame, sample, ConsoleRole::Administrator, None);
    let fields = [("action", "disable"), ("to_group", client)];

    let url = "/console/groups/members?name=staff".to_owned();
    let groups = [GroupLine { name: client.to_owned(), url, members: 12, uses: 3 }];
    let page =
        |groups, wanted, next| html(&GroupsPage { inside: inside(), csrf, groups, wanted, previous: next, next });
    add("console-groups".to_owned(), page(&groups, "", None));
    add("console-groups-found".to_owned(), page(&groups, client, Some("/console/groups?page=2")));
    add("console-groups-none".to_owned(), page(&[], "", None));
    add("console-groups-none-found".to_owned(), page(&[], client, None));

    let methods = ["GET".to_owned(), "POST".to_owned()];
    let uses = [
        GroupUse::Rule { app: client, path: "/", methods: &[] },
        GroupUse::Rule { app: client, path: "/", methods: &methods },
        GroupUse::Maintenance { app: client },
        GroupUse::Account { app: client },
        GroupUse::Console(ConsoleRole::Administrator),
        GroupUse::Console(ConsoleRole::Auditor),
        GroupUse::Console(ConsoleRole::UserManager),
        GroupUse::Console(ConsoleRole::Developer),
        GroupUse::Managed { group: client },
        GroupUse::Factors,
    ];
    let member = sample.user();
    let state = ListedState::Enabled;
    let listed = ListedUser { sub: member.sub, signed_in_at: None, factor: None, is_reset: false, state };
    let members = [UserLine { user: member, listed }];
    let page = |members, uses, fault| {
        html(&GroupPage {
            may_change: true,
            inside: inside(),
            csrf,
            members_csrf: csrf,
            name: client,
            to: person,
            members,
            skipped: 40,
            total: 41 * members.len(),
            uses,
            is_of_directory: !uses.is_empty(),
            back: "/console/groups/members?name=staff&page=2",
            previous: Some("/console/groups/members?name=staff"),
            next: None,
            fault,
        })
    };
    add("console-group".to_owned(), page(&members, &uses, None));
    add("console-group-unnamed".to_owned(), page(&members, &[], None));
    add("console-group-empty".to_owned(), page(&[], &uses, None));
    add("console-group-wrong".to_owned(), page(&members, &uses, Some(GroupFault::Name)));
    add("console-group-own-role".to_owned(), page(&members, &uses, Some(GroupFault::OwnRole)));
    for (name, to, uses) in [("rename", Some(person), &uses[..]), ("delete", None, &[])] {
        let (total, back) = (12, "/console/groups/members?name=staff");
        let (new_uses, roles) =
            if to.is_some() { (uses, ConsoleRoles::ADMINISTRATORS) } else { (&[][..], ConsoleRoles::NONE) };
        let (inside, open_to_managers, fields) = (inside(), 1, &fields);
        let page = GroupConfirmPage {
            inside,
            csrf,
            name: client,
            to,
            total,
            uses,
            new_uses,
            roles,
            open_to_managers,
            fields,
            back,
        };
        add(format!("console-group-confirm-{name}"), html(&page));
    }
    all
}

/// Returns the audit log in every state.
fn audit_pages(frame: &Frame<'_>, sample: &Sample) -> Vec<(String, String)> {
    let &Sample { client, account, person, csrf, .. } = sample;
    let mut all = Vec::new();
    let mut add = |name: &str, html: String| all.push((name.to_owned(), html));

    let named = |id: &str, name: &str| Named { id: id.into(), name: Some(name.into()), has_page: true };
    let actors = [
        Actor::Stranger,
        Actor::User,
        Actor::Administrator(Sample::sub()),
        Actor::Client,
        Actor::Operator,
        Actor::Server,
    ];
    let events = actors.map(|actor| EventLine {
        event: AuditEvent {
            address: Some([192, 0, 2, 7].into()),
            request_id: Some(sample.request_id.into()),
            detail: Some(person.into()),
            count: 2,
            ..AuditEvent::new(AT, AuditKind::KeysChanged, actor)
        },
        administrator: matches!(actor, Actor::Administrator(_)).then(|| Named {
            id: "u1".into(),
            name: None,
            has_page: false,
        }),
        subject: Some(named("u1", account)),
        party: Some(named("c1", client)),
    });
    let chart = SignInChart { periods: vec![(AT, 12, 3), (AT, 0, 0)] };
    let live = |next: Option<&str>, is_over| LiveView {
        start: "/console/audit?live=9".to_owned(),
        next: next.map(str::to_owned),
        is_over,
        seconds: 5,
    };
    let page = |events, previous, next, faults: &[AuditField], live: Option<LiveView>| {
        html(&AuditLogPage {
            inside: inside(frame, sample, ConsoleRole::Administrator, None),
            events,
            previous,
            next,
            csv: "/console/audit/export?format=csv",
            ndjson: "/console/audit/export?format=ndjson",
            csrf,
            filters: &[(account, "/console/audit?kind=keys_changed".to_owned())],
            filter: (!faults.contains(&AuditField::User)).then_some("kind=keys_changed&zone=0"),
            live: live.as_ref(),
            address: "192.0.2.7",
            result: "failed",
            reload: "/console/audit?kind=keys_changed",
            chart: Some(&chart),
            kind: "keys_changed",
            person: account,
            client,
            from: "2026-11-01",
            to: "2026-11-21",
            zone: -180,
            faults,
        })
    };
    let (previous, next) = (Some("/console/audit?zone=0"), Some("/console/audit?after=x"));
    add("console-audit", page(&events, previous, next, &[], None));
    add("console-audit-live", page(&events, None, next, &[], Some(live(Some("/console/audit?live=8"), false))));
    add("console-audit-none", page(&[], None, None, &[], Some(live(None, true))));
    let wrong = [AuditField::User, AuditField::From, AuditField::To];
    add("console-audit-wrong", page(&events, previous, next, &wrong, Some(live(None, false))));
    for (name, fault) in [("name", AuditField::FilterName), ("full", AuditField::TooManyFilters)] {
        add(&format!("console-audit-filter-{name}"), page(&events, previous, next, &[fault], None));
    }
    all
}

#[test]
fn the_list_of_users_shows_who_has_no_credential() {
    for (name, state, active) in
        [("console-users.en", "No password", "Active"), ("console-users.tr", "Parola yok", "Etkin")]
    {
        let html = crate::sample::page(name);
        let rows: Vec<_> = html.split("\n<tr>").skip(1).collect();
        let shown = |row: &str| (row.contains(state), row.contains(active));
        assert_eq!(shown(rows[0]), (false, true), "{}", rows[0]);
        assert_eq!(shown(rows[4]), (true, false), "{}", rows[4]);
        assert!(rows[5..].iter().all(|row| !row.contains(state)), "{html}");
    }
}
