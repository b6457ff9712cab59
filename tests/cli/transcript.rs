//! Compares the complete output of every command with the files in `tests/cli/transcript`.
//!
//! Commands run without a server and through a server's socket, as JSON and as text. Values that
//! differ between runs are written as `<name>`. Set `KEEP_TRANSCRIPTS` in the environment to
//! rewrite the files.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::secret::base64url;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::{AppPasswordAdded, ExportRecord, Store};
use sealgate_system::clock::{OsEntropy, random};
use serde_json::json;

use crate::factors;
use crate::grants::allow;
use crate::serve::Server;
use crate::server::{Served, grant, sign_in};
use crate::site::{OTHER_PASSWORD, PASSWORD, Site};

/// Commands and their output.
struct Transcript {
    site: Arc<Site>,
    json: bool,
    text: String,
    /// Values that differ between runs, in the order of their first appearance.
    known: Vec<String>,
}

impl Transcript {
    fn new(site: Arc<Site>, json: bool) -> Self {
        Self { site, json, text: String::new(), known: Vec::new() }
    }

    /// Runs a command and records its output.
    async fn run(&mut self, line: &str) -> String {
        self.run_with(line, "").await
    }

    /// Runs a command with this standard input. Two spaces separate the arguments.
    async fn run_with(&mut self, line: &str, stdin: &str) -> String {
        let mut arguments: Vec<String> = line.split("  ").map(str::to_owned).collect();
        if self.json {
            arguments.push("--json".to_owned());
        }
        let (site, stdin) = (Arc::clone(&self.site), stdin.to_owned());
        let run = move || site.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &stdin);
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let line = self.constant(line);
        writeln!(self.text, "$ {line}").unwrap();
        let (told, errors) = (self.constant(&printed), self.constant(&String::from_utf8(output.stderr).unwrap()));
        self.text.push_str(&told);
        self.text.extend(errors.lines().map(|line| format!("2> {line}\n")));
        if let Some(status) = output.status.code().filter(|status| *status != 0) {
            writeln!(self.text, "exit status {status}").unwrap();
        }
        printed
    }

    /// Replaces the values that differ between runs.
    fn constant(&mut self, text: &str) -> String {
        let directory = self.site.store_directory().parent().unwrap().display().to_string();
        let mut rest = text.replace(&directory, "<directory>");
        rest = without_measurements(&rest);
        rest = rest.replace(&self.site.socket().display().to_string(), "<socket>");
        let mut constant = String::new();
        while let Some(start) = rest.find(is_of_word) {
            let end = rest[start..].find(|char| !is_of_word(char)).map_or(rest.len(), |length| start + length);
            let word = rest[start..end].trim_matches([':', '.']);
            let (before, after) = rest[start..end].split_once(word).unwrap();
            let (before, word, after) = (before.to_owned(), word.to_owned(), after.to_owned());
            constant.push_str(&rest[..start]);
            constant.extend([before, self.constant_word(&word), after]);
            rest.replace_range(..end, "");
        }
        constant + &rest
    }

    fn constant_word(&mut self, word: &str) -> String {
        if is_time(word) {
            return "<time>".to_owned();
        }
        if word == env!("CARGO_PKG_VERSION") {
            return "<version>".to_owned();
        }
        if !is_random(word) {
            return word.to_owned();
        }
        let number = self.known.iter().position(|known| known == word).unwrap_or_else(|| {
            self.known.push(word.to_owned());
            self.known.len() - 1
        });
        format!("<{number}>")
    }

    /// Compares the transcript with the file of this name.
    fn compare_with(self, file: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/transcript").join(file);
        if env::var_os("KEEP_TRANSCRIPTS").is_some() {
            fs::write(path, self.text).unwrap();
            return;
        }
        let kept = fs::read_to_string(&path).unwrap();
        let differs = kept.lines().zip(self.text.lines()).find(|(kept, now)| kept != now);
        assert!(kept == self.text, "{file} has another output: {differs:#?}");
    }
}

/// Replaces the measurements of `sealgate status`, in text or JSON.
fn without_measurements(text: &str) -> String {
    let mut text = text.to_owned();
    for name in ["process_id", "commit_milliseconds"] {
        let Some(start) = text.find(name).map(|at| at + name.len()) else { continue };
        let Some(digits) = text[start..].find(|char: char| char.is_ascii_digit()).map(|at| start + at) else {
            continue;
        };
        let is_of_number = |char: char| char.is_ascii_digit() || char == '.';
        let end = text[digits..].find(|char| !is_of_number(char)).map_or(text.len(), |length| digits + length);
        text.replace_range(digits..end, "<number>");
    }
    text
}

fn is_of_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || "-_:.".contains(char)
}

/// Returns whether a word is a time, in seconds or in ISO 8601.
fn is_time(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (word.len() == 10 && digits(word)) || (word.len() == 20 && word.ends_with('Z') && digits(&word[..4]))
}

/// Returns whether a word may be an identifier or a secret.
fn is_random(word: &str) -> bool {
    let is_uuid = word.len() == 36 && word.matches('-').count() == 4;
    let is_hex = [12, 32, 64].contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_base64 = [16, 22, 43, 54].contains(&word.len())
        && word.contains(|char: char| char.is_ascii_digit() || char.is_ascii_uppercase());
    is_uuid || is_hex || is_base64
}

/// Adds data that no command can create.
///
/// Adds two sessions, grants and consents of clients, second factors, application passwords, and a
/// name and password at an application.
/// Returns the IDs of a grant and of an application password.
async fn live(store: &Store, subject: Subject) -> (String, String) {
    sign_in(store, subject, 1).await;
    sign_in(store, subject, 2).await;
    for client in ["wiki", "app"] {
        grant(store, subject, client).await;
    }
    let id = grant(store, subject, "mail").await;
    let keys = [factors::key("security_key", "Blue key", 1), factors::key("passkey", "Laptop", 2)];
    store.import(&[factors::record(subject, &[factors::app("Phone")], &keys, 7)]).await.unwrap();
    allow(store, subject, "wiki").await;
    allow(store, subject, "app").await;
    store.import(&[app_login(subject)]).await.unwrap();
    let made = UnixTime::from_seconds(1_700_000_000);
    let (password, _) = AppPassword::new("git", "laptop", AssuranceLevel::One, &random(&OsEntropy), made);
    assert_eq!(store.add_app_password(subject, &password).await.unwrap(), AppPasswordAdded::Yes);
    (id.to_string(), password.id())
}

/// Returns the record of a user's name and password at the application `wiki`.
fn app_login(subject: Subject) -> ExportRecord {
    let credential = json!({ "app": "wiki", "username": "a.öz", "password": "AAAA", "changed_at": 1_700_000_000 });
    ExportRecord {
        table: "app_credentials".to_owned(),
        key: base64url(subject.as_bytes()),
        version: Some(7),
        value: Some(json!({ "subject": subject, "credentials": [credential], "latest_change": 1_700_000_000 })),
    }
}

/// Runs every command about users and clients, and about their data.
///
/// `live` adds the data that no command can create.
#[expect(clippy::too_many_lines, reason = "one command after the other")]
async fn people_and_clients(told: &mut Transcript, live: impl AsyncFnOnce(Subject) -> (String, String)) {
    told.run("user  list").await;
    let add = "user  add  anna@example.test  --name  Anna Öz  --username  anna  --phone  +90 212 555 01 01  \
               --picture  https://example.test/a.png  --email-verified  --role  admin  --role  developer  --group  staff  \
               --password-stdin";
    let added = told.run_with(add, PASSWORD).await;
    told.run_with(add, PASSWORD).await;
    let sub = match serde_json::from_str::<serde_json::Value>(&added) {
        Ok(user) => user["sub"].as_str().unwrap().to_owned(),
        Err(_) => added.trim_end().rsplit(' ').next().unwrap().to_owned(),
    };
    for whom in ["anna@example.test", "anna", &sub, "6f2c6f0e-5a3b-4d5e-8f3a-0d6a2b1c4e5f", "b@c"] {
        told.run(&format!("user  show  {whom}")).await;
    }
    told.run("user  list").await;
    told.run("client  list").await;
    told.run("client  add  wiki  --name  Wiki  --type  confidential  --redirect-uri  https://wiki.test/cb").await;
    told.run(
        "client  add  app  --name  App  --type  public  --redirect-uri  http://127.0.0.1/cb  --scope  openid email  \
         --scope  profile  --post-logout-redirect-uri  https://app.test/  --auth-method  none  --consent  implied  \
         --refresh-retry-seconds  20  --token-limit  none",
    )
    .await;
    let (grant, password) = live(Subject::parse(&sub).unwrap()).await;
    for line in [
        "client  list",
        "client  show  wiki",
        "client  show  app",
        "client  rotate-secret  wiki  --overlap-seconds  60",
        "client  secret  list  wiki",
        "client  secret  add  wiki",
        "client  rotate-secret  app",
        "client  generate-token",
        "client  generate-token  --lifetime-seconds  60",
        "client  disable  wiki",
        "client  enable  wiki",
        "client  approve  wiki",
        "client  set  wiki  --owner  anna",
        "client  revoke-approval  wiki",
        "client  approve  wiki",
        "client  set  wiki  --name  The Wiki  --description  Notes  --client-uri  https://wiki.test/  \
         --tos-uri  https://wiki.test/terms  --policy-uri  https://wiki.test/privacy  --default-scope  openid email  \
         --initiate-login-uri  https://wiki.test/login  --default-max-age  60  --refresh-retry-seconds  5  --token-limit  100  --level  2  \
         --redirect-uri  https://wiki.test/a  --redirect-uri  https://wiki.test/b  --scope  openid  --scope  email  \
         --grant-type  authorization_code  --auth-method  client_secret_post  --consent  implied  \
         --post-logout-redirect-uri  https://wiki.test/",
        "client  set  wiki  --description    --client-uri    --initiate-login-uri    --default-max-age  none  \
         --refresh-retry-seconds  default  --token-limit  default  --level  none  --owner  none  --type  public  \
         --post-logout-redirect-uri  ",
        "client  set  wiki  --type  confidential",
        "client  set  wiki  --name  ",
        "client  set  wiki",
        "client  show  gone",
        "session  list  --user  anna",
        "session  list  --client  app",
        "session  list",
        "grant  list  --user  anna  --client  app",
        "grant  list  --session  AAAA",
        "consent  list  anna",
        "consent  revoke  anna  app",
        "consent  revoke  anna  app",
        "app-password  list  anna",
    ] {
        told.run(line).await;
    }
    told.run(&format!("app-password  revoke  anna  {password}")).await;
    told.run(&format!("app-password  revoke  anna  {password}")).await;
    told.run("app-login  list  anna").await;
    told.run_with("app-login  set  anna  nothing  --username  anna  --password-stdin", PASSWORD).await;
    told.run("app-login  remove  anna  wiki").await;
    told.run("app-login  remove  anna  wiki").await;
    told.run("app-login  list  anna").await;
    told.run(&format!("grant  revoke  {grant}")).await;
    told.run("grant  revoke-all  --user  anna").await;
    told.run("grant  revoke").await;
    told.run(&format!("session  revoke  {}", sealgate_domain::session::SessionId::from_bytes([1; 16]))).await;
    told.run("session  revoke-all  --user  anna@example.test").await;
    told.run("session  revoke-all  --client  app").await;
    told.run(&format!(
        "user  set  {sub}  --email  a@example.test  --name  Ayşe  --username  ayse  --phone  +90 555 111 22 33  \
         --picture  https://example.test/b.png  --email-unverified  --role  developer  --group  ops  --group  night"
    ))
    .await;
    told.run("user  set  ayse  --no-username  --no-phone  --no-picture  --no-roles  --no-groups  --email-verified")
        .await;
    told.run("user  set  a@example.test  --add-group  b  --add-group  a  --remove-group  b  --name  Anna").await;
    told.run("user  set  a@example.test  --name    --phone  1").await;
    told.run_with("user  set-password  a@example.test  --password-stdin", OTHER_PASSWORD).await;
    told.run_with("user  set-password  a@example.test", OTHER_PASSWORD).await;
    for line in [
        "user  list-factors  a@example.test",
        "user  unblock-factors  a@example.test",
        "user  reset-factors  a@example.test",
        "user  list-factors  a@example.test",
        "user  reset-factors  b@example.test",
        "user  factors",
        "user  disable  a@example.test",
        "user  enable  a@example.test",
        "user  revoke  a@example.test",
        "user  delete  a@example.test",
        "user  delete  a@example.test",
        "client  delete  wiki",
        "client  delete  wiki",
        "audit  list",
        "audit  list  --kind  user_created  --kind  client_changed  --since  2026-01-01  --until  2100-01-01T00:00:00Z  --limit  3",
        "audit  list  --user  nobody",
        "audit  export  --client  wiki",
        "audit  export  --client  wiki  --format  csv",
        "key  nothing",
    ] {
        told.run(line).await;
    }
}

async fn on_a_store(json: bool, file: &str) {
    let site = Arc::new(Site::new());
    let mut told = Transcript::new(Arc::clone(&site), json);
    people_and_clients(&mut told, async |subject| live(&site.store().await, subject).await).await;
    told.compare_with(file);
}

async fn through_a_server(json: bool, file: &str) {
    let served = Served::start().await;
    let mut told = Transcript::new(Arc::clone(&served.site), json);
    people_and_clients(&mut told, async |subject| live(&served.store, subject).await).await;
    told.compare_with(file);
}

#[tokio::test]
async fn the_json_output_about_stores_is_unchanged() {
    on_a_store(true, "people_and_clients.json.txt").await;
}

#[tokio::test]
async fn the_text_output_about_stores_is_unchanged() {
    on_a_store(false, "people_and_clients.txt").await;
}

#[tokio::test]
async fn the_json_output_of_a_server_is_unchanged() {
    through_a_server(true, "people_and_clients.json.txt").await;
}

#[tokio::test]
async fn the_text_output_of_a_server_is_unchanged() {
    through_a_server(false, "people_and_clients.txt").await;
}

/// Runs every command about keys, backups and exports of the store, and the server.
async fn keys_and_copies(told: &mut Transcript) {
    let site = Arc::clone(&told.site);
    let kid = |printed: &str| {
        let from_json = serde_json::from_str::<serde_json::Value>(printed).ok();
        let word = || printed.split("signing key ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        from_json.map_or_else(word, |key| key["kid"].as_str().unwrap().to_owned())
    };
    told.run("check").await;
    let first = kid(&told.run("key  generate").await);
    told.run("key  generate").await;
    told.run("key  generate-wrapping-key").await;
    for line in ["key  list", "key  check", "check", "check  --file-only"] {
        told.run(line).await;
    }
    told.run("explain  http://localhost:8080/").await;
    let next = kid(&told.run("key  generate  --next").await);
    told.run(&format!("key  announce  {next}")).await;
    told.run(&format!("key  activate  {next}  --at  2100-01-01T00:00:00Z")).await;
    told.run("key  rotate").await;
    told.run(&format!("key  retire  {next}")).await;
    told.run(&format!("key  remove  {first}")).await;
    told.run("key  rotate").await;
    told.run("key  rotate  --emergency").await;
    told.run(&format!("key  remove  --now  {next}")).await;
    told.run("user  list").await;
    let directory = site.store_directory().parent().unwrap().display().to_string();
    told.run(&format!("backup  --to  {directory}/backup")).await;
    told.run(&format!("restore  --from  {directory}/backup  --check")).await;
    told.run(&format!("export  --to  {directory}/export")).await;
    told.run(&format!("audit  export  --kind  keys_changed  --to  {directory}/trail")).await;
    told.run("status").await;
    told.run("reload").await;
    fs::rename(site.store_directory(), format!("{directory}/lost")).unwrap();
    told.run(&format!("import  --from  {directory}/export")).await;
    fs::rename(site.store_directory(), format!("{directory}/imported")).unwrap();
    told.run(&format!("restore  --from  {directory}/backup")).await;
    told.run(&format!("documents  --to  {directory}/documents")).await;
    let server = Server::start(&site);
    told.run("status").await;
    told.run("reload").await;
    told.run(&format!("export  --to  {directory}/again")).await;
    let config = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), config + "[log]\nfilter = \"warn\"\n").unwrap();
    told.run("reload").await;
    fs::write(site.config(), "issuer = 1").unwrap();
    told.run("reload").await;
    drop(server);
}

#[tokio::test]
async fn the_json_output_about_keys_and_backups_is_unchanged() {
    let mut told = Transcript::new(Arc::new(Site::with_token()), true);
    keys_and_copies(&mut told).await;
    told.compare_with("keys_and_copies.json.txt");
}

#[tokio::test]
async fn the_text_output_about_keys_and_backups_is_unchanged() {
    let mut told = Transcript::new(Arc::new(Site::with_token()), false);
    keys_and_copies(&mut told).await;
    told.compare_with("keys_and_copies.txt");
}
