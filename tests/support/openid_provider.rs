//! OpenID provider that answers as a test requests, also wrongly. It has no pages: its
//! authorization URL gets a code.

#![allow(dead_code, reason = "each program of tests uses a part of this")]

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_system::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::foreign::{Key, key_set};

pub(crate) type Query = HashMap<String, String>;

/// Provider. It stops when dropped.
pub(crate) struct FakeProvider {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    key: Arc<Key>,
    thread: Option<JoinHandle<()>>,
}

/// Behaviour of the provider, and the requests that it received.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of tests")]
pub(crate) struct State {
    /// Claims of the next ID tokens, besides the claims of every ID token.
    pub(crate) claims: Value,
    /// `iss` of the authorization response. The provider's own by default.
    pub(crate) iss: Option<String>,
    /// Error that the authorization endpoint returns.
    pub(crate) error: Option<&'static str>,
    /// Whether the token endpoint checks the code and the PKCE verifier.
    pub(crate) checks_codes: bool,
    /// Whether the token endpoint gives no answer.
    pub(crate) hangs: bool,
    /// Requests of the token endpoint that got no answer.
    pub(crate) hanging: usize,
    /// Time of the provider, in seconds since 1970. That of the machine by default.
    pub(crate) now: Option<u64>,
    /// ID tokens that the provider has issued.
    pub(crate) id_tokens: Vec<String>,
    /// Queries of the authorization endpoint.
    pub(crate) authorizations: Vec<Query>,
    /// Forms that the token endpoint received.
    pub(crate) redeemed: Vec<Query>,
    /// Whether each refresh token is accepted once.
    pub(crate) rotates: bool,
    /// Whether the token endpoint closes the connection after it has carried out a refresh.
    pub(crate) loses_answers: bool,
    /// Status and error of the token endpoint for refresh tokens.
    pub(crate) refresh_error: Option<(&'static str, &'static str)>,
    /// Refresh tokens that the token endpoint received.
    pub(crate) refreshed: Vec<String>,
    /// Whether the metadata have an `end_session_endpoint`.
    pub(crate) ends_sessions: bool,
    /// Queries of the `end_session_endpoint`.
    pub(crate) ended: Vec<Query>,
    /// Refresh tokens that are accepted, if the provider rotates them.
    valid: HashSet<String>,
    codes: HashMap<String, Query>,
    issued: usize,
}

impl FakeProvider {
    /// Starts a provider whose users have these claims.
    pub(crate) fn start(claims: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            claims,
            iss: None,
            error: None,
            checks_codes: true,
            hangs: false,
            hanging: 0,
            now: None,
            id_tokens: Vec::new(),
            authorizations: Vec::new(),
            redeemed: Vec::new(),
            rotates: false,
            loses_answers: false,
            refresh_error: None,
            refreshed: Vec::new(),
            ends_sessions: false,
            ended: Vec::new(),
            valid: HashSet::new(),
            codes: HashMap::new(),
            issued: 0,
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let key = Arc::new(Key::p256("key"));
        let (shared, stopped, own_key) = (Arc::clone(&state), Arc::clone(&stop), Arc::clone(&key));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (state, stop, key) = (Arc::clone(&shared), Arc::clone(&stopped), Arc::clone(&key));
                std::thread::spawn(move || serve(stream, address, &state, &stop, &key));
            }
        });
        Self { address, state, stop, key: own_key, thread: Some(thread) }
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns a logout token with these claims, besides the claims of every logout token.
    pub(crate) fn logout_token(&self, claims: &Value) -> String {
        let mut state = self.state();
        state.issued += 1;
        let now = state.now.unwrap_or_else(seconds);
        let mut all = json!({
            "iss": self.issuer(), "aud": "sealgate", "iat": now, "exp": now + 120, "jti": format!("jti-{}", state.issued),
            "events": { "http://schemas.openid.net/event/backchannel-logout": {} },
        });
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        self.key.token_with(&json!({ "alg": "ES256", "typ": "logout+jwt", "kid": "key" }), &all)
    }

    /// Opens the authorization URL, as a browser of a signed-in user. Returns the URL to which the
    /// provider returns the browser.
    pub(crate) async fn approve(&self, url: &str) -> String {
        assert!(url.starts_with(&format!("{}/", self.issuer())), "{url} is not at this provider");
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
        let answer = client.get(url).send().await.unwrap();
        answer.headers()["location"].to_str().unwrap().to_owned()
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then releases the port.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, own: SocketAddr, state: &Mutex<State>, stop: &AtomicBool, key: &Key) {
    let Some((target, body)) = request(&mut stream) else { return };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let issuer = format!("http://{own}");
    let answer = match path {
        "/.well-known/openid-configuration" => {
            let mut metadata = metadata(&issuer);
            if state.lock().unwrap().ends_sessions {
                metadata["end_session_endpoint"] = format!("{issuer}/end").into();
            }
            json_answer("200 OK", &metadata)
        }
        "/end" => end_session(&mut state.lock().unwrap(), pairs(query)),
        "/jwks" => json_answer("200 OK", &key_set(&[key])),
        "/authorize" => authorize(&mut state.lock().unwrap(), pairs(query), &issuer),
        "/token" => {
            {
                let mut state = state.lock().unwrap();
                state.hanging += usize::from(state.hangs);
            }
            while state.lock().unwrap().hangs && !stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
            }
            let answer = token(&mut state.lock().unwrap(), pairs(&body), &issuer, key);
            if state.lock().unwrap().loses_answers && body.contains("grant_type=refresh_token") {
                return;
            }
            answer
        }
        _ => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
    };
    let _ = stream.write_all(answer.as_bytes());
}

/// Returns the target and the body of a request.
fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) if head.len() < 65_536 => head.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(head).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head.split(' ').nth(1)?.to_owned(), String::from_utf8(body).ok()?))
}

fn pairs(text: &str) -> Query {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn json_answer(status: &str, document: &Value) -> String {
    let body = document.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_basic", "client_secret_post"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    })
}

fn authorize(state: &mut State, query: Query, issuer: &str) -> String {
    state.issued += 1;
    let code = format!("code-{}-{}", own_port(issuer), state.issued);
    let mut location = url::Url::parse(&query["redirect_uri"]).unwrap();
    {
        let mut pairs = location.query_pairs_mut();
        match state.error {
            Some(error) => pairs.append_pair("error", error),
            None => pairs.append_pair("code", &code),
        };
        pairs.append_pair("state", &query["state"]).append_pair("iss", state.iss.as_deref().unwrap_or(issuer));
    }
    state.codes.insert(code, query.clone());
    state.authorizations.push(query);
    format!("HTTP/1.1 303 See Other\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn own_port(issuer: &str) -> &str {
    issuer.rsplit(':').next().unwrap()
}

fn end_session(state: &mut State, query: Query) -> String {
    let mut location = url::Url::parse(&query["post_logout_redirect_uri"]).unwrap();
    location.query_pairs_mut().append_pair("state", &query["state"]);
    state.ended.push(query);
    format!("HTTP/1.1 303 See Other\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn seconds() -> u64 {
    SystemClock.now().seconds()
}

/// Returns a refresh token that the provider accepts.
fn new_refresh_token(state: &mut State) -> String {
    if !state.rotates {
        return "the refresh token of the provider".to_owned();
    }
    state.issued += 1;
    let token = format!("refresh token {}", state.issued);
    state.valid.insert(token.clone());
    token
}

fn refresh(state: &mut State, form: &Query, issuer: &str, key: &Key) -> String {
    let token = form["refresh_token"].clone();
    state.refreshed.push(token.clone());
    if let Some((status, error)) = state.refresh_error {
        return json_answer(status, &json!({ "error": error }));
    }
    if state.rotates && !state.valid.remove(&token) {
        return json_answer("400 Bad Request", &json!({ "error": "invalid_grant" }));
    }
    let now = state.now.unwrap_or_else(seconds);
    let mut claims = json!({ "iss": issuer, "aud": "sealgate", "iat": now, "exp": now + 300 });
    claims.as_object_mut().unwrap().extend(state.claims.as_object().unwrap().clone());
    let id_token = key.token_with(&json!({ "alg": "ES256", "typ": "JWT", "kid": "key" }), &claims);
    let refresh_token = new_refresh_token(state);
    let answer = json!({
        "access_token": "access", "token_type": "Bearer", "id_token": id_token, "refresh_token": refresh_token,
    });
    json_answer("200 OK", &answer)
}

fn token(state: &mut State, form: Query, issuer: &str, key: &Key) -> String {
    if form.get("grant_type").map(String::as_str) == Some("refresh_token") {
        return refresh(state, &form, issuer, key);
    }
    let begun = state.codes.get(&form["code"]).cloned();
    let verifier = form.get("code_verifier").map(String::as_str).unwrap_or_default();
    let challenge = base64url(SecretHash::for_secret(verifier.as_bytes()).as_bytes());
    let is_right = begun.as_ref().is_some_and(|begun| begun["code_challenge"] == challenge);
    state.redeemed.push(form);
    let Some(begun) = begun.filter(|_| is_right || !state.checks_codes) else {
        return json_answer("400 Bad Request", &json!({ "error": "invalid_grant" }));
    };
    let now = state.now.unwrap_or_else(seconds);
    let mut claims = json!({
        "iss": issuer, "aud": begun["client_id"], "iat": now, "exp": now + 300, "nonce": begun["nonce"],
    });
    let own = state.claims.as_object().unwrap().clone();
    claims.as_object_mut().unwrap().extend(own);
    let id_token = key.token_with(&json!({ "alg": "ES256", "typ": "JWT", "kid": "key" }), &claims);
    state.id_tokens.push(id_token.clone());
    let answer = json!({
        "access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": id_token,
        "refresh_token": new_refresh_token(state),
    });
    json_answer("200 OK", &answer)
}
