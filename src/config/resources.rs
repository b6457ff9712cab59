//! Resources of an installation (RFC 8707): the applications that declare scopes, or that refuse
//! tokens for the issuer.

use serde::Serialize;

use super::app::{App, Route};
use super::app_hosts::AppHosts;
use super::settings::Config;
use sealgate_domain::language::Language;
use sealgate_domain::oauth::introspection::IntrospectionAccess;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::resource::{DeclaredResource, FoundResource, ResourceAccess, Resources};
use sealgate_domain::service::ServiceAccess;

/// Scope of an application, with its texts for the consent page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppScope {
    pub name: String,
    pub english: String,
    pub turkish: String,
}

impl AppScope {
    /// Returns the text in this language.
    pub fn text(&self, language: Language) -> &str {
        match language {
            Language::English => &self.english,
            Language::Turkish => &self.turkish,
        }
    }
}

impl App {
    /// Returns the routes of this path that are a resource of their own, by the path of the resource
    /// identifier.
    pub fn resource_routes(&self, path: &str) -> impl Iterator<Item = &Route> {
        self.routes.iter().filter(move |route| route.resource_path() == Some(path))
    }

    /// Returns whether clients can request tokens for this application.
    pub fn is_resource(&self) -> bool {
        !self.scopes.is_empty() || !self.issuer_audience
    }
}

impl Config {
    /// Returns the algorithm of access tokens for this resource. RS256 without a resource.
    pub fn access_token_alg(&self, resource: Option<&ResourceAccess>) -> Algorithm {
        let app = resource.and_then(|resource| self.app_at_origin(&resource.id));
        app.map(|app| app.alg).unwrap_or_default()
    }

    /// Returns the application at this public origin.
    pub fn app_at_origin(&self, origin: &str) -> Option<&App> {
        let exact = self.apps.iter().find(|app| app.origin(&self.issuer).as_deref() == Some(origin));
        exact.or_else(|| {
            let (_, authority) = origin.split_once("://")?;
            let app = self.apps.get(AppHosts::from_config(self).app(authority)?)?;
            let host = app.covered_host(authority)?;
            (app.origin_at(&self.issuer, Some(&host)) == origin).then_some(app)
        })
    }
}

impl Config {
    /// Returns the application of a resource: the application at the origin, or the application with
    /// a route that is a resource of its own.
    pub fn app_of_resource(&self, id: &str) -> Option<&App> {
        let (origin, path) = split_path(id);
        let app = self.app_at_origin(origin)?;
        (path.is_empty() || app.resource_routes(path).next().is_some()).then_some(app)
    }
}

/// Splits a resource identifier into the origin and the path. The path is empty or starts with a
/// slash.
fn split_path(id: &str) -> (&str, &str) {
    let start = id.find("://").map_or(0, |at| at + 3);
    let end = id.get(start..).and_then(|rest| rest.find('/')).map_or(id.len(), |at| start + at);
    id.split_at(end)
}

/// Returns why a client cannot have this access to applications. `None` if it can.
pub fn service_problem(apps: &[App], service: &ServiceAccess) -> Option<String> {
    service.apps.iter().find_map(|(name, scopes)| {
        let Some(app) = apps.iter().find(|app| app.name == *name) else {
            return Some(format!("{name:?} is not an application; write the name of an [[app]]"));
        };
        if !app.is_resource() {
            return Some(format!(
                "the application {name} is not a resource, so there are no tokens for it; set its scopes, or \
                 issuer_audience = false"
            ));
        }
        let declared = |scope: &&String| app.scopes.iter().any(|declared| declared.name == **scope);
        let unknown = scopes.iter().find(|scope| !declared(scope))?;
        let known: Vec<_> = app.scopes.iter().map(|scope| scope.name.as_str()).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        Some(format!("the application {name} does not declare the scope {unknown:?}; {known}"))
    })
}

/// Returns why a client cannot introspect the tokens of these applications. `None` if it can.
pub fn introspection_problem(apps: &[App], access: &IntrospectionAccess) -> Option<String> {
    access.apps.iter().find_map(|name| match apps.iter().find(|app| app.name == *name) {
        None => Some(format!("{name:?} is not an application; write the name of an [[app]]")),
        Some(app) if !app.is_resource() => Some(format!(
            "the application {name} is not a resource, so there are no tokens for it; set its scopes, or \
             issuer_audience = false"
        )),
        Some(_) => None,
    })
}

impl Resources for Config {
    fn has_any(&self) -> bool {
        self.apps.iter().any(App::is_resource)
    }

    /// Clients may write the identifier with a slash at its end, as URL libraries do. All other
    /// characters must match.
    fn find(&self, id: &str) -> FoundResource {
        let id = id.strip_suffix('/').unwrap_or(id);
        match self.app_of_resource(id) {
            Some(app) if app.is_resource() => FoundResource::Declared(DeclaredResource {
                app: app.name.clone(),
                id: id.to_owned(),
                scopes: app.scopes.iter().map(|scope| scope.name.clone()).collect(),
                // Clients of the Model Context Protocol send no scope if they know none.
                all_by_default: app.agents,
                issuer_audience: app.issuer_audience,
                clients: app.clients.clone(),
                client_hosts: app.client_hosts.clone(),
            }),
            Some(_) => FoundResource::Undeclared,
            None => FoundResource::Unknown,
        }
    }

    fn declare_scope(&self, scope: &str) -> bool {
        self.apps.iter().flat_map(|app| &app.scopes).any(|declared| declared.name == scope)
    }
}
