//! Reference page of the admin API: `docs/reference/admin-api.md`.

use std::fmt::Write as _;

use super::routes::{ApiRoute, ROUTES};
use sealgate_domain::api_token::ApiScope;

const HEAD: &str = "\
# Admin API

The commands of the command line over HTTPS, for programs. [Automate administration](../how-to/automate-administration.md) has
examples. This page is generated from the program (`sealgate documents`), and a test compares the two.

The API is at `/api/v1/` below the issuer, and exists only with `api.enabled`. `GET /api/v1/openapi.json` returns its OpenAPI 3.1
description and needs no token. There is no CORS, and cookies never authenticate a request.

## Tokens

A request has one token: `Authorization: Bearer sealgate_api_…`. An administrator creates tokens at `/console/api-tokens`, and an
operator with `sealgate api-token add`. The token is shown once; the store has its SHA-256 only.

- A token has scopes and an expiry: 90 days by default, at most 365. It is deleted after it has expired. There are at most 200.
- A token of an administrator works only while the administrator is enabled and has the role. It works again if the role returns.
- Everything that revokes all access of the administrator (`user revoke`, `user disable`, `user delete`, a new password)
  deletes the tokens that the administrator has created.
- A token of the command line has no user behind it and works until it expires.
- The API cannot create, list or remove tokens.
- Without `admins:write`, a token cannot change a user who has a console role, or give one. It ends none of their sessions, grants, consents and
  application passwords, and resets none of their credentials. The commit checks this. Only a client that is disabled or deleted
  loses the grants of all users. With `admins:write`, a token cannot take the role from its own creator.
- Write scopes do not include read scopes. A change is answered with the object only if the token also has the read scope: `users:read`,
  `clients:read` or `keys:read`. Without it, the answer is 204 without a body, or 201 for a new object. If the request has
  created a secret (`client_secret`, `invitation_link` or `enrolment_link`), the answer has it with the ID of its object.
- A check of access that names a user needs `users:read` too.
- Lists of sessions, grants, accesses and application passwords do not show what a pending revocation of all access is about to end.
- The last use is recorded once an hour.

Each change leaves the audit event of its command, with the actor `api token ID of administrator SUB`, or `… of operator`. A wrong
token leaves `sign_in_failed` with the detail `api token`.

| scope | permits |
|---|---|
";

const MIDDLE: &str = "
## Requests

- A user in a path is an ID, an e-mail address or a username; a client is a client ID. Encode `/` as `%2F`. The access log has paths, so
  use IDs where it must contain no addresses.
- A body is one JSON object of at most 64 KiB, with `Content-Type: application/json`. Unknown and repeated members are refused.
- `PUT` creates an object or replaces its settings: absent members are removed. Members that are `unchanged if absent` in the
  description stay. Repeating a `PUT` changes nothing, and leaves no audit event.
- `PATCH` changes the given members. `null` removes a setting (RFC 7396), where the description permits `null`.
- Times are seconds since 1970. Lists have a member `next`; pass it as `after` to get the next page. Another value is answered 400. A page may be empty although
  `next` is not null.

A response with one object has a strong `ETag`. `If-Match` makes a change fail with 412 if the object has changed, also if it changes
during the request. `If-None-Match: *` makes a `PUT` create an object only. `If-None-Match` with an entity tag makes a `GET` return 304.
A condition that has no effect is refused with 400: `If-Match` of a `GET` or of a route without `ETag`, and `If-None-Match` of another change.

## Errors

Errors are problem details (`application/problem+json`, RFC 9457) with a word in `code` and the reasons in `errors`.

| status | meaning |
|---|---|
| 400 | malformed JSON, query or header; a condition without effect |
| 401 | no token, or one that does not work; with `WWW-Authenticate` |
| 403 | the token lacks a scope, which `WWW-Authenticate` names; or the change is never permitted |
| 404, 405 | no such object or path; the path does not support the method |
| 409 | the object exists, is defined in the configuration file, or is being changed by other requests |
| 412 | `If-Match` or `If-None-Match` does not hold |
| 413, 415 | the body is too long, or not JSON |
| 422 | values that the command refuses |
| 429 | more than `rate_limits.api` requests a minute, or than `login.failures_per_address` wrong tokens; with `Retry-After` |
| 503 | overloaded; with `Retry-After` |

## Routes

`ETag` marks routes that use the conditions above.

| method | path | purpose | scope | ETag |
|---|---|---|---|---|
";

/// Returns the page in Markdown.
pub(crate) fn reference_page() -> String {
    let mut page = String::from(HEAD);
    for scope in ApiScope::ALL {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{scope}` | {} |", permits(scope));
    }
    page.push_str(MIDDLE);
    for ApiRoute { method, path, scope, summary, conditional, .. } in ROUTES {
        let scope = scope.map_or("none".to_owned(), |scope| format!("`{scope}`"));
        let etag = if *conditional { "yes" } else { "" };
        let _ = writeln!(page, "| `{method}` | `{path}` | {summary} | {scope} | {etag} |");
    }
    page
}

fn permits(scope: ApiScope) -> &'static str {
    match scope {
        ApiScope::UsersRead => "list and show users and their two-factor methods",
        ApiScope::UsersWrite => "create, change, disable and delete users, and reset their credentials",
        ApiScope::GroupsRead => "list groups and their members",
        ApiScope::GroupsWrite => "change members, rename and empty groups",
        ApiScope::ClientsRead => "list and show clients",
        ApiScope::ClientsWrite => "create, change, approve, disable and delete clients, and generate secrets",
        ApiScope::SessionsRead => "list sessions, grants, consents and application passwords",
        ApiScope::SessionsWrite => "end sessions, grants, consents and application passwords",
        ApiScope::KeysRead => "list signing keys",
        ApiScope::KeysWrite => "rotate the signing key",
        ApiScope::MailRead => "list queued and sent messages, without contents",
        ApiScope::MailWrite => "retry and delete queued messages",
        ApiScope::AuditRead => "read the audit log",
        ApiScope::AppsRead => "list applications and explain access decisions",
        ApiScope::AdminsWrite => "with another write scope: change users with a console role, and give console roles",
    }
}
