//! A browser without scripts: keeps cookies, follows redirects within the provider, fills in forms.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Request, header};

use super::provider::encode;
use super::{PASSWORD, Provider, Reply};

/// A browser with its own cookies.
pub(crate) struct Browser<'a> {
    provider: &'a Provider,
    cookies: RefCell<BTreeMap<String, String>>,
    /// Its address.
    pub(crate) address: String,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(provider: &'a Provider) -> Self {
        Self { provider, cookies: RefCell::default(), address: "192.0.2.1".into() }
    }

    /// The value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.borrow().get(name).cloned()
    }

    /// Sets a cookie, as an attacker or a test may.
    pub(crate) fn set_cookie(&self, name: &str, value: &str) {
        self.cookies.borrow_mut().insert(name.into(), value.into());
    }

    /// All of them, as a request carries them.
    pub(crate) fn cookies(&self) -> String {
        let cookies: Vec<String> =
            self.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
        cookies.join("; ")
    }

    pub(crate) async fn send(&self, request: http::request::Builder, body: String) -> Reply {
        let cookies = self.cookies();
        let mut request = request.header(header::HOST, "id.test");
        if !cookies.is_empty() {
            request = request.header(header::COOKIE, cookies);
        }
        let reply = self.provider.send_from(&self.address, request.body(Bytes::from(body)).unwrap()).await;
        for cookie in reply.headers("set-cookie") {
            let (pair, attributes) = cookie.split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if attributes.contains("Max-Age=0") {
                self.cookies.borrow_mut().remove(name);
            } else {
                self.cookies.borrow_mut().insert(name.into(), value.into());
            }
        }
        reply
    }

    /// A GET of one address, redirects not followed.
    pub(crate) async fn get(&self, address: &str) -> Reply {
        // What a browser says of a page that its user opens.
        self.get_with(address, &[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]).await
    }

    /// A GET with these header fields, redirects not followed.
    pub(crate) async fn get_with(&self, address: &str, fields: &[(&str, &str)]) -> Reply {
        let request = Request::get(address);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.send(request, String::new()).await
    }

    /// A form by POST, redirects not followed.
    pub(crate) async fn post(&self, address: &str, fields: &[(&str, &str)]) -> Reply {
        let request = Request::post(address).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request, encode(fields)).await
    }

    /// Follows redirects while they stay with the provider; yields the first page, or the redirect that leaves.
    pub(crate) async fn follow(&self, mut reply: Reply) -> Reply {
        for _ in 0..10 {
            match reply.header("location") {
                Some(location) if location.starts_with('/') => reply = self.get(location).await,
                _ => return reply,
            }
        }
        panic!("the redirects do not end: {reply:?}");
    }

    /// Opens an authorization request and follows it to the first page, or to the redirect that leaves.
    pub(crate) async fn open(&self, address: &str) -> Reply {
        let reply = self.get(address).await;
        self.follow(reply).await
    }

    /// Sends a page's form, its hidden fields and these ones; follows to the next page or out.
    pub(crate) async fn submit(&self, page: &Reply, fields: &[(&str, &str)]) -> Reply {
        let reply = self.submit_only(page, fields).await;
        self.follow(reply).await
    }

    /// The same, without following.
    pub(crate) async fn submit_only(&self, page: &Reply, fields: &[(&str, &str)]) -> Reply {
        let html = page.text();
        let mut all: Vec<(String, String)> = hidden_fields(html);
        all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.post(&form_action(html), &all).await
    }

    /// Signs in on a sign-in page.
    pub(crate) async fn sign_in(&self, page: &Reply, email: &str) -> Reply {
        assert!(is_login(page), "not a sign-in page: {page:?}");
        self.submit(page, &[("email", email), ("password", PASSWORD)]).await
    }

    /// Allows on a consent page, offline access included where it is asked for.
    pub(crate) async fn allow(&self, page: &Reply) -> Reply {
        assert!(is_consent(page), "not a consent page: {page:?}");
        let mut fields = vec![("consent-allow", "yes")];
        if page.text().contains("name=\"offline_access\"") {
            fields.push(("offline_access", "true"));
        }
        self.submit(page, &fields).await
    }

    /// Goes all the way from an authorization request to the redirect that leaves, signing in and allowing as asked.
    pub(crate) async fn authorize(&self, address: &str, email: &str) -> Reply {
        let mut page = self.open(address).await;
        for _ in 0..4 {
            if is_login(&page) {
                page = self.sign_in(&page, email).await;
            } else if is_consent(&page) {
                page = self.allow(&page).await;
            } else {
                break;
            }
        }
        page
    }
}

/// Whether this is the sign-in page.
pub(crate) fn is_login(page: &Reply) -> bool {
    page.header("location").is_none() && page.text().contains("id=\"login-submit\"")
}

/// Whether this is the consent page.
pub(crate) fn is_consent(page: &Reply) -> bool {
    page.header("location").is_none() && page.text().contains("id=\"consent-allow\"")
}

/// The value of an attribute in a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = &tag[start..start + tag[start..].find('"')?];
    let plain = value.replace("&#38;", "&").replace("&#34;", "\"").replace("&#60;", "<").replace("&#62;", ">");
    Some(
        plain
            .replace("&quot;", "\"")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&#39;", "'")
            .replace("&amp;", "&"),
    )
}

fn tags<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    html.split('<').filter(|tag| tag.starts_with(name)).collect()
}

/// Where a page's form goes.
pub(crate) fn form_action(html: &str) -> String {
    let forms = tags(html, "form ");
    attribute(forms.first().expect("a form"), "action").expect("an action")
}

/// The hidden fields of a page's form.
pub(crate) fn hidden_fields(html: &str) -> Vec<(String, String)> {
    tags(html, "input ")
        .into_iter()
        .filter(|tag| tag.contains("type=\"hidden\""))
        .map(|tag| (attribute(tag, "name").unwrap(), attribute(tag, "value").unwrap_or_default()))
        .collect()
}
