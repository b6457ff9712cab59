//! `/api/v1`: the commands of the command line over HTTPS, for programs.
//!
//! [`routes::ROUTES`] has each route with its description, from which the `OpenAPI` document and the
//! reference page are made. A handler builds a command and returns its answer; all rules are in
//! [`sealgate_admin`]. Errors are problem details (RFC 9457).
//!
//! The order of the checks: rate limit by address, path, method, token, scope, query, body. So a client
//! without a token learns only which routes exist, and those are public.

mod access;
mod body;
mod clients;
mod groups;
mod objects;
mod openapi;
mod problem;
mod reference;
mod routes;
mod token;
mod users;

use std::pin::Pin;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Map, Value};

use self::body::RequestMembers;
use self::problem::ApiProblem;
use self::routes::{ApiRoute, ROUTES, Shape};
use sealgate_admin as admin;
use sealgate_admin::command::Command;
use sealgate_admin::{Answer, CommandContext, CommandError, UserRef};
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response::Response;
use sealgate_domain::api_token::{ApiScope, ApiToken};
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_store::StoreError;

pub(crate) use self::reference::reference_page;

/// Path of the API below the issuer's path.
pub(crate) const PATH: &str = "/api/v1/";

/// Maximum size of a body, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;

/// Members of answers that only the request that has created them returns.
const NEW_SECRETS: &[&str] = &["client_secret", "invitation_link", "enrolment_link"];

/// Members of answers that belong to a new secret: the ID of its object, and its expiry.
const OF_NEW_SECRETS: &[&str] = &["sub", "client_id", "link_expires_at"];

/// Future of a handler.
type Answering<'c> = Pin<Box<dyn Future<Output = Result<Reply, ApiProblem>> + Send + 'c>>;

/// Handles a request to the API.
pub(crate) async fn respond(ctx: &RequestContext<'_>) -> Response {
    match answer(ctx).await {
        Ok(reply) => reply.into_response(ctx.head),
        Err(problem) => problem.into_response(),
    }
}

/// Returns the error response to a request whose body is too long or arrived too slowly.
pub(crate) fn refuse_body(status: StatusCode) -> Response {
    let reason = format!("The body is longer than {MAX_BODY_BYTES} bytes, or arrived too slowly.");
    ApiProblem::new(status, "body_refused", reason).into_response()
}

/// Returns the error response to a client that has sent too many requests.
pub(crate) fn refuse_rate(seconds: u64) -> Response {
    ApiProblem::too_many(seconds, "Too many requests came from this address.").into_response()
}

async fn answer(ctx: &RequestContext<'_>) -> Result<Reply, ApiProblem> {
    ctx.charge_address(Bucket::Api).await?;
    let (route, parameters) = find(ctx)?;
    let Some(scope) = route.scope else { return Ok(openapi::document(&ctx.sealgate.config)) };
    let token = token::authenticate(ctx).await?;
    token::note_use(ctx, &token).await;
    if !token.has(scope) {
        return Err(ApiProblem::insufficient_scope(scope));
    }
    let query = RequestMembers::of_query(&ctx.query()?, route.query)?;
    let body = body_of(ctx, route)?;
    let conditions = Conditions::read(&ctx.head.headers, route)?;
    let sealgate = token::guarded(ctx, &token, scope);
    let call = Call { ctx, sealgate: &sealgate, token: &token, parameters, query, body, conditions };
    let reply = (route.handler)(&call).await?;
    let shows_object = matches!(route.shape, Shape::Object(_) | Shape::Put(_));
    Ok(if shows_object && !token.has(scope.reading()) { reply.without_object() } else { reply })
}

/// Returns the route of a request, and the parameters in its path.
///
/// # Errors
/// 404 for an unknown path, 405 for another method.
fn find(ctx: &RequestContext<'_>) -> Result<(&'static ApiRoute, Vec<String>), ApiProblem> {
    let unknown = || ApiProblem::not_found("There is no resource at this path.");
    let prefix = ctx.sealgate.config.issuer.path_prefix();
    let path = ctx.head.uri.path().strip_prefix(prefix).and_then(|path| path.strip_prefix(PATH)).ok_or_else(unknown)?;
    let segments: Vec<&str> = path.split('/').collect();
    let method = if ctx.head.method == Method::HEAD { &Method::GET } else { &ctx.head.method };
    let mut allowed: Vec<&str> = Vec::new();
    for route in ROUTES.iter().filter(|route| route.has_shape(&segments)) {
        if route.method == *method {
            return route.parameters(&segments).map(|parameters| (route, parameters)).ok_or_else(unknown);
        }
        if route.method == Method::GET {
            allowed.push("HEAD");
        }
        allowed.push(route.method.as_str());
    }
    if allowed.is_empty() { Err(unknown()) } else { Err(ApiProblem::method(allowed.join(", "))) }
}

impl ApiRoute {
    /// Returns whether a path has the fixed segments of the route. Fixed segments are compared byte for
    /// byte.
    fn has_shape(&self, segments: &[&str]) -> bool {
        let own: Vec<&str> = self.path.split('/').collect();
        own.len() == segments.len() && own.iter().zip(segments).all(|(own, given)| is_parameter(own) || own == given)
    }

    /// Returns the decoded parameters. `None` if one of them is not a valid segment.
    fn parameters(&self, segments: &[&str]) -> Option<Vec<String>> {
        let own = self.path.split('/');
        own.zip(segments).filter(|(own, _)| is_parameter(own)).map(|(_, given)| decoded(given)).collect()
    }
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{')
}

/// Decodes a segment once. Returns `None` for an empty segment, a dot segment in any spelling, an
/// incomplete escape, control characters and invalid UTF-8.
fn decoded(segment: &str) -> Option<String> {
    let mut rest = segment;
    while let Some((_, after)) = rest.split_once('%') {
        let digits = after.as_bytes().get(..2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = &after[2..];
    }
    let text = percent_decode_str(segment).decode_utf8().ok()?.into_owned();
    let is_dots = matches!(text.as_str(), "" | "." | "..");
    (!is_dots && !text.chars().any(char::is_control)).then_some(text)
}

fn body_of(ctx: &RequestContext<'_>, route: &ApiRoute) -> Result<RequestMembers, ApiProblem> {
    let body = ctx.body();
    if body.len() > MAX_BODY_BYTES {
        let reason = format!("The body is longer than {MAX_BODY_BYTES} bytes.");
        return Err(ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_refused", reason));
    }
    let Some(fields) = route.body else {
        return if body.is_empty() {
            Ok(RequestMembers::default())
        } else {
            Err(ApiProblem::malformed("This request has no body."))
        };
    };
    if body.is_empty() && route.required.is_empty() && route.method == Method::POST {
        return Ok(RequestMembers::default());
    }
    if !ctx.is_labelled("application/json") || ctx.head.headers.contains_key(CONTENT_ENCODING) {
        let reason = "The body must be JSON, with Content-Type: application/json and without Content-Encoding.";
        return Err(ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", reason));
    }
    RequestMembers::read(body, fields, route.required)
}

/// Conditions of a request (RFC 9110 §13.1).
#[derive(Default)]
struct Conditions {
    /// `If-Match`: the object must exist and have one of these entity tags. Empty for `*`.
    if_match: Option<Vec<String>>,
    /// `If-None-Match: *`: the object must not exist.
    is_new: bool,
}

impl Conditions {
    /// Reads the conditions of a request to this route.
    ///
    /// A condition without effect is refused, because the client relies on it. Only `If-None-Match` of a
    /// request that changes nothing may be ignored: without it, the client gets the object again.
    ///
    /// # Errors
    /// 400 if a header is malformed, or has no effect on this route.
    fn read(headers: &HeaderMap, route: &ApiRoute) -> Result<Self, ApiProblem> {
        let reads = route.method == Method::GET;
        let if_match = tags(headers, &IF_MATCH)?;
        if if_match.is_some() && (reads || !route.conditional) {
            return Err(ApiProblem::malformed("If-Match has no effect on this request. Send it without the header."));
        }
        let if_none_match = tags(headers, &IF_NONE_MATCH)?;
        let is_new = if_none_match.as_ref().is_some_and(|tags| tags.iter().any(|tag| tag == "*"));
        if !reads && if_none_match.is_some() && !(route.conditional && is_new) {
            let reason = "If-None-Match has no effect on this request, except for * on a route with an ETag. Send it \
                          without the header.";
            return Err(ApiProblem::malformed(reason));
        }
        let if_match = if_match.map(|tags| tags.into_iter().filter(|tag| tag != "*").collect());
        Ok(Self { if_match, is_new })
    }
}

/// Returns the entity tags of a header, as written. A weak tag is kept, and equals no tag of the API.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>, ApiProblem> {
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        let text = value.to_str().map_err(|_| ApiProblem::malformed(format!("The header {name} is malformed.")))?;
        tags.extend(text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned));
    }
    let is_valid = |tag: &String| {
        let quoted = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || (quoted.len() >= 2 && quoted.starts_with('"') && quoted.ends_with('"'))
    };
    let is_empty = tags.is_empty() && headers.contains_key(name);
    if is_empty || !tags.iter().all(is_valid) || (tags.len() > 1 && tags.iter().any(|tag| tag == "*")) {
        return Err(ApiProblem::malformed(format!("The header {name} is malformed; write an ETag in quotes, or *.")));
    }
    Ok(Some(tags).filter(|_| headers.contains_key(name)))
}

/// Request to the API whose token has the scope of the route.
struct Call<'a> {
    ctx: &'a RequestContext<'a>,
    /// State for this request. Its store refuses commits that the token does not permit.
    sealgate: &'a Sealgate,
    token: &'a ApiToken,
    /// Decoded parameters of the path.
    parameters: Vec<String>,
    query: RequestMembers,
    body: RequestMembers,
    conditions: Conditions,
}

impl Call<'_> {
    fn context(&self) -> CommandContext<'_> {
        let origin = &self.ctx.origin;
        CommandContext::new(self.sealgate).by_api_token(self.token, origin.address, &origin.request_id)
    }

    /// Executes a command.
    async fn execute(&self, command: Command) -> Result<Answer, ApiProblem> {
        admin::execute(&self.context(), command).await.map_err(|error| self.failed(error))
    }

    /// Executes a command and returns its answer with this status, as the command line prints it.
    async fn command(&self, command: Command) -> Result<Reply, ApiProblem> {
        let answer = self.execute(command).await?;
        Ok(match answer {
            Answer::Page(page) => Reply::json(StatusCode::OK, &objects::page(&page)),
            answer => Reply::json(StatusCode::OK, &answer.members()),
        })
    }

    /// Returns the response for a failed command. A token without `admins:write` cannot change users
    /// with a console role.
    fn failed(&self, error: CommandError) -> ApiProblem {
        match error {
            CommandError::Store(StoreError::NotPermitted) if !self.token.has(ApiScope::AdminsWrite) => {
                ApiProblem::insufficient_scope(ApiScope::AdminsWrite)
            }
            error => error.into(),
        }
    }

    /// Returns the parameter of the path with this number.
    fn parameter(&self, number: usize) -> &str {
        self.parameters.get(number).map_or("", String::as_str)
    }

    /// Returns the user that a parameter of the path names.
    ///
    /// # Errors
    /// 404 if the text cannot name a user.
    fn user(&self, number: usize) -> Result<UserRef, ApiProblem> {
        let text = self.parameter(number);
        UserRef::parse(text)
            .ok_or_else(|| ApiProblem::not_found(format!("{text:?} is not an ID, address or username.")))
    }

    /// Checks the conditions against the entity tag of the object. `None` if there is no object.
    ///
    /// # Errors
    /// 412 if they do not hold.
    fn check(&self, current: Option<&str>) -> Result<(), ApiProblem> {
        let is_matched = match &self.conditions.if_match {
            None => true,
            Some(tags) => current.is_some_and(|current| tags.is_empty() || tags.iter().any(|tag| tag == current)),
        };
        if is_matched && !(self.conditions.is_new && current.is_some()) {
            Ok(())
        } else {
            Err(ApiProblem::precondition_failed())
        }
    }
}

/// Successful response.
#[derive(Clone)]
struct Reply {
    status: StatusCode,
    body: Vec<u8>,
    etag: Option<String>,
    /// Path of a new object, below the issuer's path.
    location: Option<String>,
}

impl Reply {
    fn json(status: StatusCode, value: &impl Serialize) -> Self {
        // Answers have string keys and no failing serializers.
        let body = serde_json::to_vec(value).unwrap_or_default();
        Self { status, body, etag: None, location: None }
    }

    /// Returns the response with one object and its entity tag.
    fn object(value: &impl Serialize) -> Self {
        let reply = Self::json(StatusCode::OK, value);
        Self { etag: Some(etag_of(&reply.body)), ..reply }
    }

    /// Returns the response for a token that cannot read the object. It has no body, or only the secret
    /// that the request has created, which no other request returns.
    fn without_object(self) -> Self {
        let mut members: Map<String, Value> = serde_json::from_slice(&self.body).unwrap_or_default();
        if NEW_SECRETS.iter().any(|name| members.contains_key(*name)) {
            members.retain(|name, _| NEW_SECRETS.contains(&name.as_str()) || OF_NEW_SECRETS.contains(&name.as_str()));
            return Self { location: self.location, ..Self::json(self.status, &members) };
        }
        let status = if self.status == StatusCode::OK { StatusCode::NO_CONTENT } else { self.status };
        Self { status, location: self.location, ..Self::nothing() }
    }

    fn nothing() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: Vec::new(), etag: None, location: None }
    }

    fn into_response(self, head: &Parts) -> Response {
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        let is_known = self.etag.as_ref().filter(|_| reads).is_some_and(|etag| {
            let known = tags(&head.headers, &IF_NONE_MATCH).ok().flatten().unwrap_or_default();
            known.iter().any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
        });
        let mut response = if is_known {
            Response::empty(StatusCode::NOT_MODIFIED)
        } else if self.body.is_empty() {
            Response::empty(self.status)
        } else {
            Response::empty(self.status).body(self.body).with(CONTENT_TYPE, "application/json")
        };
        if let Some(etag) = &self.etag {
            response = response.with(ETAG, etag);
        }
        match &self.location {
            Some(location) => response.with(LOCATION, location),
            None => response,
        }
    }
}

/// Returns the strong entity tag of a representation: a digest of its bytes.
fn etag_of(body: &[u8]) -> String {
    let digest = SecretHash::for_secret(body);
    format!("\"{}\"", base64url(&digest.as_bytes()[..16]))
}

/// Returns the entity tag of an object, as [`Reply::object`] computes it.
fn etag(value: &impl Serialize) -> String {
    etag_of(&serde_json::to_vec(value).unwrap_or_default())
}

/// Returns the members of a JSON object, to be used as the body of a response.
fn members(answer: &Answer) -> Value {
    serde_json::to_value(answer.members()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_decoded_once_and_is_never_a_dot_segment() {
        for (segment, text) in [
            ("anna", "anna"),
            ("a%40b", "a@b"),
            ("a%2Fb", "a/b"),
            ("%252e", "%2e"),
            ("%C5%9Fule", "şule"),
            ("a%20b", "a b"),
        ] {
            assert_eq!(decoded(segment).as_deref(), Some(text), "{segment}");
        }
        for segment in ["", ".", "..", "%2e", "%2E%2e", ".%2e", "%", "%4", "%zz", "%ff", "a%00", "a%0a"] {
            assert_eq!(decoded(segment), None, "{segment}");
        }
    }

    #[test]
    fn conditions_are_entity_tags_in_quotes_or_a_star() {
        let route = ROUTES.iter().find(|route| route.conditional && route.method == Method::PATCH).unwrap();
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_MATCH, value.parse().unwrap());
            Conditions::read(&headers, route).map(|conditions| conditions.if_match)
        };
        assert_eq!(read("\"a\", \"b\"").unwrap(), Some(vec!["\"a\"".to_owned(), "\"b\"".to_owned()]));
        assert_eq!(read("*").unwrap(), Some(Vec::new()));
        for wrong in ["", ",", "a", "\"", "\"a\", *", "W/a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
