//! The requests of a sign-in: login page, form, redirects, probe.

use std::fmt;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Response};
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use serde::Serialize;
use url::Url;
use zeroize::Zeroizing;

use crate::form::{FormFields, PageForms, encode, unescape};
use crate::jar::CookieJar;
use crate::recipe::{FieldValue, FormChoice, LoginRecipe, LogoutRecipe, ResponseMatcher};
use crate::target::{LoginTarget, shown_path};

/// Maximum length of a page, in bytes.
pub const MAX_PAGE_BYTES: usize = 1 << 20;

/// Maximum number of redirects that are followed after the first request, and again after the form.
const MAX_REDIRECTS: usize = 6;

/// Timeout of one request.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the whole sign-in.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Request of a sign-in. It may contain the password and the application's cookies.
pub struct LoginRequest {
    pub method: Method,
    /// URL at the application's upstream.
    pub url: Url,
    /// All headers except `Content-Length`, with `Host`.
    pub headers: HeaderMap,
    pub body: Zeroizing<Vec<u8>>,
    /// Time in which the whole response must be received.
    pub timeout: Duration,
}

/// Shows method and path only.
impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoginRequest({} {})", self.method, shown_path(&self.url))
    }
}

/// HTTP client of a sign-in.
pub trait LoginExchange {
    /// Sends a request and returns the response with its whole body, whatever its status. An
    /// implementation must not follow redirects, and must not use a cache or a proxy. It must not
    /// read more than [`MAX_PAGE_BYTES`].
    ///
    /// # Errors
    /// One line without the URL, which may contain secrets.
    fn exchange(&self, request: LoginRequest) -> impl Future<Output = Result<Response<Vec<u8>>, String>> + Send;
}

/// A sign-in of one user to one application.
#[derive(Debug, Clone, Copy)]
pub struct AppLogin<'a> {
    pub recipe: &'a LoginRecipe,
    pub target: &'a LoginTarget,
    /// Username at the application.
    pub user: &'a str,
    pub password: &'a Secret,
}

/// Result of a sign-in.
#[derive(Debug)]
pub enum LoginOutcome {
    /// The user is signed in; the probe confirmed it.
    SignedIn(CookieJar),
    /// The application reported a wrong name or password. Another attempt could lock the account.
    WrongPassword,
    /// Anything else.
    Failed(LoginFault),
}

/// Reason why a sign-in failed. It contains no password, cookie or query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginFault {
    pub line: String,
    /// Whether the sign-in may be tried again with the same password, after a pause. False after a
    /// response to the password, unless the response was an error of the application.
    pub may_retry: bool,
    /// Whether the application may have received the password.
    pub is_password_sent: bool,
}

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginStepKind {
    Page,
    Redirect,
    Form,
    Probe,
    Logout,
}

/// A request and its response, for the operator. Contains names of fields and cookies, but not
/// their values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoginStep {
    pub kind: LoginStepKind,
    pub method: String,
    /// Path without query and parameters.
    pub path: String,
    pub status: u16,
    /// Path, or URL at another origin, of a redirect.
    pub location: Option<String>,
    /// Names of the sent form fields.
    pub fields: Vec<String>,
    /// Names of the cookies in the response.
    pub cookies: Vec<String>,
}

struct Page {
    url: Url,
    status: u16,
    location: Option<String>,
    charset: Option<String>,
    body: Zeroizing<String>,
}

impl Page {
    fn matches(&self, matchers: &[ResponseMatcher]) -> bool {
        matchers.iter().any(|matcher| matcher.matches(self.status, self.location.as_deref(), &self.body))
    }
}

/// Why a sign-in ended early.
enum Stop {
    WrongPassword,
    Failed(LoginFault),
}

impl From<LoginFault> for Stop {
    fn from(fault: LoginFault) -> Self {
        Self::Failed(fault)
    }
}

/// Requests to an application with the cookies of one session.
struct Requests<'a, E> {
    recipe: &'a LoginRecipe,
    target: &'a LoginTarget,
    exchange: &'a E,
    now: UnixTime,
    observe: &'a mut (dyn FnMut(LoginStep) + Send),
    jar: CookieJar,
    deadline: Instant,
    /// Whether a request with the password was sent.
    is_sent: bool,
}

/// Signs a user in to an application, with an empty jar. `observe` receives each request.
///
/// The password is sent at most once.
pub async fn sign_in<E: LoginExchange + Sync>(
    login: AppLogin<'_>,
    exchange: &E,
    now: UnixTime,
    observe: &mut (dyn FnMut(LoginStep) + Send),
) -> LoginOutcome {
    let AppLogin { recipe, target, user, password } = login;
    let mut requests = Requests::new(recipe, target, exchange, now, CookieJar::default(), observe);
    match requests.sign_in(user, password).await {
        Ok(()) => LoginOutcome::SignedIn(requests.jar),
        Err(Stop::WrongPassword) => LoginOutcome::WrongPassword,
        Err(Stop::Failed(fault)) => LoginOutcome::Failed(fault),
    }
}

/// Requests the probe with the cookies of a session. Returns whether this user is still signed in,
/// and the cookies after the response.
///
/// # Errors
/// If the application did not answer, or answered with an error of its own.
pub async fn probe<E: LoginExchange + Sync>(
    recipe: &LoginRecipe,
    target: &LoginTarget,
    user: &str,
    jar: CookieJar,
    exchange: &E,
    now: UnixTime,
) -> Result<(bool, CookieJar), LoginFault> {
    let mut unobserved = |_| ();
    let mut requests = Requests::new(recipe, target, exchange, now, jar, &mut unobserved);
    let page = requests.get(LoginStepKind::Probe, requests.url(&recipe.probe)?).await?;
    Ok((page.matches(&recipe.success) && recipe.names(user, &page.body), requests.jar))
}

/// Ends a session at the application, if the recipe describes how.
///
/// # Errors
/// If a request failed or the page has no token.
pub async fn sign_out<E: LoginExchange + Sync>(
    recipe: &LoginRecipe,
    target: &LoginTarget,
    jar: CookieJar,
    exchange: &E,
    now: UnixTime,
) -> Result<(), LoginFault> {
    let Some(logout) = recipe.logout() else { return Ok(()) };
    let mut unobserved = |_| ();
    Requests::new(recipe, target, exchange, now, jar, &mut unobserved).sign_out(logout).await
}

impl<'a, E: LoginExchange + Sync> Requests<'a, E> {
    fn new(
        recipe: &'a LoginRecipe,
        target: &'a LoginTarget,
        exchange: &'a E,
        now: UnixTime,
        jar: CookieJar,
        observe: &'a mut (dyn FnMut(LoginStep) + Send),
    ) -> Self {
        let deadline = Instant::now() + TOTAL_TIMEOUT;
        Self { recipe, target, exchange, now, observe, jar, deadline, is_sent: false }
    }

    async fn sign_out(&mut self, logout: &LogoutRecipe) -> Result<(), LoginFault> {
        let token = match &logout.token {
            None => None,
            Some((from, pattern)) => {
                let page = self.get(LoginStepKind::Page, self.url(from)?).await?;
                let token = pattern.captures(&page.body).and_then(|captures| captures.get(1));
                let token = token.ok_or_else(|| self.fault(format!("logout.token: no text of {from} matches")))?;
                // The token may be escaped for HTML.
                Some(Zeroizing::new(unescape(token.as_str())))
            }
        };
        let token = token.as_ref().map_or("", |token| token.as_str());
        let encoded: String = url::form_urlencoded::byte_serialize(token.as_bytes()).collect();
        let url = self.url(&logout.path.replace("{token}", &encoded))?;
        match &logout.post {
            None => self.get(LoginStepKind::Logout, url).await?,
            Some(fields) => {
                let fields: FormFields = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), Zeroizing::new(value.replace("{token}", token))))
                    .collect();
                let names = fields.iter().map(|(name, _)| name.clone()).collect();
                self.send(LoginStepKind::Logout, Method::POST, url, encode(&fields), names).await?
            }
        };
        Ok(())
    }

    async fn sign_in(&mut self, user: &str, password: &Secret) -> Result<(), Stop> {
        let recipe = self.recipe;
        if [user, password.expose()].iter().any(|text| text.contains(['\r', '\n', '\0'])) {
            return Err(self.fault("the username or the password contains a line break or NUL").into());
        }
        let url = self.url(&recipe.page)?;
        let page = self.get(LoginStepKind::Page, url).await?;
        let page = self.follow(page).await?;
        let (action, fields) = self.form(&page, user, password)?;
        let names = fields.iter().map(|(name, _)| name.clone()).collect();
        let body = encode(&fields);
        drop(fields);
        self.is_sent = true;
        let page = self.send(LoginStepKind::Form, Method::POST, action, body, names).await?;
        self.follow(page).await?;
        let url = self.url(&recipe.probe)?;
        let probe = self.get(LoginStepKind::Probe, url).await?;
        if !probe.matches(&recipe.success) {
            let path = &recipe.probe;
            let line = format!("the response to the probe {path} (status {}) matches no success matcher", probe.status);
            return Err(self.fault(line).into());
        }
        if !recipe.names(user, &probe.body) {
            return Err(self.fault("the response to the probe does not contain the username").into());
        }
        Ok(())
    }

    /// Creates a fault. It permits no retry after the password was sent, because the application
    /// may have counted the attempt.
    fn fault(&self, line: impl Into<String>) -> LoginFault {
        LoginFault { line: line.into(), may_retry: !self.is_sent, is_password_sent: self.is_sent }
    }

    fn url(&self, path: &str) -> Result<Url, LoginFault> {
        self.target.url(path).map_err(|_| self.fault(format!("{path:?} is not a path")))
    }

    async fn get(&mut self, kind: LoginStepKind, url: Url) -> Result<Page, LoginFault> {
        self.send(kind, Method::GET, url, Zeroizing::default(), Vec::new()).await
    }

    /// Follows redirects to the upstream's origin, until a response is a page or matches `failure`.
    async fn follow(&mut self, mut page: Page) -> Result<Page, Stop> {
        let mut is_post = self.is_sent;
        for _ in 0..=MAX_REDIRECTS {
            if self.is_sent && page.matches(&self.recipe.failure) {
                return Err(Stop::WrongPassword);
            }
            let Some(location) = page.location.as_deref() else { return Ok(page) };
            let from = shown_path(&page.url);
            if is_post && [307, 308].contains(&page.status) {
                let line = format!("{from} requests to send the password again (status {})", page.status);
                return Err(self.fault(line).into());
            }
            let next = self.target.resolve(&page.url, location);
            let next =
                next.map_err(|to| self.fault(format!("{from} redirects to {to}, which is not at the upstream")))?;
            page = self.get(LoginStepKind::Redirect, next).await?;
            is_post = false;
        }
        Err(self.fault(format!("the application sent more than {MAX_REDIRECTS} redirects")).into())
    }

    /// Returns the URL and the fields of the form.
    fn form(&self, page: &Page, user: &str, password: &Secret) -> Result<(Url, FormFields), LoginFault> {
        let (recipe, target) = (self.recipe, self.target);
        let (action, mut fields) = if let FormChoice::Action(path) = &recipe.form {
            (self.url(path)?, FormFields::new())
        } else {
            let fault =
                |line: String| self.fault(format!("{} (status {}): {line}", shown_path(&page.url), page.status));
            let forms = PageForms::parse(&page.body).map_err(fault)?;
            let form = forms.choose(&recipe.form, recipe.password_field()).map_err(fault)?;
            let off =
                |to: String| fault(format!("the form would send the password to {to}, which is not at the upstream"));
            let base = forms.base.as_deref().map_or(Ok(page.url.clone()), |base| target.resolve(&page.url, base));
            // An empty action is the page itself, even if the page has a `<base>`.
            let action = match form.action.as_str() {
                "" => page.url.clone(),
                action => target.resolve(&base.map_err(off)?, action).map_err(off)?,
            };
            (action, form.defaults(&recipe.submit).map_err(fault)?)
        };
        for (name, pattern) in &recipe.extract {
            let token = pattern.captures(&page.body).and_then(|captures| captures.get(1));
            let token =
                token.ok_or_else(|| self.fault(format!("extract.{name}: no text of the login page matches")))?;
            set(&mut fields, name, Zeroizing::new(token.as_str().to_owned()));
        }
        for (name, value) in &recipe.fields {
            let value = match value {
                FieldValue::Password => password.expose().to_owned(),
                FieldValue::Text(text) => text.replace("{user}", user),
            };
            set(&mut fields, name, Zeroizing::new(value));
        }
        // The fields are sent in UTF-8. In other encodings of the page, only ASCII texts have the
        // same bytes.
        let is_utf8 = page.charset.as_deref().is_none_or(|charset| ["utf-8", "utf8", "us-ascii"].contains(&charset));
        if !is_utf8 && fields.iter().any(|(name, value)| !name.is_ascii() || !value.is_ascii()) {
            let charset = page.charset.as_deref().unwrap_or_default();
            return Err(self.fault(format!(
                "the login page has the encoding {charset}, in which only ASCII names and passwords can be sent"
            )));
        }
        Ok((action, fields))
    }

    async fn send(
        &mut self,
        kind: LoginStepKind,
        method: Method,
        url: Url,
        body: Zeroizing<Vec<u8>>,
        fields: Vec<String>,
    ) -> Result<Page, LoginFault> {
        let (name, path) = (format!("{method} {}", shown_path(&url)), shown_path(&url));
        let is_password_sent = self.is_sent;
        let retry = |line: String| LoginFault { line, may_retry: true, is_password_sent };
        let timeout = self.deadline.saturating_duration_since(Instant::now()).min(STEP_TIMEOUT);
        if timeout.is_zero() {
            return Err(retry(format!("the sign-in took more than {} seconds", TOTAL_TIMEOUT.as_secs())));
        }
        let headers = self.headers(&method, &url)?;
        let request = LoginRequest { method: method.clone(), url: url.clone(), headers, body, timeout };
        let response = self.exchange.exchange(request).await.map_err(|error| {
            // The application may have counted the attempt although its answer did not arrive.
            LoginFault { line: format!("{name}: {error}"), may_retry: kind != LoginStepKind::Form, is_password_sent }
        })?;
        let (parts, body) = response.into_parts();
        let body = Zeroizing::new(body);
        if body.len() > MAX_PAGE_BYTES {
            return Err(self.fault(format!("{name}: the page has more than {MAX_PAGE_BYTES} bytes")));
        }
        let mut cookies = Vec::new();
        for field in parts.headers.get_all(SET_COOKIE) {
            let text = std::str::from_utf8(field.as_bytes()).unwrap_or_default();
            if let Some(cookie) = self.jar.store(text, url.path(), self.now)
                && !cookies.contains(&cookie)
            {
                cookies.push(cookie);
            }
        }
        let text = |name| parts.headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        let status = parts.status.as_u16();
        let is_redirect = [301, 302, 303, 307, 308].contains(&status);
        let location = text(LOCATION).filter(|_| is_redirect).map(str::to_owned);
        let shown_location = location
            .as_deref()
            .map(|location| self.target.resolve(&url, location).map_or_else(|other| other, |own| shown_path(&own)));
        (self.observe)(LoginStep {
            kind,
            method: method.to_string(),
            path,
            status,
            location: shown_location,
            fields,
            cookies,
        });
        let body = Zeroizing::new(String::from_utf8_lossy(&body).into_owned());
        let page = Page { url, status, location, charset: text(CONTENT_TYPE).and_then(charset), body };
        let is_failure = self.is_sent && page.matches(&self.recipe.failure);
        if (status >= 500 || status == 429) && !is_failure {
            let fault = retry(format!("{name}: the application answered with the status {status}"));
            // The application may send 429 because it has received too many wrong passwords.
            return Err(LoginFault { may_retry: status != 429 || !self.is_sent, ..fault });
        }
        Ok(page)
    }

    fn headers(&self, method: &Method, url: &Url) -> Result<HeaderMap, LoginFault> {
        let target = self.target;
        let value = |text: &[u8]| HeaderValue::from_bytes(text).map_err(|_| self.fault("a header cannot be sent"));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8"));
        headers.extend(target.forwarded());
        headers.extend(self.recipe.headers.clone());
        headers.insert(HOST, value(target.authority().as_bytes())?);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(cookies) = self.jar.header(url.path(), self.now) {
            let mut cookies = value(cookies.as_bytes())?;
            cookies.set_sensitive(true);
            headers.insert(COOKIE, cookies);
        }
        if *method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            // Django compares `Origin` with its own host.
            headers.insert(ORIGIN, value(target.origin().as_bytes())?);
        }
        Ok(headers)
    }
}

/// Replaces all fields of this name with one field, or adds the field.
fn set(fields: &mut FormFields, name: &str, value: Zeroizing<String>) {
    match fields.iter().position(|(other, _)| other == name) {
        Some(first) => {
            let mut index = 0;
            fields.retain(|(other, _)| {
                index += 1;
                index - 1 <= first || other != name
            });
            if let Some(field) = fields.get_mut(first) {
                field.1 = value;
            }
        }
        None => fields.push((name.to_owned(), value)),
    }
}

/// Returns the parameter `charset` of `Content-Type`, in lower case.
fn charset(content_type: &str) -> Option<String> {
    let parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charsets.next().map(|(_, value)| value.trim().trim_matches('"').to_ascii_lowercase())
}

impl LoginRecipe {
    /// Returns true if the body of the probe's response contains the username, or if the recipe
    /// does not require that.
    fn names(&self, user: &str, body: &str) -> bool {
        !self.is_user_in_body || contains_name(body, user)
    }
}

/// Returns whether a page contains a name as a whole word, also if it is escaped for HTML.
fn contains_name(page: &str, name: &str) -> bool {
    let escaped = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let is_in_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    !name.is_empty()
        && [name, &escaped, &escaped.replace('"', "&quot;").replace('\'', "&#39;")].iter().any(|name| {
            page.match_indices(name).any(|(start, text)| {
                let (before, after) = (page.get(..start), page.get(start + text.len()..));
                !is_in_word(before.and_then(|text| text.chars().next_back()))
                    && !is_in_word(after.and_then(|text| text.chars().next()))
            })
        })
}

#[cfg(test)]
mod tests;
