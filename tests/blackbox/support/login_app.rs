//! Application for the tests of `login`: it has a login form and sessions.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Recipe for this application. Signed-out users see the login form with the status 200.
pub(crate) const RECIPE: &str = r#"
page = "/login"
fields = { user = "{user}", pass = "{password}" }
probe = "/me"
user_in_body = true
success = { status = [200], body = "signed in as" }
failure = { status = [200], body = "wrong username or password" }
expired = [{ status = [302], location = "^/login$" }, { status = [200], body = 'name="pass"' }]
[logout]
from = "/me"
token = 'token=([0-9]+)'
path = "/leave?what=all&token={token}"
"#;

#[derive(Default)]
struct State {
    passwords: HashMap<String, String>,
    sessions: HashMap<String, String>,
    /// Requests: method, target and cookies.
    requests: Vec<String>,
    sign_ins: usize,
    wrong_passwords: usize,
    sign_outs: usize,
    saved: Vec<String>,
    /// Whether the application answers with 500.
    is_broken: bool,
    /// Time until the probe's page is answered.
    probe_delay: Duration,
}

/// A running application.
#[derive(Clone)]
pub(crate) struct LoginApp {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    next: Arc<AtomicUsize>,
}

impl LoginApp {
    /// Starts an application with these users.
    pub(crate) fn start(users: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
            next: Arc::new(AtomicUsize::new(1000)),
        };
        for (user, password) in users {
            app.set_password(user, password);
        }
        let serving = app.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, app) = (connection.unwrap(), serving.clone());
                thread::spawn(move || app.serve(&connection));
            }
        });
        app
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set_password(&self, user: &str, password: &str) {
        self.state.lock().unwrap().passwords.insert(user.to_owned(), password.to_owned());
    }

    /// Forgets all sessions, as after a restart.
    pub(crate) fn forget_sessions(&self) {
        self.state.lock().unwrap().sessions.clear();
    }

    /// Mixes up the sessions: all belong to this user.
    pub(crate) fn give_sessions_to(&self, user: &str) {
        self.state.lock().unwrap().sessions.values_mut().for_each(|owner| user.clone_into(owner));
    }

    pub(crate) fn set_broken(&self, is_broken: bool) {
        self.state.lock().unwrap().is_broken = is_broken;
    }

    pub(crate) fn set_probe_delay(&self, delay: Duration) {
        self.state.lock().unwrap().probe_delay = delay;
    }

    pub(crate) fn sign_ins(&self) -> usize {
        self.state.lock().unwrap().sign_ins
    }

    pub(crate) fn wrong_passwords(&self) -> usize {
        self.state.lock().unwrap().wrong_passwords
    }

    pub(crate) fn sign_outs(&self) -> usize {
        self.state.lock().unwrap().sign_outs
    }

    pub(crate) fn sessions(&self) -> usize {
        self.state.lock().unwrap().sessions.len()
    }

    pub(crate) fn saved(&self) -> Vec<String> {
        self.state.lock().unwrap().saved.clone()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    fn serve(&self, connection: &TcpStream) {
        let mut reader = BufReader::new(connection);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line == "\r\n" => break,
                Ok(_) => head.push(line.trim_end().to_owned()),
            }
        }
        let header = |name: &str| {
            let mut fields = head.iter().filter_map(|line| line.split_once(": "));
            fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let body = String::from_utf8(body).unwrap();
        let line = head[0].trim_end_matches(" HTTP/1.1").to_owned();
        let cookies = header("cookie").unwrap_or_default();
        let answer = self.answer(&line, &cookies, &body);
        let _ = (&*connection).write_all(answer.as_bytes());
    }

    fn answer(&self, line: &str, cookies: &str, body: &str) -> String {
        if line == "GET /slow" {
            thread::sleep(Duration::from_millis(300));
        }
        if line == "GET /me" {
            let delay = self.state.lock().unwrap().probe_delay;
            thread::sleep(delay);
        }
        let mut state = self.state.lock().unwrap();
        state.requests.push(format!("{line} [{cookies}]"));
        if state.is_broken {
            return reply("500 Internal Server Error", &[], "broken");
        }
        let cookie = |name: &str| {
            let mut pairs = cookies.split("; ").filter_map(|pair| pair.split_once('='));
            pairs.find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
        };
        let session = cookie("sid").and_then(|sid| Some((state.sessions.get(&sid)?.clone(), sid)));
        let number = || self.next.fetch_add(1, Ordering::SeqCst);
        let form = |error: &str, number: usize| {
            let set = format!("Set-Cookie: pre={number}; Path=/login; HttpOnly");
            let form = format!(
                "{error}<form method=\"post\"><input type=\"hidden\" name=\"token\" value=\"{number}\">\
                 <input name=\"user\"><input type=\"password\" name=\"pass\"></form>"
            );
            reply("200 OK", &[&set, "Content-Type: text/html; charset=utf-8"], &form)
        };
        match (line, session) {
            ("GET /login", _) => form("", number()),
            ("POST /login", _) => {
                let fields: HashMap<_, _> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
                assert_eq!(cookie("pre").as_ref(), Some(&fields["token"]), "the form and its cookie belong together");
                if state.passwords.get(&fields["user"]) != Some(&fields["pass"]) {
                    state.wrong_passwords += 1;
                    return form("<p>wrong username or password</p>", number());
                }
                state.sign_ins += 1;
                let sid = format!("secret-{}", number());
                state.sessions.insert(sid.clone(), fields["user"].clone());
                let cookies = [
                    format!("Set-Cookie: sid={sid}; Path=/; HttpOnly; SameSite=Strict"),
                    format!("Set-Cookie: xsrf=x{}; Path=/", number()),
                ];
                reply("302 Found", &["Location: /me", &cookies[0], &cookies[1]], "")
            }
            (line, None) if line.starts_with("GET /leave") => reply("302 Found", &["Location: /login"], ""),
            ("POST /save", None) => reply("302 Found", &["Location: /login"], ""),
            (line, None) if line.starts_with("GET /redirecting") => reply("302 Found", &["Location: /login"], ""),
            (_, None) => form("", number()),
            ("GET /me", Some((user, sid))) => {
                page(&format!("signed in as <b>{user}</b>, token={}", sid.trim_start_matches("secret-")))
            }
            (line, Some((_, sid))) if line.starts_with("GET /leave") => {
                let token = sid.trim_start_matches("secret-");
                assert_eq!(line, format!("GET /leave?what=all&token={token}"));
                state.sign_outs += 1;
                state.sessions.remove(&sid);
                reply("302 Found", &["Location: /login"], "")
            }
            ("POST /save", Some((user, _))) => {
                state.saved.push(format!("{user}: {body}"));
                reply("302 Found", &["Location: /"], "")
            }
            ("GET /forbidden", Some(_)) => reply("302 Found", &["Location: /login"], ""),
            (_, Some((user, _))) => {
                let rotated = format!("Set-Cookie: last=secret-{}; Path=/", number());
                let body = format!("user={user}; the field name=\"pass\" of a page of the application");
                reply("200 OK", &[&rotated, "Content-Type: text/html"], &body)
            }
        }
    }
}

fn page(body: &str) -> String {
    reply("200 OK", &["Content-Type: text/html"], body)
}

fn reply(status: &str, headers: &[&str], body: &str) -> String {
    let length = format!("Content-Length: {}", body.len());
    let status = format!("HTTP/1.1 {status}");
    format!("{}\r\n\r\n{body}", [&[&status, "Connection: close", &length], headers].concat().join("\r\n"))
}
