//! Browser without scripts on a real HTTP client: cookies by host, forms, single redirects.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::cookie::{CookieStore, Jar};
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, redirect};

use super::{Instance, PASSWORD};

/// Returns the headers of a browser's navigation.
fn navigation() -> HeaderMap {
    HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8")),
        ("sec-fetch-mode".parse().unwrap(), HeaderValue::from_static("navigate")),
        ("sec-fetch-dest".parse().unwrap(), HeaderValue::from_static("document")),
    ])
}

/// Browser with its own cookies.
pub(crate) struct Browser {
    client: Client,
    jar: Arc<Jar>,
}

/// Page, or the redirect to a URL without a listener.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Browser {
    pub(crate) fn new(instance: &Instance) -> Self {
        Self::at(instance.port)
    }

    /// Returns a browser that finds the hosts of an instance on this port.
    pub(crate) fn at(port: u16) -> Self {
        Self::with_address(port, None)
    }

    /// Returns a browser that connects from this address.
    #[allow(dead_code, reason = "the tests of crashes share this fixture and do not use it")]
    pub(crate) fn from(instance: &Instance, address: IpAddr) -> Self {
        Self::with_address(instance.port, Some(address))
    }

    fn with_address(port: u16, address: Option<IpAddr>) -> Self {
        let jar = Arc::new(Jar::default());
        let loopback = SocketAddr::from(([127, 0, 0, 1], port));
        let mut client = Client::builder()
            .cookie_provider(Arc::clone(&jar))
            .redirect(redirect::Policy::none())
            .local_address(address)
            .resolve("localhost", loopback)
            .resolve("app.localhost", loopback)
            .no_proxy();
        for number in 0..10 {
            client = client.resolve(&format!("app{number}.localhost"), loopback);
        }
        let client = client.build().unwrap();
        Self { client, jar }
    }

    /// Returns the `Cookie` header for this URL.
    pub(crate) fn cookies(&self, url: &str) -> String {
        let cookies = self.jar.cookies(&url.parse().unwrap());
        cookies.map_or_else(String::new, |cookies| cookies.to_str().unwrap().to_owned())
    }

    /// Returns the HTTP client with this browser's cookies.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Page {
        let response = request.send().await.unwrap();
        Page {
            url: response.url().to_string(),
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.text().await.unwrap(),
        }
    }

    /// Sends a navigation without following redirects.
    pub(crate) async fn get(&self, url: &str) -> Page {
        self.send(self.client.get(url).headers(navigation())).await
    }

    /// Sends a navigation and follows redirects within `localhost` and `app.localhost` of the
    /// instance.
    pub(crate) async fn open(&self, url: &str) -> Page {
        let page = self.get(url).await;
        self.follow(page).await
    }

    async fn follow(&self, mut page: Page) -> Page {
        let ours = url::Url::parse(&page.url).unwrap().port();
        for _ in 0..15 {
            let Some(next) = page.location() else { return page };
            if url::Url::parse(&next).unwrap().port() != ours {
                return page;
            }
            page = self.get(&next).await;
        }
        panic!("the redirects do not end at {}", page.url);
    }

    /// Submits a page's form with its hidden fields and these ones, and follows redirects.
    pub(crate) async fn submit(&self, page: &Page, fields: &[(&str, &str)]) -> Page {
        let mut all = page.hidden_fields();
        all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let action = url::Url::parse(&page.url).unwrap().join(&page.form_action()).unwrap();
        let answer = self.send(self.client.post(action).headers(navigation()).form(&all)).await;
        self.follow(answer).await
    }

    /// Signs in as Anna on a sign-in page.
    pub(crate) async fn sign_in(&self, page: &Page) -> Page {
        assert!(page.body.contains("id=\"login-submit\""), "not a sign-in page: {page:?}");
        self.submit(page, &[("email", "anna@example.test"), ("password", PASSWORD)]).await
    }

    /// Opens a URL and continues to the end of the sign-in, with consent if necessary.
    pub(crate) async fn go(&self, url: &str) -> Page {
        let mut page = self.open(url).await;
        if page.body.contains("id=\"login-submit\"") {
            page = self.sign_in(&page).await;
        }
        if page.body.contains("id=\"consent-allow\"") {
            page = self.submit(&page, &[("consent-allow", "yes"), ("offline_access", "true")]).await;
        }
        page
    }
}

impl Page {
    /// Returns the absolute target of the redirect.
    pub(crate) fn location(&self) -> Option<String> {
        let location = self.headers.get(LOCATION)?.to_str().unwrap();
        Some(url::Url::parse(&self.url).unwrap().join(location).unwrap().to_string())
    }

    /// Returns a parameter of the redirect's target.
    pub(crate) fn returned(&self, name: &str) -> Option<String> {
        let url = url::Url::parse(&self.location()?).unwrap();
        url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }

    fn tags(&self, name: &str) -> impl Iterator<Item = &str> {
        self.body.split('<').filter(move |tag| tag.starts_with(name))
    }

    pub(crate) fn form_action(&self) -> String {
        attribute(self.tags("form ").next().expect("a form"), "action").expect("an action")
    }

    pub(crate) fn hidden_fields(&self) -> Vec<(String, String)> {
        self.tags("input ")
            .filter(|tag| tag.contains("type=\"hidden\""))
            .map(|tag| (attribute(tag, "name").unwrap(), attribute(tag, "value").unwrap_or_default()))
            .collect()
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = &tag[start..start + tag[start..].find('"')?];
    Some(value.replace("&#38;", "&").replace("&#34;", "\"").replace("&quot;", "\"").replace("&amp;", "&"))
}
