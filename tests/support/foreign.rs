//! Foreign issuer: its keys, its tokens, and a server that publishes the keys, correctly or not.

#![allow(dead_code, reason = "each program of tests uses a part of this")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use sealgate_domain::secret::base64url;
use serde_json::{Value, json};

/// A key pair of the issuer.
pub(crate) struct Key {
    pub(crate) kid: String,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    pub(crate) fn rsa(kid: &str) -> Self {
        Self { kid: kid.into(), pair: Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()) }
    }

    pub(crate) fn p256(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { kid: kid.into(), pair: Pair::P256(pair) }
    }

    pub(crate) fn ed25519(kid: &str) -> Self {
        Self { kid: kid.into(), pair: Pair::Ed25519(Ed25519KeyPair::generate().unwrap()) }
    }

    /// Returns the public key as the issuer publishes it.
    pub(crate) fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let (n, e) = numbers(pair);
                json!({ "kty": "RSA", "use": "sig", "kid": self.kid, "n": base64url(&n), "e": base64url(&e) })
            }
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": self.kid, "x": base64url(x), "y": base64url(y) })
            }
            Pair::Ed25519(pair) => {
                let x = base64url(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": x })
            }
        }
    }

    /// Returns the bytes of the public part, which an operator may use as a secret by mistake.
    pub(crate) fn public_bytes(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Pair::P256(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// Returns an access token with these claims, signed with the key's usual algorithm.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let algorithm = match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        };
        self.token_with(&json!({ "alg": algorithm, "typ": "at+jwt", "kid": self.kid }), claims)
    }

    /// Returns a token with this header; `alg` determines how an RSA key signs.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.token_of(&header.to_string(), &claims.to_string(), header["alg"] == "PS256")
    }

    /// Returns a token with these texts as header and claims.
    pub(crate) fn token_of(&self, header: &str, claims: &str, pss: bool) -> String {
        let input = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding =
                    if pss { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &random, input.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) => pair.sign(&random, input.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(input.as_bytes()).as_ref().to_vec(),
        };
        format!("{input}.{}", base64url(&signature))
    }
}

/// Returns modulus and exponent of a 2048-bit key from its `RSAPublicKey` in DER.
fn numbers(pair: &RsaKeyPair) -> (Vec<u8>, Vec<u8>) {
    let der = pair.public_key().as_ref();
    let (modulus, rest) = der[9..].split_at(256);
    (modulus.to_vec(), rest[2..].to_vec())
}

/// Returns a JWK Set of these keys.
pub(crate) fn key_set(keys: &[&Key]) -> Value {
    json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() })
}

/// Response of a publisher.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// The server sends these bytes for any path, with additional header lines.
    Bytes(String, Vec<u8>),
    /// A value for each path; 404 for other paths.
    ByPath(Vec<(String, Value)>),
    /// The server sends this status line and only a `Location` header.
    Status(&'static str, String),
    /// The header section, then an endless body with one byte per second.
    Trickle,
    /// A response of this many bytes.
    Huge(usize),
}

impl Answer {
    /// Returns the response with a JWK Set of these keys.
    pub(crate) fn keys(keys: &[&Key]) -> Self {
        Self::Bytes(String::new(), key_set(keys).to_string().into_bytes())
    }
}

/// Web server that publishes keys. It stops when dropped.
pub(crate) struct Publisher {
    address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Starts a publisher with this response.
    pub(crate) fn start(answer: Answer) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), answer)
    }

    /// Starts a publisher at the address of a previous one.
    pub(crate) fn start_at(address: SocketAddr, answer: Answer) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(answer));
        let asked = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (answers, count, stopped) = (Arc::clone(&answer), Arc::clone(&asked), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answers.lock().unwrap().clone();
                let stopped = Arc::clone(&stopped);
                std::thread::spawn(move || serve(stream, &answer, &stopped));
            }
        });
        Self { address, answer, asked, stop, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of a path on it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the response.
    pub(crate) fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Returns the number of requests.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then releases the port.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, stopped: &std::sync::atomic::AtomicBool) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) if head.len() < 16_384 => head.push(byte[0]),
            _ => return,
        }
    }
    let path = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned();
    let mut ok = |fields: &str, body: &[u8]| {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n{fields}\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    };
    match answer {
        Answer::Bytes(fields, body) => ok(fields, body),
        Answer::ByPath(documents) => match documents.iter().find(|(known, _)| *known == path) {
            Some((_, document)) => ok("", document.to_string().as_bytes()),
            None => status(&mut stream, "404 Not Found", ""),
        },
        Answer::Status(line, location) => status(&mut stream, line, location),
        Answer::Trickle => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n");
            while !stopped.load(Ordering::SeqCst) && stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        Answer::Huge(bytes) => ok("", &vec![b' '; *bytes]),
    }
}

fn status(stream: &mut TcpStream, line: &str, location: &str) {
    let location = if location.is_empty() { String::new() } else { format!("Location: {location}\r\n") };
    let head = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n{location}\r\n");
    let _ = stream.write_all(head.as_bytes());
}
