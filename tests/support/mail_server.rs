//! Mail server for tests, which accepts e-mails over SMTP and can simulate failures.
//!
//! It runs on its own thread, so that sync and async tests can wait for e-mails.
#![allow(dead_code, reason = "each test target uses a part of it")]

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail_parser::MessageParser;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Maximum time that a test waits for an e-mail.
const PATIENCE: Duration = Duration::from_secs(20);

/// TLS mode of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Clear,
    StartTls,
    Implicit,
}

/// Simulated failures, which may change while the server runs.
#[expect(clippy::struct_excessive_bools, reason = "each is an illness of its own")]
#[derive(Debug, Clone, Default)]
pub(crate) struct Illness {
    /// Whether the server accepts connections and sends nothing.
    pub(crate) silent: bool,
    /// Delay before each byte that the server sends.
    pub(crate) slow: Option<Duration>,
    /// Answers that differ from the default, by command: `GREETING`, `EHLO`, `AUTH`, `MAIL`,
    /// `RCPT`, `DATA`, `END` (of the e-mail).
    pub(crate) answers: Vec<(&'static str, String)>,
    /// Answer to `RCPT` of one address.
    pub(crate) recipient: Option<(&'static str, String)>,
    /// Whether the server stores the e-mail and closes the connection before it answers.
    pub(crate) closes_after_data: bool,
    /// Whether the server offers no STARTTLS.
    pub(crate) hides_tls: bool,
    /// Command to which the server sends an endless answer.
    pub(crate) endless: Option<&'static str>,
    /// Whether the server sends a second answer right after its answer to STARTTLS, still in
    /// plaintext.
    pub(crate) injects: bool,
}

impl Illness {
    pub(crate) fn about(address: &'static str, line: &str) -> Self {
        Self { recipient: Some((address, line.to_owned())), ..Self::default() }
    }

    pub(crate) fn answering(command: &'static str, line: &str) -> Self {
        Self { answers: vec![(command, line.to_owned())], ..Self::default() }
    }
}

/// A received e-mail.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Sender and recipients from the envelope, in the order of the commands.
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) hello: String,
    pub(crate) encrypted: bool,
    /// The authenticated user.
    pub(crate) user: Option<String>,
    pub(crate) raw: String,
}

impl Received {
    fn part(&self, read: impl FnOnce(&mail_parser::Message<'_>) -> Option<String>) -> String {
        let message = MessageParser::default().parse(self.raw.as_bytes()).expect("a mail");
        read(&message).expect("the mail has it")
    }

    pub(crate) fn subject(&self) -> String {
        self.part(|message| message.subject().map(str::to_owned))
    }

    pub(crate) fn text(&self) -> String {
        self.part(|message| message.body_text(0).map(|text| text.replace("\r\n", "\n")))
    }

    pub(crate) fn html(&self) -> String {
        self.part(|message| message.body_html(0).map(|html| html.replace("\r\n", "\n")))
    }

    /// Returns a header field as sent, unfolded; `None` if it is absent.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let head = self.raw.split("\r\n\r\n").next()?.replace("\r\n ", " ").replace("\r\n\t", " ");
        let mut fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }

    /// Returns the first URL in the text.
    pub(crate) fn link(&self) -> String {
        let text = self.text();
        let start = text.find("http").unwrap_or_else(|| panic!("no link in {text}"));
        text[start..].split_whitespace().next().unwrap().to_owned()
    }

    /// Returns the verification code in the text, without the space in it.
    pub(crate) fn code(&self) -> String {
        let text = self.text();
        let line = text.lines().find(|line| line.starts_with("    ")).unwrap_or_else(|| panic!("no code in {text}"));
        line.replace(' ', "")
    }
}

#[derive(Default)]
struct State {
    illness: Illness,
    mails: Vec<Received>,
    connections: usize,
    /// Everything that clients sent in plaintext.
    overheard: String,
}

pub(crate) struct MailServer {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
    directory: tempfile::TempDir,
    // Dropped with the server, which ends its thread.
    _end: tokio::sync::oneshot::Sender<()>,
}

impl MailServer {
    /// Starts a server on 127.0.0.1, in plaintext, without authentication.
    pub(crate) fn start() -> Self {
        Self::speaking(Speaks::Clear)
    }

    /// Starts a server with a certificate for `localhost`; [`Self::certificate`] is its trust
    /// anchor.
    pub(crate) fn speaking(speaks: Speaks) -> Self {
        Self::with(speaks, "localhost", None)
    }

    /// Starts a server. `name`: subject of its certificate. `account`: required name and password.
    pub(crate) fn with(speaks: Speaks, name: &str, account: Option<(&str, &str)>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let acceptor = (speaks != Speaks::Clear).then(|| acceptor(directory.path(), name));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let (end, ended) = tokio::sync::oneshot::channel();
        let account = account.map(|(user, password)| (user.to_owned(), password.to_owned()));
        let session = Session { state: Arc::clone(&state), speaks, acceptor, account };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let accepting = async {
                    while let Ok((socket, _)) = listener.accept().await {
                        let session = session.clone();
                        // Ignore clients that disconnect early.
                        tokio::spawn(async move { drop(session.serve(socket).await) });
                    }
                };
                tokio::select! { () = accepting => {}, _ = ended => {} }
            });
        });
        Self { port, state, directory, _end: end }
    }

    /// Returns the path of the certificate in PEM, as `ca_file` expects it.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    pub(crate) fn is_now(&self, illness: Illness) {
        self.state.lock().unwrap().illness = illness;
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    pub(crate) fn overheard(&self) -> String {
        self.state.lock().unwrap().overheard.clone()
    }

    pub(crate) fn mails(&self) -> Vec<Received> {
        self.state.lock().unwrap().mails.clone()
    }

    /// Returns the e-mails to this address in the order of their arrival.
    pub(crate) fn mails_to(&self, address: &str) -> Vec<Received> {
        let mut mails = self.mails();
        mails.retain(|mail| mail.to.iter().any(|to| to.eq_ignore_ascii_case(address)));
        mails
    }

    /// Waits for `count` e-mails to this address and returns the newest.
    pub(crate) async fn wait_for_mails_to(&self, address: &str, count: usize) -> Received {
        let start = Instant::now();
        loop {
            let mails = self.mails_to(address);
            if let Some(mail) = mails.last().filter(|_| mails.len() >= count) {
                return mail.clone();
            }
            let all: Vec<_> = self.mails().iter().map(|mail| (mail.to.clone(), mail.subject())).collect();
            assert!(start.elapsed() < PATIENCE, "{} of {count} mails to {address} came; all: {all:?}", mails.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for an e-mail to this address and returns the newest.
    pub(crate) async fn wait_for_mail_to(&self, address: &str) -> Received {
        self.wait_for_mails_to(address, 1).await
    }

    /// Blocking variant of [`Self::wait_for_mail_to`], for tests that are not async.
    pub(crate) fn await_mail_to(&self, address: &str) -> Received {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(self.wait_for_mail_to(address))
    }
}

fn acceptor(directory: &Path, name: &str) -> TlsAcceptor {
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"])
        .args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")])
        // The default of `openssl req -x509`.
        .args(["-addext", "basicConstraints=critical,CA:TRUE"])
        .arg("-out")
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .output()
        .expect("openssl is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let chain = CertificateDer::pem_file_iter(&certificate).unwrap().map(Result::unwrap).collect();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&key).unwrap())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[derive(Clone)]
struct Session {
    state: Arc<Mutex<State>>,
    speaks: Speaks,
    acceptor: Option<TlsAcceptor>,
    account: Option<(String, String)>,
}

/// Continuation of a session after its commands.
enum End {
    Over,
    StartTls,
}

impl Session {
    async fn serve(self, mut socket: TcpStream) -> io::Result<()> {
        self.state.lock().unwrap().connections += 1;
        if self.illness().silent {
            std::future::pending::<()>().await;
        }
        match (&self.acceptor, self.speaks) {
            (Some(acceptor), Speaks::Implicit) => {
                let stream = acceptor.accept(socket).await?;
                self.converse(stream, true, true).await.map(drop)
            }
            (Some(acceptor), _) => match self.converse(&mut socket, false, true).await? {
                End::Over => Ok(()),
                End::StartTls => {
                    let stream = acceptor.accept(socket).await?;
                    self.converse(stream, true, false).await.map(drop)
                }
            },
            (None, _) => self.converse(socket, false, true).await.map(drop),
        }
    }

    fn illness(&self) -> Illness {
        self.state.lock().unwrap().illness.clone()
    }

    async fn say(&self, stream: &mut (impl AsyncWrite + Unpin), command: &str, line: &str) -> io::Result<()> {
        let illness = self.illness();
        if illness.endless == Some(command) {
            loop {
                stream.write_all(&[b'x'; 4096]).await?;
            }
        }
        let instead = illness.answers.iter().find(|(other, _)| *other == command).map(|(_, line)| line.as_str());
        let line = format!("{}\r\n", instead.unwrap_or(line));
        let Some(pause) = illness.slow else { return stream.write_all(line.as_bytes()).await };
        for byte in line.bytes() {
            tokio::time::sleep(pause).await;
            stream.write_all(&[byte]).await?;
        }
        Ok(())
    }

    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        encrypted: bool,
        greets: bool,
    ) -> io::Result<End> {
        let mut stream = BufReader::new(stream);
        let (mut hello, mut from, mut to, mut user) = (String::new(), String::new(), Vec::new(), None);
        if greets {
            self.say(&mut stream, "GREETING", "220 mail.test ESMTP").await?;
        }
        loop {
            let line = self.line(&mut stream, encrypted).await?;
            let (verb, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
            let address = || rest.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
            match verb.to_ascii_uppercase().as_str() {
                "EHLO" => {
                    rest.clone_into(&mut hello);
                    let mut offers = vec!["250-mail.test", "250-8BITMIME"];
                    if self.speaks == Speaks::StartTls && !encrypted && !self.illness().hides_tls {
                        offers.push("250-STARTTLS");
                    }
                    offers.extend(self.account.as_ref().map(|_| "250-AUTH PLAIN LOGIN"));
                    offers.push("250 SIZE 1000000");
                    self.say(&mut stream, "EHLO", &offers.join("\r\n")).await?;
                }
                "STARTTLS" => {
                    let more = if self.illness().injects { "\r\n250 injected" } else { "" };
                    self.say(&mut stream, "STARTTLS", &format!("220 go on{more}")).await?;
                    return Ok(End::StartTls);
                }
                "AUTH" => {
                    let given = rest.strip_prefix("PLAIN ").and_then(|given| BASE64_STANDARD.decode(given).ok());
                    let given = given.map(|given| String::from_utf8(given).unwrap()).unwrap_or_default();
                    let right = self.account.as_ref().is_some_and(|(name, word)| given == format!("\0{name}\0{word}"));
                    user = right.then(|| given.split('\0').nth(1).unwrap().to_owned());
                    let answer = if right { "235 2.7.0 welcome" } else { "535 5.7.8 authentication failed" };
                    self.say(&mut stream, "AUTH", answer).await?;
                }
                "MAIL" if self.account.is_some() && user.is_none() => {
                    self.say(&mut stream, "MAIL", "530 5.7.0 authentication required").await?;
                }
                "MAIL" => {
                    from = address();
                    self.say(&mut stream, "MAIL", "250 2.1.0 ok").await?;
                }
                "RCPT" => {
                    let address = address();
                    let about = self.illness().recipient.filter(|(other, _)| *other == address);
                    let answer = about.map_or_else(|| "250 2.1.5 ok".to_owned(), |(_, line)| line);
                    to.push(address);
                    self.say(&mut stream, "RCPT", &answer).await?;
                }
                "DATA" => {
                    let is_refusing = self.illness().answers.iter().any(|(command, _)| *command == "DATA");
                    self.say(&mut stream, "DATA", "354 go on").await?;
                    if is_refusing {
                        continue;
                    }
                    let mut raw = String::new();
                    loop {
                        let line = self.line(&mut stream, encrypted).await?;
                        if line == "." {
                            break;
                        }
                        raw += line.strip_prefix('.').unwrap_or(&line);
                        raw += "\r\n";
                    }
                    let illness = self.illness();
                    let refused =
                        illness.answers.iter().any(|(command, line)| *command == "END" && !line.starts_with('2'));
                    if !refused {
                        let (from, to, user) = (std::mem::take(&mut from), std::mem::take(&mut to), user.clone());
                        let mail = Received { from, to, hello: hello.clone(), encrypted, user, raw };
                        self.state.lock().unwrap().mails.push(mail);
                    }
                    if illness.closes_after_data {
                        return Ok(End::Over);
                    }
                    self.say(&mut stream, "END", "250 2.0.0 Ok: queued as 1A2B3C").await?;
                }
                "NOOP" => self.say(&mut stream, "NOOP", "250 ok").await?,
                "QUIT" => {
                    self.say(&mut stream, "QUIT", "221 bye").await?;
                    return Ok(End::Over);
                }
                _ => self.say(&mut stream, "UNKNOWN", "500 what").await?,
            }
        }
    }

    async fn line(&self, stream: &mut (impl AsyncBufReadExt + Unpin), encrypted: bool) -> io::Result<String> {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !encrypted {
            self.state.lock().unwrap().overheard += &line;
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}
