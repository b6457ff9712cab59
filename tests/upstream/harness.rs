//! An OpenID provider on this machine, and this server as its client.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use sealgate_config::{Config, UpstreamSettings};
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::FixedClock;
use sealgate_upstream::{
    AssertionSigner, CallbackAnswer, OpenIdProvider, Trip, UpstreamInvalid, UpstreamRefusal, UpstreamSignIn,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use url::Url;

pub(crate) const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
pub(crate) const CLIENT_ID: &str = "sealgate at op";
pub(crate) const SECRET: &str = "s%cret+/:\u{15f}";
pub(crate) const REDIRECT_URI: &str = "https://id.test/oauth/upstream/op/callback";

/// Key of the provider.
pub(crate) enum FakeKey {
    Ec(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
    Ed(Box<Ed25519KeyPair>),
}

impl FakeKey {
    pub(crate) fn ec() -> Arc<Self> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref()).unwrap();
        Arc::new(Self::Ec(Box::new(pair)))
    }

    pub(crate) fn rsa() -> Arc<Self> {
        Arc::new(Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())))
    }

    pub(crate) fn ed() -> Arc<Self> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Arc::new(Self::Ed(Box::new(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())))
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Ec(_) => "ES256",
            Self::Rsa(_) => "RS256",
            Self::Ed(_) => "EdDSA",
        }
    }

    pub(crate) fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": base64url(x), "y": base64url(y), "kid": kid })
            }
            Self::Rsa(pair) => {
                let key = pair.public_key();
                let number = |bytes: &[u8]| base64url(bytes);
                json!({
                    "kty": "RSA", "n": number(key.modulus().big_endian_without_leading_zero()),
                    "e": number(key.exponent().big_endian_without_leading_zero()), "kid": kid,
                })
            }
            Self::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(pair.public_key().as_ref()), "kid": kid })
            }
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ec(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// Writes a token with this header and these claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        self.token_of(&header.to_string(), &claims.to_string())
    }

    pub(crate) fn token_of(&self, header: &str, claims: &str) -> String {
        let input = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()));
        format!("{input}.{}", base64url(&self.sign(input.as_bytes())))
    }
}

impl AssertionSigner for FakeKey {
    fn public_point(&self, _label: &str) -> Result<Vec<u8>, String> {
        let Self::Ec(pair) = self else { return Err("not an EC key".into()) };
        Ok(pair.public_key().as_ref().to_vec())
    }

    fn sign(&self, _label: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        Ok(Self::sign(self, message))
    }
}

/// Request that the provider has received.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Headers by their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Received {
    /// Returns the fields of the form.
    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

/// Answer of the provider.
#[derive(Clone)]
pub(crate) enum Answer {
    Json(u16, String),
    /// Status, further header lines and body.
    Raw(u16, String, String),
    /// No answer, until the client closes the connection.
    Silence,
}

/// State of the provider, which tests change.
pub(crate) struct Fake {
    pub(crate) metadata: Value,
    /// Members of the key set.
    pub(crate) jwks: Vec<Value>,
    pub(crate) key: Arc<FakeKey>,
    pub(crate) header: Value,
    /// Claims of the next ID token, without `nonce`.
    pub(crate) claims: Value,
    /// Nonce of the next ID token, if it is not the one of the sign-in.
    pub(crate) nonce: Option<Value>,
    pub(crate) user_info: Value,
    /// Further members of the token response, which replace others. Null removes a member.
    pub(crate) token_members: Value,
    /// Answers that replace those of the provider, by path.
    pub(crate) answers: BTreeMap<String, Answer>,
    pub(crate) received: Vec<Received>,
    /// Connections that wait for an answer.
    pub(crate) silent: Vec<TcpStream>,
    /// Sign-ins by their codes.
    codes: BTreeMap<String, BTreeMap<String, String>>,
}

pub(crate) struct FakeProvider {
    pub(crate) issuer: String,
    fake: Arc<Mutex<Fake>>,
    files: TempDir,
}

impl FakeProvider {
    pub(crate) fn start() -> Self {
        Self::start_with(FakeKey::ec())
    }

    pub(crate) fn start_with(key: Arc<FakeKey>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let at = |path: &str| format!("{issuer}{path}");
        let metadata = json!({
            "issuer": issuer, "authorization_endpoint": at("/authorize?tenant=1"), "token_endpoint": at("/token"),
            "jwks_uri": at("/jwks"), "userinfo_endpoint": at("/userinfo"), "end_session_endpoint": at("/logout"),
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "EdDSA", "HS256", "none"],
        });
        let claims = json!({
            "iss": issuer, "sub": "u-1", "aud": CLIENT_ID, "iat": NOW.seconds(), "exp": NOW.seconds() + 300,
            "name": "Zeynep Ak", "email": "zeynep@example.com", "email_verified": true, "groups": ["staff"],
        });
        let fake = Fake {
            metadata,
            jwks: vec![key.jwk("k1")],
            header: json!({ "alg": key.algorithm(), "kid": "k1", "typ": "JWT" }),
            key,
            claims,
            nonce: None,
            user_info: json!({ "sub": "u-1" }),
            token_members: json!({}),
            answers: BTreeMap::new(),
            received: Vec::new(),
            silent: Vec::new(),
            codes: BTreeMap::new(),
        };
        let fake = Arc::new(Mutex::new(fake));
        let serving = Arc::clone(&fake);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let fake = Arc::clone(&serving);
                std::thread::spawn(move || serve(socket.unwrap(), &fake));
            }
        });
        let files = tempfile::tempdir().unwrap();
        write_secret(&files.path().join("secret"), SECRET);
        Self { issuer, fake, files }
    }

    pub(crate) fn change(&self) -> MutexGuard<'_, Fake> {
        self.fake.lock().unwrap()
    }

    /// Closes the connections that wait for an answer, and gives no further answers.
    pub(crate) fn hang_up(&self) {
        let mut fake = self.change();
        for socket in fake.silent.drain(..) {
            // The client may have closed the connection.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        fake.answers.insert("/token".into(), Answer::Json(503, String::new()));
    }

    /// Returns the requests with this path.
    pub(crate) fn received(&self, path: &str) -> Vec<Received> {
        self.change().received.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Returns the text of a configuration. `more` has further lines of the table.
    pub(crate) fn config(&self, more: &str) -> String {
        let line = |key: &str, line: &str| if more.contains(key) { String::new() } else { format!("{line}\n") };
        format!(
            "issuer = \"https://id.test\"\nhsm = {{ module = \"m\", token_label = \"t\", pin_file = \"p\" }}\n\
             store.path = \"s\"\n[server]\nlisten = [\"127.0.0.1:80\"]\ntls = {{ certificate = \"c\", key = \"k\" }}\n\
             [[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:1\"]\n\
             [[app.route]]\npath = \"/\"\naccess = \"public\"\n\
             [[upstream]]\nname = \"op\"\nissuer = {:?}\nclient_id = {CLIENT_ID:?}\n{}{}{}{}{more}\n",
            self.issuer,
            line("client_key", "client_secret_file = \"secret\""),
            line("timeout_seconds", "timeout_seconds = 20"),
            line("groups_claim", "groups_claim = \"groups\""),
            line("domains", "domains = [\"example.com\"]"),
        )
    }

    /// Returns the directory of the secret file.
    pub(crate) fn place(&self) -> &Path {
        self.files.path()
    }

    /// Parses the settings.
    pub(crate) fn settings(&self, more: &str) -> UpstreamSettings {
        let config = Config::parse(&self.config(more), self.place()).unwrap_or_else(|faults| panic!("{faults:#?}"));
        config.upstreams.into_iter().next().unwrap()
    }

    pub(crate) fn open(&self) -> Client {
        self.open_with("")
    }

    pub(crate) fn open_with(&self, more: &str) -> Client {
        self.open_with_key(more, FakeKey::ec())
    }

    pub(crate) fn open_with_key(&self, more: &str, key: Arc<FakeKey>) -> Client {
        let clock = Arc::new(FixedClock::at(NOW));
        let provider = OpenIdProvider::open(&self.settings(more), key, Arc::<FixedClock>::clone(&clock)).unwrap();
        Client { provider, clock }
    }

    pub(crate) fn replace_secret(&self, secret: &str) {
        write_secret(&self.files.path().join("secret"), secret);
    }

    /// Signs a user in, as a browser does with the URL, and returns the code.
    pub(crate) fn authorize(&self, url: &str) -> String {
        let url = Url::parse(url).unwrap();
        assert_eq!(format!("{}/authorize", self.issuer), url[..url::Position::AfterPath]);
        let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
        let code = format!("code+/{}", self.change().codes.len());
        self.change().codes.insert(code.clone(), query);
        code
    }
}

fn write_secret(path: &Path, secret: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, secret).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// This server as a client of the provider.
pub(crate) struct Client {
    pub(crate) provider: OpenIdProvider,
    pub(crate) clock: Arc<FixedClock>,
}

/// Secrets of a trip.
pub(crate) struct Secrets {
    state: Secret,
    nonce: Secret,
    code_verifier: Secret,
}

impl Secrets {
    pub(crate) fn new(name: &str) -> Self {
        let secret =
            |kind: &str| Secret::from_random(SecretHash::for_secret(format!("{kind} {name}").as_bytes()).as_bytes());
        Self { state: secret("state"), nonce: secret("nonce"), code_verifier: secret("verifier") }
    }

    pub(crate) fn trip(&self) -> Trip<'_> {
        Trip {
            redirect_uri: REDIRECT_URI,
            state: &self.state,
            nonce: &self.nonce,
            code_verifier: &self.code_verifier,
            prompt: None,
            max_age: None,
            login_hint: None,
            acr_values: None,
        }
    }
}

pub(crate) fn with_code(code: &str) -> CallbackAnswer<'_> {
    CallbackAnswer { code: Some(code), error: None, iss: None }
}

impl Client {
    /// Signs in at the provider.
    pub(crate) async fn sign_in(&self, fake: &FakeProvider) -> Result<UpstreamSignIn, UpstreamRefusal> {
        let secrets = Secrets::new("one");
        self.sign_in_on(fake, &secrets.trip()).await
    }

    pub(crate) async fn sign_in_on(
        &self,
        fake: &FakeProvider,
        trip: &Trip<'_>,
    ) -> Result<UpstreamSignIn, UpstreamRefusal> {
        let url = self.provider.authorization_url(trip).await?;
        let code = fake.authorize(&url);
        self.provider.sign_in(&with_code(&code), trip).await
    }
}

/// Returns the name of the refusal of an invalid answer.
pub(crate) fn invalid(result: Result<UpstreamSignIn, UpstreamRefusal>) -> &'static str {
    match result {
        Err(UpstreamRefusal::Invalid(reason)) => UpstreamInvalid::as_str(reason),
        other => panic!("{other:?}"),
    }
}

/// Returns the text of the error with which the provider has refused one request.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, UpstreamRefusal>) -> String {
    match result {
        Err(UpstreamRefusal::Refused(fault)) => format!("{}: {fault}", fault.kind().as_str()),
        other => panic!("{other:?}"),
    }
}

/// Returns the text of the fault of a provider that did not decide.
pub(crate) fn unavailable<T: std::fmt::Debug>(result: Result<T, UpstreamRefusal>) -> String {
    match result {
        Err(UpstreamRefusal::Unavailable(fault)) => format!("{}: {fault}", fault.kind().as_str()),
        other => panic!("{other:?}"),
    }
}

fn serve(mut socket: TcpStream, fake: &Mutex<Fake>) {
    socket.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    while let Some(request) = receive(&mut socket) {
        let answer = {
            let mut fake = fake.lock().unwrap();
            fake.received.push(request.clone());
            fake.answers.get(&request.path).cloned().unwrap_or_else(|| fake.answer(&request))
        };
        let (status, headers, body) = match answer {
            Answer::Json(status, body) => (status, "Content-Type: application/json\r\n".to_owned(), body),
            Answer::Raw(status, headers, body) => (status, headers, body),
            Answer::Silence => {
                fake.lock().unwrap().silent.push(socket.try_clone().unwrap());
                let _ = socket.read(&mut [0; 1]);
                return;
            }
        };
        let head = format!("HTTP/1.1 {status} Status\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        if socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body.as_bytes())).is_err() {
            return;
        }
    }
}

fn receive(socket: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if socket.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (first.next()?, first.next()?);
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).ok()?;
    Some(Received { method, path, headers, body: String::from_utf8(body).unwrap() })
}

impl Fake {
    fn answer(&mut self, request: &Received) -> Answer {
        let json = |value: &Value| Answer::Json(200, value.to_string());
        match request.path.as_str() {
            "/.well-known/openid-configuration" => json(&self.metadata),
            "/jwks" => json(&json!({ "keys": self.jwks })),
            "/userinfo" if request.headers.get("authorization").map(String::as_str) == Some("Bearer access-1") => {
                json(&self.user_info)
            }
            "/token" => self.tokens(request),
            _ => Answer::Json(404, "{}".to_owned()),
        }
    }

    fn tokens(&mut self, request: &Received) -> Answer {
        let form = request.form();
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        let nonce = match field("grant_type").as_str() {
            "refresh_token" if field("refresh_token") == "refresh-1" => None,
            "authorization_code" => {
                // Each code is for one use, by the client that knows the verifier.
                let Some(asked) = self.codes.remove(&field("code")) else {
                    return Answer::Json(400, json!({ "error": "invalid_grant" }).to_string());
                };
                let challenge = base64url(SecretHash::for_secret(field("code_verifier").as_bytes()).as_bytes());
                if challenge != asked["code_challenge"] || field("redirect_uri") != asked["redirect_uri"] {
                    return Answer::Json(400, json!({ "error": "invalid_grant" }).to_string());
                }
                Some(Value::from(asked["nonce"].clone()))
            }
            _ => return Answer::Json(400, json!({ "error": "invalid_grant" }).to_string()),
        };
        let mut claims = self.claims.clone();
        if let Some(nonce) = self.nonce.clone().or(nonce) {
            claims["nonce"] = nonce;
        }
        let mut members = json!({
            "access_token": "access-1", "token_type": "bearer", "refresh_token": "refresh-1",
            "id_token": self.key.token(&self.header, &claims),
        });
        for (name, value) in self.token_members.as_object().unwrap() {
            members[name.as_str()] = value.clone();
        }
        let members: Map<_, _> =
            members.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
        Answer::Json(200, Value::from(members).to_string())
    }
}
