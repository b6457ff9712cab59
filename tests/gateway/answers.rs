//! Tests every kind of answer of provider and gateway, with its status and headers, through the
//! site's routing.
//!
//! `answers.txt` has the expected answers and is compared as a whole: any added, removed or changed
//! header fails.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use sealgate::app::site::Site;
use sealgate_config::{Logo, Picture};
use sealgate_domain::client::{AuthMethod, Client, ClientSecret, ClientType, ConsentRule};
use sealgate_domain::secret::Secret;
use sealgate_edge::origin::Origin;
use sealgate_edge::{AnswerReason, Front, RouteDecision};
use sealgate_store::AddOutcome;
use sealgate_store::engine::{Changes, Engine};
use sealgate_system::clock::Clock;

use crate::browser::Browser;
use crate::records;
use crate::world::{ANNA, BEN, World, encode, request};

const TABLE: &str = include_str!("answers.txt");

const PERSON: [(&str, &str); 3] =
    [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("accept", "text/html,*/*;q=0.8")];
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const PAGE: (&str, &str) = ("origin", "https://www.test");

const SETTINGS: &str = r#"
        [[app]]
        name = "git"
        host = "git.test"
        upstreams = ["http://127.0.0.1:8090"]
        [[app.route]]
        path = "/code/"
        access = "signed_in"
        app_passwords = true
        [rate_limits]
        pages = 20
        authorize = 3
        sign_ins = 4
        discovery = "none"
        [registration]
        mode = "open"
        [console]
        enabled = true
        [form_post]
        enabled = true
        [login]
        failures_per_address = 3
    "#;

/// Answers so far, in the format of the file.
struct Answers {
    site: Site,
    table: String,
    asked: u16,
}

impl Answers {
    /// Records the answer to a request. Each request comes from another address, so that rate
    /// limits do not depend on the order.
    async fn add(&mut self, kind: &str, method: &str, url: &str, fields: &[(&str, &str)], body: &str) {
        self.add_last_of(1, kind, method, url, fields, body).await;
    }

    async fn add_last_of(
        &mut self,
        times: usize,
        kind: &str,
        method: &str,
        url: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) {
        self.asked += 1;
        let address = format!("198.51.{}.{}", 100 + self.asked / 200, self.asked % 200);
        let mut last = None;
        for _ in 0..times {
            last = self.answer(&address, request(method, url, fields, body)).await;
        }
        self.take_down(kind, last);
    }

    /// Returns the site's answer to a request from `address`, or none if the request goes to an
    /// application.
    async fn answer(&self, address: &str, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let (mut head, body) = request.into_parts();
        let peer: IpAddr = address.parse().unwrap();
        head.extensions.insert(Origin {
            address: peer,
            peer,
            secure: true,
            request_id: "request-1".into(),
            ..Origin::unknown()
        });
        match self.site.decide(&head).await {
            RouteDecision::Answer(response) => Some(response),
            RouteDecision::Local { body_limit, .. } if body.len() > body_limit => {
                self.site.answer(&head, AnswerReason::NoBody(StatusCode::PAYLOAD_TOO_LARGE)).await
            }
            RouteDecision::Local { route, .. } => self.site.answer(&head, AnswerReason::Local(route, body)).await,
            RouteDecision::Forward(_) => None,
        }
    }

    fn take_down(&mut self, kind: &str, answer: Option<Response<Bytes>>) {
        let table = &mut self.table;
        writeln!(table, "== {kind}").unwrap();
        let Some(answer) = answer else { return writeln!(table, "nothing\n").unwrap() };
        let (head, body) = answer.into_parts();
        writeln!(table, "{}", head.status.as_u16()).unwrap();
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let mut lines: Vec<String> =
            head.headers.iter().map(|(name, value)| format!("{name}: {}", text(value.as_bytes()))).collect();
        lines.sort();
        let html = text(&body);
        match head.headers.get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap()) {
            Some(kind) if kind.starts_with("text/html") => lines.extend(marks(&html)),
            Some("application/json") if body.len() < 400 => lines.push(format!("body {html}")),
            _ => lines.push(if body.is_empty() { "no body".to_owned() } else { "a body".to_owned() }),
        }
        for line in lines {
            let line = match line.split_once(": ") {
                Some(("x-ratelimit-reset", _)) => "x-ratelimit-reset: TIME".to_owned(),
                Some(("retry-after", _)) if head.status == StatusCode::TOO_MANY_REQUESTS => {
                    "retry-after: TIME".to_owned()
                }
                _ => normal(&line),
            };
            writeln!(table, "{line}").unwrap();
        }
        table.push('\n');
    }
}

/// Returns a page's title and its distinct URLs.
fn marks(html: &str) -> Vec<String> {
    let between =
        |begin: &'static str, end: char| html.split(begin).skip(1).map(move |rest| rest.split(end).next().unwrap());
    let mut marks: Vec<String> = between("<title>", '<').map(|title| format!("title {title}")).collect();
    for name in [" href=\"", " src=\"", " action=\"", "<html lang=\""] {
        for value in between(name, '"') {
            let mark = format!("{}{value}", name.trim_start_matches('<').replace("=\"", " ").trim_start());
            if !value.starts_with("data:") && !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    marks
}

/// Replaces the parts of a line that are random or change with each release: secrets (base64url of
/// at least 16 bytes) and versions.
fn normal(line: &str) -> String {
    let mut normal = String::new();
    let mut rest = line;
    if let Some((before, after)) = line.split_once("Try again in ") {
        let (_, after) = after.split_once(' ').unwrap();
        return format!("{before}Try again in TIME {after}");
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let is_mixed = word.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        let is_own = ["Access-Control-", "__Host-"].iter().any(|own| word.starts_with(own));
        let random = word.len() >= 22 && is_mixed && !is_own;
        normal.push_str(if normal.ends_with("?v=") {
            "VERSION"
        } else if random {
            "RANDOM"
        } else {
            word
        });
        let next = tail.chars().next().map_or(0, char::len_utf8);
        normal.push_str(&tail[..next]);
        rest = &tail[next..];
    }
    normal
}

fn client(id: &str, consent: ConsentRule, world: &World) -> Client {
    let now = world.clock.now();
    Client {
        client_type: ClientType::Confidential,
        auth_method: AuthMethod::ClientSecretBasic,
        secrets: vec![ClientSecret { hash: Secret::new("secret").hash(), created_at: now, expires_at: None }],
        consent,
        ..records::client(id, now)
    }
}

fn authorize(changes: &[(&str, &str)]) -> String {
    let mut fields = vec![
        ("client_id", "asks"),
        ("response_type", "code"),
        ("redirect_uri", "https://rp.test/cb"),
        ("scope", "openid profile"),
        ("state", "s"),
    ];
    for change in changes {
        fields.retain(|(name, _)| *name != change.0);
        fields.push(*change);
    }
    format!("https://id.test/oauth/authorize?{}", encode(&fields))
}

#[tokio::test]
async fn every_kind_of_response_has_the_recorded_status_and_headers() {
    let world = World::made(SETTINGS, Some(10), |config| {
        let logo = Logo { picture: Picture::Svg, bytes: Bytes::from_static(b"<svg/>") };
        config.pages.logo = Some(logo.clone());
        config.apps[0].icon = Some(logo);
    })
    .await;
    for consent in [("asks", ConsentRule::Ask), ("trusted", ConsentRule::Implied)] {
        let client = client(consent.0, consent.1, &world);
        assert_eq!(world.sealgate.store.add_client(&client).await.unwrap(), AddOutcome::Added);
    }
    let site = Site::new(Arc::clone(&world.sealgate));
    let mut answers = Answers { site, table: String::new(), asked: 0 };
    of_the_documents(&mut answers).await;
    of_the_token_endpoints(&mut answers, &world).await;
    of_the_pages(&mut answers, &world).await;
    of_the_gate(&mut answers, &world).await;
    of_our_paths_at_the_gate(&mut answers, &world).await;
    to_other_proxies(&mut answers, &world).await;
    in_place_of_an_application(&mut answers).await;
    when_the_store_fails(&mut answers, &world).await;
    if answers.table != TABLE {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("answers.txt");
        fs::write(&new, &answers.table).unwrap();
        let (old, new_lines) = (TABLE.lines(), answers.table.lines());
        let first = old.zip(new_lines).position(|(old, new)| old != new).unwrap_or_default();
        let context = |text: &str| text.lines().skip(first.saturating_sub(12)).take(16).collect::<Vec<_>>().join("\n");
        panic!(
            "the answers are not those of tests/gateway/answers.txt; they are in {}.\nFrom line {first}, expected:\n{}\n\nfound:\n{}",
            new.display(),
            context(TABLE),
            context(&answers.table)
        );
    }
}

fn browser_at<'a>(world: &'a World, address: &str) -> Browser<'a> {
    let mut browser = Browser::new(world);
    browser.address = address.into();
    browser
}

async fn of_the_documents(answers: &mut Answers) {
    let id = |path: &str| format!("https://id.test{path}");
    let metadata = id("/.well-known/openid-configuration");
    answers.add("discovery, without a limit", "GET", &metadata, &[], "").await;
    answers.add("discovery to a page of another origin", "GET", &metadata, &[PAGE], "").await;
    answers.add("preflight of discovery", "OPTIONS", &metadata, &[PAGE], "").await;
    answers
        .add("discovery under a strange host", "GET", "https://x.test/.well-known/openid-configuration", &[], "")
        .await;
    answers.add("keys", "GET", &id("/oauth/jwks"), &[], "").await;
    answers.add("attestations of keys", "GET", &id("/.well-known/sealgate/keys"), &[], "").await;
    answers.add("stylesheet", "GET", &id("/oauth/style.css"), &[], "").await;
    answers.add("stylesheet, known already", "GET", &id("/oauth/style.css"), &[("if-none-match", "*")], "").await;
    answers.add("script", "HEAD", &id("/oauth/script.js"), &[], "").await;
    answers.add("logo", "GET", &id("/oauth/logo"), &[], "").await;
    answers.add("icon", "GET", &id("/oauth/icons/wiki"), &[], "").await;
    answers.add("no icon", "GET", &id("/oauth/icons/git"), &[], "").await;
    for (whose, fields) in [("program", &[][..]), ("person", &PERSON[..])] {
        answers.add(&format!("nothing there, to a {whose}"), "GET", &id("/oauth/nothing"), fields, "").await;
        answers.add(&format!("method, to a {whose}"), "GET", &id("/oauth/token"), fields, "").await;
        answers.add(&format!("unknown host, to a {whose}"), "GET", "https://x.test/a", fields, "").await;
        let keys = id("/oauth/jwks");
        let too_many = format!("too many requests of a {whose}");
        answers.add_last_of(1001, &too_many, "GET", &keys, fields, "").await;
    }
    answers.add_last_of(21, "too many requests for an unknown host", "GET", "https://x.test/a", &PERSON, "").await;
    let body = "a".repeat(64 * 1024 + 1);
    answers.add("body too long", "POST", &id("/oauth/token"), &[FORM], &body).await;
    let head = request("POST", &id("/oauth/login"), &PERSON, "").into_parts().0;
    let slow = answers.site.answer(&head, AnswerReason::NoBody(StatusCode::REQUEST_TIMEOUT)).await;
    answers.take_down("body too slow", slow);
}

async fn of_the_token_endpoints(answers: &mut Answers, world: &World) {
    let token = "https://id.test/oauth/token";
    let basic = ("authorization", "Basic dHJ1c3RlZDpzZWNyZXQ=");
    answers.add("token: preflight", "OPTIONS", token, &[PAGE], "").await;
    answers.add("token: no client", "POST", token, &[FORM, PAGE], "grant_type=authorization_code").await;
    let wrong = ("authorization", "Basic dHJ1c3RlZDp3cm9uZw==");
    answers.add("token: wrong secret", "POST", token, &[FORM, wrong], "grant_type=authorization_code&code=a").await;
    answers.add("token: no form", "POST", token, &[("content-type", "text/plain")], "a").await;
    answers.add("token: unknown grant", "POST", token, &[FORM, basic], "grant_type=x").await;
    let browser = browser_at(world, "192.0.2.11");
    let start = authorize(&[("client_id", "trusted"), ("scope", "openid")]);
    let page = browser.open(&start).await;
    let back = browser.sign_in(&page, ANNA).await;
    let code = back.sent_with("code").unwrap();
    let form = encode(&[("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", "https://rp.test/cb")]);
    answers.add("token: tokens", "POST", token, &[FORM, basic], &form).await;
    let too_many = ("authorization", "Basic dHJ1c3RlZDpzZWNyZXQ=");
    answers.add_last_of(60, "token: too many", "POST", token, &[FORM, too_many], "grant_type=x").await;

    let userinfo = "https://id.test/oauth/userinfo";
    let bearer = |token: &str| format!("Bearer {token}");
    answers.add("userinfo: no token", "GET", userinfo, &[PAGE], "").await;
    answers.add("userinfo: malformed token", "GET", userinfo, &[("authorization", "Bearer ?")], "").await;
    answers.add("userinfo: wrong token", "GET", userinfo, &[("authorization", "Bearer a.b.c")], "").await;
    let two = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
    answers.add("userinfo: two tokens", "GET", userinfo, &two, "").await;
    let good = bearer(&world.access_token("openid email").await);
    answers.add("userinfo: claims", "GET", userinfo, &[("authorization", &good)], "").await;
    answers.add("revoke", "POST", "https://id.test/oauth/revoke", &[FORM, basic], "token=x").await;
    let register = "https://id.test/oauth/register";
    let json = ("content-type", "application/json");
    answers.add("register: refused", "POST", register, &[json], "{}").await;
    let long = format!("{{\"a\":\"{}\"}}", "a".repeat(8 * 1024));
    answers.add("register: too long", "POST", register, &[json], &long).await;
    let metadata = r#"{"redirect_uris":["https://new.test/cb"]}"#;
    answers.add("register: registered", "POST", register, &[json], metadata).await;
    answers.add("register: wrong token", "GET", &format!("{register}/x"), &[("authorization", "Bearer x")], "").await;
}

async fn of_the_pages(answers: &mut Answers, world: &World) {
    let id = |path: &str| format!("https://id.test{path}");
    answers.add("authorize: unknown client", "GET", &authorize(&[("client_id", "x")]), &PERSON, "").await;
    answers.add("authorize: refused at the client", "GET", &authorize(&[("response_type", "x")]), &PERSON, "").await;
    let posted = authorize(&[("response_mode", "form_post"), ("prompt", "none")]);
    answers.add("authorize: refused by a form", "GET", &posted, &PERSON, "").await;
    answers.add("authorize: to the sign-in", "GET", &authorize(&[]), &PERSON, "").await;
    answers.add_last_of(4, "authorize: too many, to a person", "GET", &authorize(&[]), &PERSON, "").await;
    answers.add_last_of(4, "authorize: too many, to a program", "GET", &authorize(&[]), &[], "").await;

    let browser = browser_at(world, "192.0.2.12");
    let sent = browser.visit(&authorize(&[])).await;
    let login = id(sent.location());
    let with = |cookie: &str| {
        [&PERSON[..], &[("cookie", cookie), FORM]]
            .concat()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<Vec<_>>()
    };
    let jar = with(&browser.jar("id.test"));
    let jar: Vec<(&str, &str)> = jar.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    answers.add("login: page", "GET", &login, &jar, "").await;
    answers.add("login: page in a chosen language", "GET", &format!("{login}&lang=tr"), &jar, "").await;
    answers.add("login: without its cookie", "GET", &login, &PERSON, "").await;
    answers.add("login: wrong form", "POST", &login, &jar, "email=a&password=b").await;
    answers.add("login: to a program", "GET", &login, &[], "").await;
    let page = browser.visit(&login).await;
    let (_, wrong) = browser.submit_only(&page, &[("email", ANNA), ("password", "wrong")]).await;
    answers.take_down("login: wrong password", Some(response_of(wrong)));
    let page = browser.visit(&login).await;
    let (_, right) = browser.submit_only(&page, &[("email", ANNA), ("password", crate::world::PASSWORD)]).await;
    let resume = id(right.location());
    answers.take_down("login: signed in", Some(response_of(right)));
    let to_consent = browser.visit(&resume).await;
    let consent = id(to_consent.location());
    answers.take_down("resume: to the consent", Some(response_of(to_consent)));
    let jar = with(&browser.jar("id.test"));
    let jar: Vec<(&str, &str)> = jar.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    answers.add("consent: page", "GET", &consent, &jar, "").await;
    answers.add("consent: wrong form", "POST", &consent, &jar, "csrf=x").await;
    let chooser = browser.visit(&authorize(&[("prompt", "select_account")])).await;
    answers.add("chooser: page", "GET", &id(chooser.location()), &jar, "").await;
    let posted = authorize(&[("client_id", "trusted"), ("response_mode", "form_post")]);
    answers.add("authorize: code in a form", "GET", &posted, &jar, "").await;
    answers.add("authorize: code", "GET", &authorize(&[("client_id", "trusted")]), &jar, "").await;
    answers.add("logout: asks", "GET", &id("/oauth/logout"), &jar, "").await;
    answers.add("logout: of nobody", "GET", &id("/oauth/logout"), &PERSON, "").await;
    answers.add("logout: signed out", "GET", &id("/oauth/signed-out"), &PERSON, "").await;
    answers.add("logout: malformed", "GET", &id("/oauth/logout?state=1&state=2"), &PERSON, "").await;
    for path in
        ["/account", "/account/password", "/account/sessions", "/account/applications", "/account/app-passwords"]
    {
        answers.add(&format!("{path}: page"), "GET", &id(path), &jar, "").await;
    }
    answers.add("account: of nobody", "GET", &id("/account"), &PERSON, "").await;
    answers.add("account: wrong form", "POST", &id("/account"), &jar, "csrf=x").await;
    answers.add("account: no form", "POST", &id("/account"), &jar[..4], "x").await;
    answers.add("change-password", "GET", &id("/.well-known/change-password"), &[], "").await;
    answers.add("console: not for her", "GET", &id("/console"), &jar, "").await;
    answers.add("console: of nobody", "GET", &id("/console"), &PERSON, "").await;
    answers.add("console: method", "DELETE", &id("/console"), &PERSON, "").await;
}

fn response_of(reply: crate::world::Reply) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(reply.text().to_owned()));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap();
    *response.headers_mut() = reply.headers;
    response
}

async fn of_the_gate(answers: &mut Answers, world: &World) {
    let anna = browser_at(world, "192.0.2.13");
    anna.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    let ben = browser_at(world, "192.0.2.14");
    ben.sign_in_at("https://wiki.test/", BEN).await.arrived();
    anna.open("https://desk.test/").await.arrived();
    ben.open("https://desk.test/").await.arrived();
    let cookies = [anna.jar("wiki.test"), ben.jar("wiki.test"), anna.jar("desk.test"), ben.jar("desk.test")];
    let [_, bens_wiki, annas_desk, bens_desk] = cookies.each_ref().map(|jar| ("cookie", jar.as_str()));
    for (whose, kind) in [("program", &[][..]), ("person", &PERSON[..])] {
        let mut ask = async |what: &str, method: &str, url: &str, fields: &[(&str, &str)]| {
            let fields = [kind, fields].concat();
            answers.add(&format!("gate: {what}, to a {whose}"), method, url, &fields, "").await;
        };
        ask("nobody signed in", "GET", "https://wiki.test/a?b=c", &[]).await;
        ask("nobody signed in, HEAD", "HEAD", "https://wiki.test/a", &[]).await;
        ask("no token", "GET", "https://wiki.test/api/x", &[]).await;
        ask("no token, with scopes", "GET", "https://wiki.test/profiles/x", &[]).await;
        ask("wrong token", "GET", "https://wiki.test/a", &[("authorization", "Bearer a.b.c")]).await;
        ask("malformed token", "GET", "https://wiki.test/a", &[("authorization", "Bearer ?")]).await;
        ask(
            "two tokens",
            "GET",
            "https://wiki.test/a",
            &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
        )
        .await;
        ask(
            "two on a public path",
            "GET",
            "https://wiki.test/public/",
            &[("authorization", "a"), ("authorization", "b")],
        )
        .await;
        ask("group", "GET", "https://wiki.test/staff/a?b=c", &[bens_wiki]).await;
        ask("user", "GET", "https://desk.test/bens/", &[annas_desk]).await;
        ask("context class", "GET", "https://desk.test/vault/", &[annas_desk]).await;
        ask("method", "PUT", "https://desk.test/records/", &[bens_desk]).await;
        ask("method in another case", "get", "https://desk.test/records/", &[]).await;
        ask("ambiguous path", "GET", "https://wiki.test/a//b", &[]).await;
        ask("unopened path", "GET", "https://shop.test/", &[]).await;
        ask("listed origin", "GET", "https://desk.test/a", &[PAGE]).await;
        ask("strange origin", "GET", "https://desk.test/a", &[("origin", "https://evil.test")]).await;
        ask("basic", "GET", "https://git.test/code/", &[]).await;
        ask("wrong password", "GET", "https://git.test/code/", &[("authorization", "Basic YTpi")]).await;
        ask("malformed password", "GET", "https://git.test/code/", &[("authorization", "Basic ?")]).await;
    }
    let narrow = format!("Bearer {}", world.access_token("openid").await);
    answers.add("gate: scope", "GET", "https://wiki.test/profiles/x", &[("authorization", &narrow)], "").await;
    answers.add("gate: audience", "GET", "https://shop.test/orders/", &[("authorization", &narrow)], "").await;
    answers.add("gate: client", "GET", "https://mobile.test/", &[("authorization", &narrow)], "").await;
    let socket = [annas_desk, ("upgrade", "websocket"), ("connection", "upgrade"), ("origin", "https://evil.test")];
    answers.add("gate: foreign WebSocket", "GET", "https://desk.test/bens/", &socket, "").await;
    let asks = ("access-control-request-method", "PUT");
    let headers = ("access-control-request-headers", "authorization, x-a");
    answers.add("gate: preflight", "OPTIONS", "https://desk.test/a", &[PAGE, asks, headers], "").await;
    let long = format!("https://wiki.test/{}", "a".repeat(8200));
    answers.add("gate: too long to come back", "GET", &long, &PERSON, "").await;
    answers.add_last_of(5, "gate: too many sign-ins of a person", "GET", "https://wiki.test/a", &PERSON, "").await;
    let wrong = [("authorization", "Basic YTpi")];
    answers.add_last_of(5, "gate: too many wrong passwords", "GET", "https://git.test/code/", &wrong, "").await;
    world.wait(301);
    for (whose, kind) in [("program", &[][..]), ("person", &PERSON[..])] {
        let fields = [kind, &[annas_desk]].concat();
        answers.add(&format!("gate: old sign-in, to a {whose}"), "GET", "https://desk.test/money/", &fields, "").await;
    }
}

async fn of_our_paths_at_the_gate(answers: &mut Answers, world: &World) {
    let anna = browser_at(world, "192.0.2.15");
    anna.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    let jar = anna.jar("wiki.test");
    let own = |path: &str| format!("https://wiki.test/.sealgate/{path}");
    answers.add("own: stylesheet", "GET", &own("style.css"), &[], "").await;
    answers.add("own: logo", "HEAD", &own("logo"), &[], "").await;
    answers.add("own: language", "GET", &own("language?lang=tr&then=%2Fa%3Fb"), &PERSON, "").await;
    answers.add("own: unknown language", "GET", &own("language?lang=xx&then=%2F%2Fevil.test"), &PERSON, "").await;
    answers.add("own: another account", "GET", &own("switch-account?then=%2Fa"), &PERSON, "").await;
    answers.add("own: no form", "GET", &own("form?id=x"), &PERSON, "").await;
    answers.add("own: metadata", "GET", "https://wiki.test/.well-known/oauth-protected-resource", &[], "").await;
    for (whose, kind) in [("program", &[][..]), ("person", &PERSON[..])] {
        answers.add(&format!("own: nothing there, to a {whose}"), "GET", &own("x"), kind, "").await;
        answers.add(&format!("own: method, to a {whose}"), "HEAD", &own("callback"), kind, "").await;
        answers
            .add(&format!("own: strange callback, to a {whose}"), "GET", &own("callback?code=a&state=b"), kind, "")
            .await;
        answers.add(&format!("own: refused, to a {whose}"), "GET", &own("callback?error=x&state=b"), kind, "").await;
        answers.add(&format!("own: other issuer, to a {whose}"), "GET", &own("callback?iss=x"), kind, "").await;
    }
    let sent = anna.visit(&own("switch-account")).await;
    let state = sent.sent_with("state").unwrap();
    let browsers = anna.jar("wiki.test");
    let refused = own(&format!("callback?error=access_denied&state={state}"));
    answers.add("own: the provider refused", "GET", &refused, &[PERSON[2], ("cookie", &browsers)], "").await;
    answers
        .add(
            "own: cross-site sign-out",
            "GET",
            &own("logout"),
            &[("sec-fetch-site", "cross-site"), ("cookie", &jar)],
            "",
        )
        .await;
    answers.add("own: sign-out", "POST", &own("logout"), &[("cookie", &jar)], "").await;
    let anna = browser_at(world, "192.0.2.18");
    anna.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    let jar = anna.jar("wiki.test");
    world.wait(3601);
    let form =
        [&PERSON[..], &[("sec-fetch-site", "same-origin"), FORM, ("content-length", "3"), ("cookie", &jar)]].concat();
    answers.add("own: a form that is kept", "POST", "https://wiki.test/a", &form, "a=b").await;
    answers.add("own: a form that cannot be kept", "POST", "https://wiki.test/a", &form, "a=?").await;
    let form = &form[..form.len() - 1];
    let kept = anna.send("POST", "https://wiki.test/a", form, "a=b").await;
    let page = anna.follow("https://wiki.test/a", kept).await;
    let shown = anna.sign_in(&page, ANNA).await;
    answers.take_down("own: a form to send again", Some(response_of(shown)));
}

async fn to_other_proxies(answers: &mut Answers, world: &World) {
    let anna = browser_at(world, "192.0.2.16");
    anna.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    let jar = format!("{}; theme=dark", anna.jar("wiki.test"));
    for (kind, query, uri, fields) in [
        ("let through", "?app=wiki", "/a", &[("cookie", jar.as_str())][..]),
        (
            "let through, in place",
            "?app=wiki&fields=request",
            "/a",
            &[("cookie", &jar), ("authorization", "Basic dTpw")],
        ),
        ("let through by nobody", "?app=wiki", "/public/", &[]),
        ("to a program", "?app=wiki", "/a", &[]),
        ("to a person", "?app=wiki", "/a", &PERSON),
        ("that hands no redirect on", "?app=wiki&redirect=no", "/a", &PERSON),
        ("own path", "?app=wiki", "/.sealgate/style.css", &[]),
        ("ambiguous", "?app=wiki&redirect=no", "/a//b", &[]),
        ("wrong question", "?app=nobody", "/a", &[]),
        ("other host", "?app=desk", "/a", &[]),
    ] {
        let described = [("x-forwarded-method", "GET"), ("x-forwarded-host", "wiki.test"), ("x-forwarded-uri", uri)];
        let fields = [fields, &described].concat();
        let url = format!("https://sealgate.internal/.sealgate/auth{query}");
        let answer = answers.answer("192.0.2.200", request("GET", &url, &fields, "")).await;
        answers.take_down(&format!("proxy: {kind}"), answer);
    }
}

async fn in_place_of_an_application(answers: &mut Answers) {
    for (status, method, fields) in
        [(502, "GET", &PERSON[..]), (503, "POST", &PERSON), (500, "GET", &PERSON), (504, "GET", &[])]
    {
        let head = request(method, "https://wiki.test/a?b=c", fields, "").into_parts().0;
        let occasion = AnswerReason::Unanswered(StatusCode::from_u16(status).unwrap());
        let answer = answers.site.answer(&head, occasion).await;
        answers.take_down(&format!("unanswered: {status} to {method}, {} fields", fields.len()), answer);
    }
}

async fn when_the_store_fails(answers: &mut Answers, world: &World) {
    let anna = browser_at(world, "192.0.2.17");
    anna.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    let (provider, wiki) = (anna.jar("id.test"), anna.jar("wiki.test"));
    world.meddler.fail(Some(b't'));
    answers.add("store: no attempt, at the gate", "GET", "https://wiki.test/a", &PERSON, "").await;
    world.meddler.fail(Some(b'i'));
    answers.add("store: no interaction", "GET", &authorize(&[]), &PERSON, "").await;
    world.meddler.fail(Some(b'l'));
    let json = ("content-type", "application/json");
    let metadata = r#"{"redirect_uris":["https://new.test/cb"]}"#;
    answers.add("store: no client", "POST", "https://id.test/oauth/register", &[json], metadata).await;
    world.meddler.fail(None);
    break_records(world, b'u').await;
    for (whose, kind) in [("program", &[][..]), ("person", &PERSON[..])] {
        let fields = [kind, &[("cookie", wiki.as_str())]].concat();
        answers
            .add(&format!("store: broken, at the gate, to a {whose}"), "GET", "https://wiki.test/a", &fields, "")
            .await;
        let fields = [kind, &[("cookie", provider.as_str())]].concat();
        answers.add(&format!("store: broken, to a {whose}"), "GET", "https://id.test/account", &fields, "").await;
    }
    break_records(world, b'l').await;
    let basic = ("authorization", "Basic dHJ1c3RlZDpzZWNyZXQ=");
    answers
        .add(
            "store: broken, at the token endpoint",
            "POST",
            "https://id.test/oauth/token",
            &[FORM, basic],
            "grant_type=x",
        )
        .await;
}

/// Makes every record of a table unreadable.
async fn break_records(world: &World, table: u8) {
    let records = world.engine.scan(&[table], None, 1000).await.unwrap();
    let put = records.into_iter().map(|(key, _)| (key, b"broken".to_vec())).collect();
    world.engine.commit(Changes { put, ..Changes::default() }).await.unwrap();
}
