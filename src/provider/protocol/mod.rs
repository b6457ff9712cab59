//! The endpoints of OAuth 2.0 and OpenID Connect.

pub(crate) mod authorize;
pub(crate) mod client_assertion;
pub(crate) mod client_auth;
pub(crate) mod client_credentials;
pub(crate) mod client_document;
pub(crate) mod discovery;
pub(crate) mod introspect;
pub(crate) mod logout;
pub(crate) mod register;
pub(crate) mod revoke;
pub(crate) mod token;
pub(crate) mod upstream_logout;
pub(crate) mod userinfo;
