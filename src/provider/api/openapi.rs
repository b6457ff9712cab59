//! Description of the admin API: an `OpenAPI` 3.1 document, made from [`ROUTES`].

use std::sync::{PoisonError, RwLock};

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::problem::ApiProblem;
use super::routes::{ApiRoute, ROUTES, Shape};
use super::{MAX_BODY_BYTES, NEW_SECRETS, PATH, Reply, body, is_parameter};
use sealgate_config::Config;
use sealgate_domain::api_token::ApiScope;

/// Name of the security scheme.
const SCHEME: &str = "token";

/// Issuer and response of the last request. Clients need no token for the document, and it takes a
/// millisecond to write.
static LAST: RwLock<Option<(String, Reply)>> = RwLock::new(None);

/// Returns the document as a response.
pub(super) fn document(config: &Config) -> Reply {
    let issuer = config.issuer.as_str();
    let last = LAST.read().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, reply)) = last.as_ref().filter(|(known, _)| known == issuer) {
        return reply.clone();
    }
    drop(last);
    let reply = Reply::object(&describe(config));
    *LAST.write().unwrap_or_else(PoisonError::into_inner) = Some((issuer.to_owned(), reply.clone()));
    reply
}

fn describe(config: &Config) -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(format!("/{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sealgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!(
                "The commands of sealgate for programs. Bodies have at most {MAX_BODY_BYTES} bytes. If-Match and \
                 If-None-Match are refused where the operation does not list them, except for If-None-Match of GET."
            ),
        },
        "servers": [{ "url": format!("{}{}", config.issuer.as_str(), PATH.trim_end_matches('/')) }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                SCHEME: { "type": "http", "scheme": "bearer", "description": "Token that an administrator created" },
            },
            "schemas": { "Problem": ApiProblem::schema(), "NewSecret": new_secret() },
        },
    })
}

fn operation(route: &ApiRoute) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses(route),
        "security": route.scope.map_or(json!([]), |scope| json!([{ SCHEME: [scope] }])),
    });
    if let Some(fields) = route.body {
        let is_optional = route.required.is_empty() && route.method == Method::POST;
        operation["requestBody"] = json!({
            "required": !is_optional,
            "content": { "application/json": { "schema": body::schema(fields, route.required) } },
        });
    }
    operation
}

fn operation_id(route: &ApiRoute) -> String {
    let words = route.path.split(['/', '-', '.']).map(|word| word.trim_matches(['{', '}']));
    let words: Vec<&str> = words.collect();
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), words.join("_"))
}

fn parameters(route: &ApiRoute) -> Vec<Value> {
    let path = route.path.split('/').filter(|segment| is_parameter(segment)).map(|segment| {
        json!({
            "name": segment.trim_matches(['{', '}']), "in": "path", "required": true, "schema": { "type": "string" },
        })
    });
    let query = route.query.iter().map(|field| {
        json!({
            "name": field.name,
            "in": "query",
            "required": false,
            "description": field.about,
            "schema": field.kind.schema(),
        })
    });
    let conditions: &[(&str, &str)] = match (route.conditional, route.method) {
        (false, _) => &[],
        (true, &Method::GET) => &[("If-None-Match", "Entity tag of a known version")],
        (true, &Method::PUT) => {
            &[("If-Match", "Entity tag of the version to replace"), ("If-None-Match", "`*`: only create")]
        }
        (true, _) => &[("If-Match", "Entity tag of the version to change")],
    };
    let conditions = conditions.iter().map(|(name, about)| {
        let creates_only = *name == "If-None-Match" && route.method == Method::PUT;
        let pattern = if creates_only { "^\\*$" } else { "^(\\*|\"[A-Za-z0-9_-]*\")$" };
        json!({
            "name": name, "in": "header", "required": false, "description": about,
            "schema": { "type": "string", "pattern": pattern },
        })
    });
    path.chain(query).chain(conditions).collect()
}

fn responses(route: &ApiRoute) -> Value {
    let mut responses = Map::new();
    let mut add = |status: StatusCode, response: Value| {
        responses.insert(status.as_u16().to_string(), response);
    };
    let json_of = |about: &str, schema: Value| json!({ "description": about, "content": { "application/json": { "schema": schema } } });
    // A token without the scope to read the object sees only what no other request returns.
    let reading = route.scope.filter(|scope| scope.reading() != *scope).map(ApiScope::reading);
    let changed = |about: &str, schema: Value| match reading {
        Some(reading) => {
            let about = format!("{about}. Without the scope {reading}: only a new secret");
            json_of(&about, json!({ "anyOf": [schema, { "$ref": "#/components/schemas/NewSecret" }] }))
        }
        None => json_of(about, schema),
    };
    match route.shape {
        Shape::Nothing => add(StatusCode::NO_CONTENT, json!({ "description": "Done" })),
        Shape::Outcome(schema) => add(StatusCode::OK, json_of("What the request has done", schema())),
        Shape::Object(schema) => add(StatusCode::OK, changed("The object", schema())),
        Shape::Put(schema) => {
            add(StatusCode::OK, changed("The changed object", schema()));
            add(StatusCode::CREATED, changed("The new object; without the scope and a new secret, no body", schema()));
        }
        Shape::List(name, schema) => {
            let list = json!({
                "type": "object",
                "properties": {
                    name: { "type": "array", "items": schema() },
                    "next": { "type": ["string", "null"], "description": "Cursor of the next page" },
                },
                "required": [name, "next"],
            });
            add(StatusCode::OK, json_of("A page", list));
        }
    }
    if let (Shape::Object(_) | Shape::Put(_), Some(reading)) = (route.shape, reading) {
        let about = format!("Done. The token lacks the scope {reading}, and the request has created no secret");
        add(StatusCode::NO_CONTENT, json!({ "description": about }));
    }
    if route.conditional && route.method == Method::GET {
        add(StatusCode::NOT_MODIFIED, json!({ "description": "The object has this entity tag" }));
    }
    let problem = json!({ "$ref": "#/components/schemas/Problem" });
    for status in problems(route) {
        let about = status.canonical_reason().unwrap_or_default();
        let content = json!({ "application/problem+json": { "schema": problem } });
        add(status, json!({ "description": about, "content": content }));
    }
    Value::Object(responses)
}

/// Returns the schema of an answer for a token that cannot read the object.
fn new_secret() -> Value {
    let text = |name: &&str| ((*name).to_owned(), json!({ "type": "string" }));
    let mut properties: Map<String, Value> = NEW_SECRETS.iter().map(text).collect();
    properties.insert("sub".to_owned(), json!({ "type": "string", "format": "uuid" }));
    properties.insert("client_id".to_owned(), json!({ "type": "string" }));
    properties.insert("link_expires_at".to_owned(), json!({ "type": "integer", "minimum": 0 }));
    let one_of: Vec<Value> = NEW_SECRETS.iter().map(|name| json!({ "required": [name] })).collect();
    json!({
        "type": "object",
        "description": "A secret that no other request returns, with the ID of its object",
        "properties": properties,
        "anyOf": one_of,
        "additionalProperties": false,
    })
}

/// Returns the error statuses of a route.
fn problems(route: &ApiRoute) -> Vec<StatusCode> {
    let mut statuses = vec![StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    if route.scope.is_some() {
        statuses.extend([StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN]);
    }
    if route.path.contains('{') || !route.query.is_empty() {
        statuses.push(StatusCode::NOT_FOUND);
    }
    let changes = route.method != Method::GET;
    if changes {
        statuses.extend([StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY]);
    }
    if route.body.is_some() {
        statuses.extend([StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNSUPPORTED_MEDIA_TYPE]);
    }
    if route.conditional && changes {
        statuses.push(StatusCode::PRECONDITION_FAILED);
    }
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_route_has_a_description_of_its_own() {
        let mut ids = HashSet::new();
        for route in ROUTES {
            assert!(ids.insert(operation_id(route)), "{}", route.path);
            assert!(!route.summary.is_empty() && !route.path.starts_with('/'), "{}", route.path);
            assert!(
                route
                    .required
                    .iter()
                    .all(|name| { route.body.is_some_and(|fields| fields.iter().any(|field| field.name == *name)) })
            );
            let fields = route.body.iter().copied().flatten().chain(route.query);
            assert!(fields.into_iter().all(|field| !field.about.is_empty()), "{}", route.path);
            // Only the description may be read without a token, and only a reading scope may not change.
            assert_eq!(route.scope.is_none(), route.path == "openapi.json");
            let reads = route.scope.is_none_or(|scope| scope.as_str().ends_with(":read"));
            assert!(reads == (route.method == Method::GET) || route.path == "check-access", "{}", route.path);
        }
    }
}
