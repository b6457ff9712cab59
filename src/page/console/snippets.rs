//! Ready pieces for the client libraries that we test with, and for a shell, filled with a client's values. The secret is
//! never among them: they read it from the environment.

use askama::Template;

use super::ClientPage;
use crate::page::rendered;

/// A client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// openid-client, for Node.
    OpenidClient,
    /// oidc-client-ts, for browsers.
    OidcClientTs,
    /// Authlib, for Python.
    Authlib,
    /// `mod_auth_openidc`, for Apache.
    ModAuthOpenidc,
    /// oauth2-proxy.
    Oauth2Proxy,
    /// The openidconnect crate, for Rust.
    Openidconnect,
    /// curl in a shell, step by step.
    Curl,
}

impl Library {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::OpenidClient,
        Self::OidcClientTs,
        Self::Authlib,
        Self::ModAuthOpenidc,
        Self::Oauth2Proxy,
        Self::Openidconnect,
        Self::Curl,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
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

    /// Whether it can be a client of this kind: one that runs in browsers has no secret, a server's has one.
    fn fits(self, public: bool) -> bool {
        match self {
            Self::OpenidClient | Self::Openidconnect | Self::Curl => true,
            Self::OidcClientTs => public,
            Self::Authlib | Self::ModAuthOpenidc | Self::Oauth2Proxy => !public,
        }
    }
}

/// A filled piece.
pub(super) struct Snippet {
    pub(super) name: &'static str,
    pub(super) id: String,
    pub(super) text: String,
}

impl Snippet {
    /// The piece for a library, if it can be such a client.
    pub(super) fn of(library: Library, page: &ClientPage<'_>) -> Option<Self> {
        let form = &page.form;
        let first = |uris: &str| uris.lines().next().unwrap_or_default().to_owned();
        let values = Values {
            issuer: page.issuer,
            id: page.id,
            redirect_uri: first(form.redirect_uris),
            logout_uri: first(form.post_logout_redirect_uris),
            scope: std::iter::once("openid").chain(form.scopes.iter().copied()).collect::<Vec<_>>().join(" "),
            public: form.public,
            in_body: form.secret_in_body,
        };
        let text = match library {
            Library::OpenidClient => rendered(&OpenidClient { values }),
            Library::OidcClientTs => rendered(&OidcClientTs { values }),
            Library::Authlib => rendered(&Authlib { values }),
            Library::ModAuthOpenidc => rendered(&ModAuthOpenidc { values }),
            Library::Oauth2Proxy => rendered(&Oauth2Proxy { values }),
            Library::Openidconnect => rendered(&Openidconnect { values }),
            Library::Curl => rendered(&Curl { values }),
        };
        let id = format!("snippet-{library:?}").to_ascii_lowercase();
        library.fits(form.public).then(|| Self { name: library.name(), id, text })
    }
}

/// What a piece is filled with. All of it was checked when it was registered: no quotes, no backslashes.
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
    /// Whether the issuer has no TLS, which only happens on the developer's own machine; some libraries want to be told.
    fn is_insecure(&self) -> bool {
        self.issuer.starts_with("http:")
    }

    /// Percent-encoded, so that a shell takes no part of it for its own: a URI may have `'` and `$`.
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
    values: Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/oidc-client-ts.txt")]
struct OidcClientTs<'a> {
    values: Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/authlib.txt")]
struct Authlib<'a> {
    values: Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/mod_auth_openidc.txt")]
struct ModAuthOpenidc<'a> {
    values: Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/oauth2-proxy.txt")]
struct Oauth2Proxy<'a> {
    values: Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/openidconnect.txt")]
struct Openidconnect<'a> {
    values: Values<'a>,
}

#[derive(Template)]
#[template(path = "snippets/curl.txt")]
struct Curl<'a> {
    values: Values<'a>,
}
