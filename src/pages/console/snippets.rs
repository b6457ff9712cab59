//! Configuration snippets with a client's values, for tested client libraries and for a shell.
//!
//! A snippet never contains the secret. It reads the secret from the environment.

use askama::Template;

use super::form::ClientForm;
use crate::html;
use sealgate_domain::scope::{Scope, ScopeValue};

/// Client library, server or shell with a code example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    OpenidClient,
    OidcClientTs,
    /// Auth.js in Express.
    Authjs,
    Authlib,
    SpringBoot,
    AspnetCore,
    /// go-oidc with x/oauth2.
    GoOidc,
    /// `mod_auth_openidc`, for Apache.
    ModAuthOpenidc,
    /// oauth2-proxy.
    Oauth2Proxy,
    Openidconnect,
    /// curl in a shell, step by step.
    Curl,
}

impl Library {
    /// All libraries, in the order in which the page lists them.
    pub const ALL: [Self; 11] = [
        Self::OpenidClient,
        Self::OidcClientTs,
        Self::Authjs,
        Self::Authlib,
        Self::SpringBoot,
        Self::AspnetCore,
        Self::GoOidc,
        Self::ModAuthOpenidc,
        Self::Oauth2Proxy,
        Self::Openidconnect,
        Self::Curl,
    ];

    /// Returns the library with this value of the query parameter `library`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.as_str() == text)
    }

    /// Returns the value of the query parameter `library`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OpenidClient => "openid-client",
            Self::OidcClientTs => "oidc-client-ts",
            Self::Authjs => "authjs",
            Self::Authlib => "authlib",
            Self::SpringBoot => "spring-boot",
            Self::AspnetCore => "aspnet-core",
            Self::GoOidc => "go-oidc",
            Self::ModAuthOpenidc => "mod_auth_openidc",
            Self::Oauth2Proxy => "oauth2-proxy",
            Self::Openidconnect => "openidconnect",
            Self::Curl => "curl",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenidClient => "openid-client (Node)",
            Self::OidcClientTs => "oidc-client-ts (browser)",
            Self::Authjs => "Auth.js (Node)",
            Self::Authlib => "Authlib (Python)",
            Self::SpringBoot => "Spring Boot (Java)",
            Self::AspnetCore => "ASP.NET Core",
            Self::GoOidc => "go-oidc (Go)",
            Self::ModAuthOpenidc => "mod_auth_openidc (Apache)",
            Self::Oauth2Proxy => "oauth2-proxy",
            Self::Openidconnect => "openidconnect (Rust)",
            Self::Curl => "curl (bash)",
        }
    }

    fn filled(self, values: &Values<'_>) -> Snippet {
        let text = match self {
            Self::OpenidClient => html(&OpenidClient { values }),
            Self::OidcClientTs => html(&OidcClientTs { values }),
            Self::Authjs => html(&Authjs { values }),
            Self::Authlib => html(&Authlib { values }),
            Self::SpringBoot => html(&SpringBoot { values }),
            Self::AspnetCore => html(&AspnetCore { values }),
            Self::GoOidc => html(&GoOidc { values }),
            Self::ModAuthOpenidc => html(&ModAuthOpenidc { values }),
            Self::Oauth2Proxy => html(&Oauth2Proxy { values }),
            Self::Openidconnect => html(&Openidconnect { values }),
            Self::Curl => html(&Curl { values }),
        };
        Snippet { library: self, id: format!("snippet-{self:?}").to_ascii_lowercase(), text }
    }

    /// Returns whether the library supports this client type. Libraries in browsers have no secret,
    /// and libraries on servers have one.
    pub(super) fn fits(self, public: bool) -> bool {
        match self {
            Self::OpenidClient | Self::Openidconnect | Self::GoOidc | Self::Curl => true,
            Self::OidcClientTs => public,
            Self::Authjs
            | Self::Authlib
            | Self::SpringBoot
            | Self::AspnetCore
            | Self::ModAuthOpenidc
            | Self::Oauth2Proxy => !public,
        }
    }
}

pub(super) struct Snippet {
    pub(super) library: Library,
    pub(super) id: String,
    pub(super) text: String,
}

impl Snippet {
    /// Returns the snippet for a library. If the library does not support the client type, returns
    /// the snippet for the first one that does.
    pub(super) fn new(library: Option<Library>, issuer: &str, id: &str, form: &ClientForm) -> Self {
        let first = |uris: &str| uris.lines().next().unwrap_or_default().to_owned();
        let values = Values {
            issuer,
            id,
            redirect_uri: first(&form.redirect_uris),
            logout_uri: first(&form.post_logout_redirect_uris),
            scope: [ScopeValue::OpenId].into_iter().collect::<Scope>().union(form.scope).to_string(),
            public: form.public,
            in_body: form.secret_in_body,
        };
        library.filter(|library| library.fits(form.public)).unwrap_or(Library::OpenidClient).filled(&values)
    }
}

/// Values of a snippet. The registration has checked that they contain no quotes or backslashes.
struct Values<'a> {
    issuer: &'a str,
    id: &'a str,
    redirect_uri: String,
    logout_uri: String,
    scope: String,
    public: bool,
    in_body: bool,
}

impl Values<'_> {
    /// Returns whether the issuer does not use TLS. This is only possible on the developer's own
    /// machine. Some libraries need an option for such an issuer.
    fn is_insecure(&self) -> bool {
        self.issuer.starts_with("http:")
    }

    /// Returns the percent-encoded redirect URI. A URI may contain `'` and `$`, which a shell would
    /// interpret.
    fn encoded_redirect_uri(&self) -> String {
        url::form_urlencoded::byte_serialize(self.redirect_uri.as_bytes()).collect()
    }

    /// Returns the scope as a list in YAML.
    fn scope_list(&self) -> String {
        self.scope.replace(' ', ", ")
    }

    fn redirect_origin(&self) -> &str {
        split_path(&self.redirect_uri).0
    }

    fn redirect_path(&self) -> &str {
        split_path(&self.redirect_uri).1
    }

    fn logout_path(&self) -> &str {
        split_path(&self.logout_uri).1
    }

    fn encoded_scope(&self) -> String {
        url::form_urlencoded::byte_serialize(self.scope.as_bytes()).collect()
    }
}

/// Splits a URI into the origin and the path without the query. The path is at least a slash.
fn split_path(uri: &str) -> (&str, &str) {
    let start = uri.find("://").map_or(0, |scheme| scheme + 3);
    let path = uri.get(start..).and_then(|rest| rest.find('/')).map_or(uri.len(), |slash| start + slash);
    let (origin, rest) = uri.split_at(path);
    let path = rest.split('?').next().unwrap_or_default();
    (origin, if path.is_empty() { "/" } else { path })
}

#[derive(Template)]
#[template(path = "snippets/openid-client.txt")]
struct OpenidClient<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/oidc-client-ts.txt")]
struct OidcClientTs<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/authlib.txt")]
struct Authlib<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/mod_auth_openidc.txt")]
struct ModAuthOpenidc<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/oauth2-proxy.txt")]
struct Oauth2Proxy<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/openidconnect.txt")]
struct Openidconnect<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/curl.txt")]
struct Curl<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/authjs.txt")]
struct Authjs<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/spring-boot.txt")]
struct SpringBoot<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/aspnet-core.txt")]
struct AspnetCore<'a> {
    values: &'a Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/go-oidc.txt")]
struct GoOidc<'a> {
    values: &'a Values<'a>,
}
