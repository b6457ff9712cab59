//! Routes of the admin API with their descriptions: one table.
//!
//! The dispatch, the `OpenAPI` document and the reference page read it. A row needs all parts, so a route
//! without a description does not compile.

use http::Method;
use serde_json::{Value, json};

use super::body::{Field, Kind, field};
use super::{Answering, Call, access, clients, groups, objects, users};
use sealgate_admin::answer::{
    AppPasswordAnswer, ClientAnswer, ConsentAnswer, EndedAnswer, EventAnswer, FactorAnswer, GrantAnswer, KeysAnswer,
    MailAnswer, SecretTimes, SessionAnswer, UserAnswer,
};
use sealgate_admin::schema::Described;
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::open_access::OpenAccess;

/// Handler of a route.
pub(super) type Handler = for<'c> fn(&'c Call<'c>) -> Answering<'c>;

/// Route of the API.
pub(super) struct ApiRoute {
    pub(super) method: &'static Method,
    /// Path below `/api/v1/`. Segments in braces are parameters.
    pub(super) path: &'static str,
    /// Scope that the token must have. `None` for the description, which needs no token.
    pub(super) scope: Option<ApiScope>,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Field],
    /// Members of the body. `None` if the request has no body.
    pub(super) body: Option<&'static [Field]>,
    pub(super) required: &'static [&'static str],
    pub(super) shape: Shape,
    /// Whether `If-Match` and `If-None-Match` have an effect. If not, they are refused.
    pub(super) conditional: bool,
    pub(super) handler: Handler,
}

/// Body of a successful response.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// 204 without a body.
    Nothing,
    /// What the request has done. The token needs no further scope to see it.
    Outcome(fn() -> Value),
    /// One object, if the token has the scope to read it.
    Object(fn() -> Value),
    /// One object, as for `Object`: 201 if the request has created it, 200 if it has changed it.
    Put(fn() -> Value),
    /// Page of a list under this name, with the cursor `next`.
    List(&'static str, fn() -> Value),
}

const fn route(
    method: &'static Method,
    path: &'static str,
    scope: ApiScope,
    summary: &'static str,
    shape: Shape,
    handler: Handler,
) -> ApiRoute {
    ApiRoute {
        method,
        path,
        scope: Some(scope),
        summary,
        query: &[],
        body: None,
        required: &[],
        shape,
        conditional: false,
        handler,
    }
}

const fn get(path: &'static str, scope: ApiScope, summary: &'static str, shape: Shape, handler: Handler) -> ApiRoute {
    route(&Method::GET, path, scope, summary, shape, handler)
}

const fn post(path: &'static str, scope: ApiScope, summary: &'static str, shape: Shape, handler: Handler) -> ApiRoute {
    route(&Method::POST, path, scope, summary, shape, handler)
}

const fn delete(path: &'static str, scope: ApiScope, summary: &'static str, handler: Handler) -> ApiRoute {
    route(&Method::DELETE, path, scope, summary, Shape::Nothing, handler)
}

impl ApiRoute {
    const fn with_query(self, query: &'static [Field]) -> Self {
        Self { query, ..self }
    }

    const fn with_body(self, body: &'static [Field], required: &'static [&'static str]) -> Self {
        Self { body: Some(body), required, ..self }
    }

    const fn conditional(self) -> Self {
        Self { conditional: true, ..self }
    }
}

const INVITATION: &[Field] = &[field(
    "invitation",
    Kind::Choice(&["mail", "link"]),
    "Whether the link is sent by e-mail (the default) or returned in the answer",
)];

const SESSIONS: &[Field] = &[
    field("user", Kind::Text(300), "User, by ID, address or username"),
    field("client", Kind::Text(300), "Client"),
    field("after", Kind::Text(100), "Value of `next` on the previous page"),
];

const GRANTS: &[Field] = &[
    field("user", Kind::Text(300), "User, by ID, address or username"),
    field("client", Kind::Text(300), "Client"),
    field("session", Kind::Text(50), "Session"),
    field("after", Kind::Text(100), "Value of `next` on the previous page"),
];

const AUDIT: &[Field] = &[
    field("user", Kind::Text(300), "Only events of this user, by ID, address or username"),
    field("client", Kind::Text(300), "Only events about this client"),
    field("kind", Kind::Text(1000), "Only events of these kinds, separated by commas"),
    field("since", Kind::Number(0, u32::MAX as u64), "Start, in seconds since 1970"),
    field("until", Kind::Number(0, u32::MAX as u64), "End (exclusive), in seconds since 1970"),
    field("address", Kind::Text(50), "Only events of requests from this address"),
    field("limit", Kind::Number(1, 100), "Maximum number of events"),
    field("after", Kind::Text(100), "Value of `next` on the previous page"),
];

const ALGORITHM: &[Field] =
    &[field("algorithm", Kind::Choice(&["RS256", "PS256", "ES256", "EdDSA"]), "Algorithm of the key; RS256 if absent")];

const MAILS: &[Field] = &[
    field("sent", Kind::Flag, "List messages sent in the last 30 days instead"),
    field("after", Kind::Text(100), "Value of `next` on the previous page"),
];

fn group_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "members": { "type": "integer", "minimum": 0 } },
        "required": ["name", "members"],
    })
}

fn changed_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "users_changed": { "type": "integer", "minimum": 0 } },
        "required": ["users_changed"],
    })
}

fn app_schema() -> Value {
    let server = json!({
        "type": "object",
        "properties": {
            "address": { "type": "string" },
            "accepts": { "type": ["boolean", "null"], "description": "Whether the server accepts connections" },
        },
        "required": ["address", "accepts"],
    });
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "title": { "type": "string" },
            "url": { "type": "string" },
            "servers": { "type": "array", "items": server },
            "maintenance": { "type": "boolean" },
        },
        "required": ["name", "title", "url", "servers", "maintenance"],
    })
}

fn decision_schema() -> Value {
    let text = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "properties": {
            "app": text, "rule": text, "forwarded": { "type": "boolean" }, "status": { "type": ["integer", "null"] },
            "reason": { "type": "string" }, "claim": text, "advice": text,
            "identity_headers": { "type": "array", "items": { "type": "object" } },
            "upstreams": { "type": ["array", "null"], "items": { "type": "string" } },
            "upstream_protocol": text, "upstream_path": text,
        },
        "required": ["app", "rule", "forwarded", "status", "reason", "identity_headers"],
    })
}

use ApiScope::{
    AppsRead, AuditRead, ClientsRead, ClientsWrite, GroupsRead, GroupsWrite, KeysRead, KeysWrite, MailRead, MailWrite,
    SessionsRead, SessionsWrite, UsersRead, UsersWrite,
};

const USER: Shape = Shape::Object(UserAnswer::schema);
const CLIENT: Shape = Shape::Object(ClientAnswer::schema);

/// All routes.
pub(super) static ROUTES: &[ApiRoute] = &[
    get("users", UsersRead, "List users", Shape::List("users", UserAnswer::schema), |c| Box::pin(users::list(c)))
        .with_query(users::FILTER),
    get("users/{user}", UsersRead, "Show a user", USER, |c| Box::pin(users::show(c))).conditional(),
    route(
        &Method::PUT,
        "users/{user}",
        UsersWrite,
        "Create a user, or replace the profile",
        Shape::Put(UserAnswer::schema),
        |c| Box::pin(users::put(c)),
    )
    .with_body(users::ATTRIBUTES, &["name"])
    .conditional(),
    route(&Method::PATCH, "users/{user}", UsersWrite, "Change attributes of a user", USER, |c| {
        Box::pin(users::patch(c))
    })
    .with_body(users::ATTRIBUTES, &[])
    .conditional(),
    delete("users/{user}", UsersWrite, "Delete a user", |c| Box::pin(users::delete(c))).conditional(),
    post("users/{user}/disable", UsersWrite, "Disable a user and revoke all access", USER, |c| {
        Box::pin(users::disable(c))
    }),
    post("users/{user}/enable", UsersWrite, "Enable a disabled user", USER, |c| Box::pin(users::enable(c))),
    post(
        "users/{user}/revoke",
        UsersWrite,
        "Revoke all sessions and tokens of a user",
        Shape::Outcome(EndedAnswer::schema),
        |c| Box::pin(users::revoke(c)),
    ),
    post("users/{user}/invitation", UsersWrite, "Send a new invitation link", USER, |c| Box::pin(users::invite(c)))
        .with_body(INVITATION, &[]),
    delete("users/{user}/invitation", UsersWrite, "Revoke the invitation link", |c| {
        Box::pin(users::revoke_invitation(c))
    }),
    post("users/{user}/reset-link", UsersWrite, "Send a link to set a new password", Shape::Nothing, |c| {
        Box::pin(users::send_reset_link(c))
    }),
    get(
        "users/{user}/factors",
        UsersRead,
        "List two-factor methods and passkeys",
        Shape::List("factors", FactorAnswer::schema),
        |c| Box::pin(users::factors(c)),
    ),
    post(
        "users/{user}/factors/reset",
        UsersWrite,
        "Remove all two-factor methods; returns a link to set up a new one",
        USER,
        |c| Box::pin(users::reset_factors(c)),
    ),
    post("users/{user}/factors/unblock", UsersWrite, "Unblock codes after too many wrong attempts", USER, |c| {
        Box::pin(users::unblock_factors(c))
    }),
    get(
        "users/{user}/accesses",
        SessionsRead,
        "List open accesses of a user",
        Shape::List("open_accesses", OpenAccess::schema),
        |c| Box::pin(objects::accesses(c)),
    ),
    get(
        "users/{user}/consents",
        SessionsRead,
        "List consents of a user",
        Shape::List("consents", ConsentAnswer::schema),
        |c| Box::pin(objects::consents(c)),
    )
    .with_query(groups::AFTER),
    delete("users/{user}/consents/{client}", SessionsWrite, "Revoke a consent and the client's tokens", |c| {
        Box::pin(objects::end_consent(c))
    }),
    get(
        "users/{user}/app-passwords",
        SessionsRead,
        "List application passwords",
        Shape::List("app_passwords", AppPasswordAnswer::schema),
        |c| Box::pin(objects::app_passwords(c)),
    ),
    delete("users/{user}/app-passwords/{id}", SessionsWrite, "Revoke an application password", |c| {
        Box::pin(objects::end_app_password(c))
    }),
    get("groups", GroupsRead, "List groups with their number of members", Shape::List("groups", group_schema), |c| {
        Box::pin(groups::list(c))
    })
    .with_query(groups::AFTER),
    route(&Method::PATCH, "groups/{group}", GroupsWrite, "Rename a group", Shape::Outcome(changed_schema), |c| {
        Box::pin(groups::rename(c))
    })
    .with_body(groups::NEW_NAME, &["name"]),
    route(
        &Method::DELETE,
        "groups/{group}",
        GroupsWrite,
        "Remove all members from a group",
        Shape::Outcome(changed_schema),
        |c| Box::pin(groups::delete(c)),
    ),
    get(
        "groups/{group}/members",
        GroupsRead,
        "List members of a group",
        Shape::List("users", UserAnswer::schema),
        |c| Box::pin(groups::members(c)),
    )
    .with_query(groups::AFTER),
    get("groups/{group}/members/{user}", GroupsRead, "Show a member of a group", USER, |c| {
        Box::pin(groups::show_member(c))
    })
    .conditional(),
    route(&Method::PUT, "groups/{group}/members/{user}", GroupsWrite, "Add a user to a group", Shape::Nothing, |c| {
        Box::pin(groups::add_member(c))
    }),
    delete("groups/{group}/members/{user}", GroupsWrite, "Remove a user from a group", |c| {
        Box::pin(groups::remove_member(c))
    }),
    get("clients", ClientsRead, "List clients", Shape::List("clients", ClientAnswer::schema), |c| {
        Box::pin(clients::list(c))
    })
    .with_query(groups::AFTER),
    get("clients/{client}", ClientsRead, "Show a client", CLIENT, |c| Box::pin(clients::show(c))).conditional(),
    route(
        &Method::PUT,
        "clients/{client}",
        ClientsWrite,
        "Create a client, or replace its settings",
        Shape::Put(ClientAnswer::schema),
        |c| Box::pin(clients::put(c)),
    )
    .with_body(clients::SETTINGS, &["client_name", "client_type"])
    .conditional(),
    route(&Method::PATCH, "clients/{client}", ClientsWrite, "Change settings of a client", CLIENT, |c| {
        Box::pin(clients::patch(c))
    })
    .with_body(clients::SETTINGS, &[])
    .conditional(),
    delete("clients/{client}", ClientsWrite, "Delete a client and revoke its tokens", |c| Box::pin(clients::delete(c)))
        .conditional(),
    post("clients/{client}/disable", ClientsWrite, "Disable a client and revoke its tokens", CLIENT, |c| {
        Box::pin(clients::disable(c))
    }),
    post("clients/{client}/enable", ClientsWrite, "Enable a disabled client", CLIENT, |c| Box::pin(clients::enable(c))),
    post("clients/{client}/approve", ClientsWrite, "Approve a client that a developer registered", CLIENT, |c| {
        Box::pin(clients::approve(c))
    }),
    post("clients/{client}/revoke-approval", ClientsWrite, "Revoke a client's approval", CLIENT, |c| {
        Box::pin(clients::revoke_approval(c))
    }),
    post("clients/{client}/rotate-secret", ClientsWrite, "Replace a client's secrets by a new one", CLIENT, |c| {
        Box::pin(clients::rotate_secret(c))
    })
    .with_body(clients::OVERLAP, &[]),
    get(
        "clients/{client}/secrets",
        ClientsRead,
        "List a client's secrets, without the secrets themselves",
        Shape::List("secrets", SecretTimes::schema),
        |c| Box::pin(clients::secrets(c)),
    ),
    post("clients/{client}/secrets", ClientsWrite, "Generate a further secret", CLIENT, |c| {
        Box::pin(clients::add_secret(c))
    })
    .with_body(clients::SECRET, &[]),
    delete("clients/{client}/secrets/{secret}", ClientsWrite, "Remove a secret", |c| {
        Box::pin(clients::remove_secret(c))
    }),
    get(
        "sessions",
        SessionsRead,
        "List browser sessions of a user or a client",
        Shape::List("sessions", SessionAnswer::schema),
        |c| Box::pin(objects::sessions(c)),
    )
    .with_query(SESSIONS),
    delete("sessions/{session}", SessionsWrite, "End a session", |c| Box::pin(objects::end_session(c))),
    get(
        "grants",
        SessionsRead,
        "List valid grants by user, client or session",
        Shape::List("grants", GrantAnswer::schema),
        |c| Box::pin(objects::grants(c)),
    )
    .with_query(GRANTS),
    delete("grants/{grant}", SessionsWrite, "Revoke a grant", |c| Box::pin(objects::end_grant(c))),
    get("keys", KeysRead, "List signing keys with their schedule", Shape::Object(KeysAnswer::schema), |c| {
        Box::pin(objects::keys(c))
    }),
    post("keys/rotate", KeysWrite, "Rotate the signing key of an algorithm", Shape::Object(KeysAnswer::schema), |c| {
        Box::pin(objects::rotate(c))
    })
    .with_query(ALGORITHM),
    get(
        "mails",
        MailRead,
        "List queued and failed messages, without contents",
        Shape::List("mails", MailAnswer::schema),
        |c| Box::pin(objects::mails(c)),
    )
    .with_query(MAILS),
    post("mails/{id}/retry", MailWrite, "Retry a message now", Shape::Nothing, |c| Box::pin(objects::retry_mail(c))),
    delete("mails/{id}", MailWrite, "Delete a queued or failed message", |c| Box::pin(objects::delete_mail(c))),
    get("audit", AuditRead, "List audit events, newest first", Shape::List("events", EventAnswer::schema), |c| {
        Box::pin(objects::audit(c))
    })
    .with_query(AUDIT),
    get("apps", AppsRead, "List protected applications", Shape::List("apps", app_schema), |c| {
        Box::pin(access::apps(c))
    }),
    post("check-access", AppsRead, "Explain the decision on a request", Shape::Object(decision_schema), |c| {
        Box::pin(access::check(c))
    })
    .with_body(access::REQUEST, &["url"]),
    ApiRoute {
        scope: None,
        ..get("openapi.json", UsersRead, "Show this description", Shape::Object(description_schema), |c| {
            Box::pin(async { Ok(super::openapi::document(&c.sealgate.config)) })
        })
    },
];

fn description_schema() -> Value {
    json!({ "type": "object" })
}
