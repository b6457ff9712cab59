//! Configuration snippets with a client's values, for tested client libraries and for a shell.
//!
//! A snippet never contains the secret. It reads the secret from the environment.

use askama::Template;

use super::form::ClientForm;
use crate::html;
use sealgate_domain::scope::{Scope, ScopeValue};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    OpenidClient,
    OidcClientTs,
    Authlib,
    /// `mod_auth_openidc`, for Apache.
    ModAuthOpenidc,
    /// oauth2-proxy.
    Oauth2Proxy,
    Openidconnect,
    /// curl in a shell, step by step.
    Curl,
}

impl Library {
    pub(crate) const ALL: [Self; 7] = [
        Self::OpenidClient,
        Self::OidcClientTs,
        Self::Authlib,
        Self::ModAuthOpenidc,
        Self::Oauth2Proxy,
        Self::Openidconnect,
        Self::Curl,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenidClient => "openid-client (Node)",
            Self::OidcClientTs => "oidc-client-ts (browser)",
            Self::Authlib => "Authlib (Python)",
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
            Self::Authlib => html(&Authlib { values }),
            Self::ModAuthOpenidc => html(&ModAuthOpenidc { values }),
            Self::Oauth2Proxy => html(&Oauth2Proxy { values }),
            Self::Openidconnect => html(&Openidconnect { values }),
            Self::Curl => html(&Curl { values }),
        };
        Snippet { name: self.name(), id: format!("snippet-{self:?}").to_ascii_lowercase(), text }
    }

    /// Returns whether the library supports this client type. Libraries in browsers have no secret,
    /// and libraries on servers have one.
    fn fits(self, public: bool) -> bool {
        match self {
            Self::OpenidClient | Self::Openidconnect | Self::Curl => true,
            Self::OidcClientTs => public,
            Self::Authlib | Self::ModAuthOpenidc | Self::Oauth2Proxy => !public,
        }
    }
}

pub(super) struct Snippet {
    pub(super) name: &'static str,
    pub(super) id: String,
    pub(super) text: String,
}

impl Snippet {
    /// Returns the snippets for all libraries that support the client type.
    pub(super) fn all(issuer: &str, id: &str, form: &ClientForm) -> Vec<Self> {
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
        Library::ALL
            .into_iter()
            .filter(|library| library.fits(form.public))
            .map(|library| library.filled(&values))
            .collect()
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

    fn encoded_scope(&self) -> String {
        url::form_urlencoded::byte_serialize(self.scope.as_bytes()).collect()
    }
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
