//! Browser without scripts: keeps cookies, follows redirects within the provider, fills in forms.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::{Request, header};

use super::provider::encode;
use super::{PASSWORD, Provider, Reply};

/// Browser with its own cookies.
pub(crate) struct Browser<'a> {
    provider: &'a Provider,
    cookies: RefCell<BTreeMap<String, String>>,
    /// Names of the cookies that stay when the browser is closed.
    lasting: RefCell<BTreeSet<String>>,
    /// IP address of the browser.
    pub(crate) address: String,
    /// `User-Agent` of its requests, if not empty.
    pub(crate) user_agent: &'static str,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(provider: &'a Provider) -> Self {
        Self {
            provider,
            cookies: RefCell::default(),
            lasting: RefCell::default(),
            address: "192.0.2.1".into(),
            user_agent: "",
        }
    }

    /// Returns the value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.borrow().get(name).cloned()
    }

    /// Sets a cookie, as an attacker or a test may.
    pub(crate) fn set_cookie(&self, name: &str, value: &str) {
        self.cookies.borrow_mut().insert(name.into(), value.into());
    }

    /// Returns all cookies as a `Cookie` header.
    pub(crate) fn cookies(&self) -> String {
        let cookies: Vec<String> =
            self.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
        cookies.join("; ")
    }

    /// Closes the browser and starts it again.
    pub(crate) fn restart(&self) {
        self.cookies.borrow_mut().retain(|name, _| self.lasting.borrow().contains(name));
    }

    pub(crate) async fn send(&self, request: http::request::Builder, body: impl Into<Bytes>) -> Reply {
        let cookies = self.cookies();
        let mut request = request.header(header::HOST, "id.test");
        if !cookies.is_empty() {
            request = request.header(header::COOKIE, cookies);
        }
        if !self.user_agent.is_empty() {
            request = request.header(header::USER_AGENT, self.user_agent);
        }
        let reply = self.provider.send_from(&self.address, request.body(body.into()).unwrap()).await;
        for cookie in reply.headers("set-cookie") {
            let (pair, attributes) = cookie.split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            self.lasting.borrow_mut().remove(name);
            if attributes.contains("Max-Age=") {
                self.lasting.borrow_mut().insert(name.into());
            }
            if attributes.contains("Max-Age=0") {
                self.cookies.borrow_mut().remove(name);
            } else {
                self.cookies.borrow_mut().insert(name.into(), value.into());
            }
        }
        reply
    }

    /// Sends a GET request. Returns the parts of the response's body, which the test receives itself.
    pub(crate) async fn stream(&self, address: &str) -> sealgate_edge::BodyParts {
        let request = Request::get(address).header(header::HOST, "id.test").header(header::COOKIE, self.cookies());
        let response = self.provider.answer(&self.address, request.body(Bytes::new()).unwrap()).await;
        assert_eq!(response.status(), 200);
        response.extensions().get::<sealgate_edge::BodyStream>().expect("a body in parts").take().unwrap()
    }

    /// Sends a GET request without following redirects.
    pub(crate) async fn get(&self, address: &str) -> Reply {
        // Headers of a page that the user opens.
        self.get_with(address, &[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]).await
    }

    /// Sends a GET request with these headers, without following redirects.
    pub(crate) async fn get_with(&self, address: &str, fields: &[(&str, &str)]) -> Reply {
        let request = Request::get(address);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.send(request, String::new()).await
    }

    /// Submits a form by POST, without following redirects.
    pub(crate) async fn post(&self, address: &str, fields: &[(&str, &str)]) -> Reply {
        let request = Request::post(address).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request, encode(fields)).await
    }

    /// Follows redirects within the provider. Returns the first page, or the redirect that leaves.
    pub(crate) async fn follow(&self, mut reply: Reply) -> Reply {
        for _ in 0..10 {
            match reply.header("location") {
                Some(location) if location.starts_with('/') => reply = self.get(location).await,
                _ => return reply,
            }
        }
        panic!("the redirects do not end: {reply:?}");
    }

    /// Opens an authorization request. Returns the first page, or the redirect that leaves.
    pub(crate) async fn open(&self, address: &str) -> Reply {
        let reply = self.get(address).await;
        self.follow(reply).await
    }

    /// Submits a page's form with its hidden fields and these ones, and follows redirects.
    pub(crate) async fn submit(&self, page: &Reply, fields: &[(&str, &str)]) -> Reply {
        let reply = self.submit_only(page, fields).await;
        self.follow(reply).await
    }

    /// Submits a page's form without following redirects.
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

    /// Consents on a consent page, including offline access if it is offered.
    pub(crate) async fn allow(&self, page: &Reply) -> Reply {
        assert!(is_consent(page), "not a consent page: {page:?}");
        let mut fields = vec![("consent-allow", "yes")];
        if page.text().contains("name=\"offline_access\"") {
            fields.push(("offline_access", "true"));
        }
        self.submit(page, &fields).await
    }

    /// Follows an authorization request to the redirect that leaves, with sign-in and consent as
    /// needed.
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

/// Returns whether this is the sign-in page.
pub(crate) fn is_login(page: &Reply) -> bool {
    page.header("location").is_none() && page.text().contains("id=\"login-submit\"")
}

/// Returns whether this is the consent page.
pub(crate) fn is_consent(page: &Reply) -> bool {
    page.header("location").is_none() && page.text().contains("id=\"consent-allow\"")
}

/// Returns the value of an attribute in a tag.
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

/// Returns the target of a page's form.
pub(crate) fn form_action(html: &str) -> String {
    let forms = tags(html, "form ");
    attribute(forms.first().expect("a form"), "action").expect("an action")
}

/// Returns the hidden fields of a page's form.
pub(crate) fn hidden_fields(html: &str) -> Vec<(String, String)> {
    tags(html, "input ")
        .into_iter()
        .filter(|tag| tag.contains("type=\"hidden\""))
        .map(|tag| (attribute(tag, "name").unwrap(), attribute(tag, "value").unwrap_or_default()))
        .collect()
}
