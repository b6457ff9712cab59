//! Browser without scripts: a cookie jar for each host, redirects between hosts, forms.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::world::{PASSWORD, Reply, World, encode, request};

/// Headers that a browser sends when the user opens a page.
const NAVIGATION: [(&str, &str); 3] =
    [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("accept", "text/html,*/*;q=0.8")];

pub(crate) struct Browser<'a> {
    world: &'a World,
    /// Values by host and name.
    cookies: RefCell<BTreeMap<(String, String), String>>,
    /// Names of cookies that the browser rejects.
    refused: RefCell<BTreeSet<String>>,
    pub(crate) address: String,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self { world, cookies: RefCell::default(), refused: RefCell::default(), address: "192.0.2.1".into() }
    }

    pub(crate) fn cookie(&self, host: &str, name: &str) -> Option<String> {
        self.cookies.borrow().get(&(host.into(), name.into())).cloned()
    }

    pub(crate) fn set_cookie(&self, host: &str, name: &str, value: &str) {
        self.cookies.borrow_mut().insert((host.into(), name.into()), value.into());
    }

    /// Deletes all cookies of a host.
    pub(crate) fn forget(&self, host: &str) {
        self.cookies.borrow_mut().retain(|(known, _), _| known != host);
    }

    /// Rejects cookies of this name on this host.
    pub(crate) fn refuse(&self, host: &str, name: &str) {
        self.refused.borrow_mut().insert(format!("{host} {name}"));
        self.cookies.borrow_mut().remove(&(host.into(), name.into()));
    }

    /// Returns the cookies of a host as a `Cookie` header.
    pub(crate) fn jar(&self, host: &str) -> String {
        let cookies = self.cookies.borrow();
        let pairs = cookies.iter().filter(|((known, _), _)| known == host);
        pairs.map(|((_, name), value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    pub(crate) async fn send(&self, method: &str, url: &str, fields: &[(&str, &str)], body: &str) -> Reply {
        let host = host_of(url);
        let jar = self.jar(host);
        let mut all = fields.to_vec();
        if !jar.is_empty() {
            all.push(("cookie", &jar));
        }
        let reply = self.world.send(&self.address, request(method, url, &all, body)).await;
        if reply.arrived.is_none() {
            self.keep(host, &reply);
        }
        reply
    }

    fn keep(&self, host: &str, reply: &Reply) {
        for cookie in reply.headers.get_all("set-cookie") {
            let text = cookie.to_str().unwrap();
            let (pair, attributes) = text.split_once("; ").unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            assert!(name.starts_with("__Host-"), "{text}");
            assert!(attributes.starts_with("Path=/; HttpOnly; SameSite=Lax; Secure"), "{text}");
            assert!(!attributes.contains("Domain"), "{text}");
            let limit = if name == "__Host-sealgate-last" { 2800 } else { 64 };
            assert!(value.len() <= limit, "{text}");
            let key = (host.to_owned(), name.to_owned());
            if attributes.contains("Max-Age=0") {
                self.cookies.borrow_mut().remove(&key);
            } else if !self.refused.borrow().contains(&format!("{host} {name}")) {
                self.cookies.borrow_mut().insert(key, value.to_owned());
            }
        }
    }

    /// Opens a URL as the user does. Does not follow redirects.
    pub(crate) async fn visit(&self, url: &str) -> Reply {
        self.send("GET", url, &NAVIGATION, "").await
    }

    /// Fetches a URL as a script of the page does.
    pub(crate) async fn fetch(&self, url: &str) -> Reply {
        self.send("GET", url, &[("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty"), ("accept", "*/*")], "").await
    }

    /// Follows redirects from the page at `url` until a page is shown, a request arrives, or
    /// another host is next.
    pub(crate) async fn follow(&self, url: &str, mut reply: Reply) -> Reply {
        let mut at = url.to_owned();
        for _ in 0..40 {
            if reply.arrived.is_some() {
                return reply;
            }
            let Some(location) = reply.header("location").map(str::to_owned) else { return reply };
            at = resolve(&at, &location);
            if host_of(&at) == "rp.test" {
                return reply;
            }
            reply = self.visit(&at).await;
        }
        panic!("the redirects do not end: {reply:?}");
    }

    /// Opens a URL and follows redirects.
    pub(crate) async fn open(&self, url: &str) -> Reply {
        let reply = self.visit(url).await;
        self.follow(url, reply).await
    }

    /// Submits the form of one of the provider's pages, and follows redirects.
    pub(crate) async fn submit(&self, page: &Reply, fields: &[(&str, &str)]) -> Reply {
        let (url, reply) = self.submit_only(page, fields).await;
        self.follow(&url, reply).await
    }

    /// Submits the form of one of the provider's pages. Returns its URL and the first answer.
    pub(crate) async fn submit_only(&self, page: &Reply, fields: &[(&str, &str)]) -> (String, Reply) {
        let html = page.text();
        let form = tags(html, "form ").next().expect("a form");
        let url = format!("https://id.test{}", attribute(form, "action").unwrap());
        let hidden: Vec<(String, String)> = tags(html, "input ")
            .filter(|tag| tag.contains("type=\"hidden\""))
            .map(|tag| (attribute(tag, "name").unwrap(), attribute(tag, "value").unwrap_or_default()))
            .collect();
        let mut all: Vec<(&str, &str)> = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        all.extend_from_slice(fields);
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend_from_slice(&NAVIGATION);
        let reply = self.send("POST", &url, &headers, &encode(&all)).await;
        (url, reply)
    }

    /// Signs in on a sign-in page, and follows redirects.
    pub(crate) async fn sign_in(&self, page: &Reply, email: &str) -> Reply {
        assert!(is_login(page), "not a sign-in page: {page:?}");
        self.submit(page, &[("email", email), ("password", PASSWORD)]).await
    }

    /// Signs in at an application and returns to this page of it.
    pub(crate) async fn sign_in_at(&self, url: &str, email: &str) -> Reply {
        let page = self.open(url).await;
        self.sign_in(&page, email).await
    }
}

pub(crate) fn is_login(page: &Reply) -> bool {
    page.arrived.is_none() && page.text().contains("id=\"login-submit\"")
}

fn host_of(url: &str) -> &str {
    let rest = url.strip_prefix("https://").unwrap_or_else(|| panic!("not an address: {url}"));
    rest.split('/').next().unwrap()
}

/// Resolves a `Location`. A URL library would normalize the path.
pub(crate) fn resolve(base: &str, location: &str) -> String {
    if location.starts_with('/') {
        assert!(!location.starts_with("//") && !location.starts_with("/\\"), "another host: {location}");
        return format!("https://{}{location}", host_of(base));
    }
    assert!(location.starts_with("https://"), "{location}");
    location.to_owned()
}

fn tags<'h>(html: &'h str, name: &'h str) -> impl Iterator<Item = &'h str> {
    html.split('<').filter(move |tag| tag.starts_with(name))
}

/// Returns the value of an attribute in a tag.
pub(crate) fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = &tag[start..start + tag[start..].find('"')?];
    Some(value.replace("&#38;", "&").replace("&amp;", "&"))
}

/// Returns the first link that begins with this text.
pub(crate) fn link(html: &str, begins: &str) -> String {
    let found = tags(html, "a ").filter_map(|tag| attribute(tag, "href")).find(|href| href.starts_with(begins));
    found.unwrap_or_else(|| panic!("no link to {begins}: {html}"))
}
