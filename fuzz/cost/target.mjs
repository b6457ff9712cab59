// The configuration under test, and an ordinary request for each of its parts.

import { writeFileSync } from "node:fs";
import { http1 } from "./client.mjs";

const RULES = 10_000;

/// Returns the parts of a configuration in which each feature that reads requests is enabled, and an
/// application with 10,000 rules, all with different conditions and similar names.
export function configuration({ upstream, mail, work }) {
  const logo = `${work}/logo.svg`;
  writeFileSync(logo, '<svg xmlns="http://www.w3.org/2000/svg"/>');
  const routes = Array.from({ length: RULES }, (_, number) => `[[app.route]]\npath = "/section-${number}/"\naccess = "signed_in"\ngroups = ["group-${number}"]\n`);
  const characters = 'path_characters = [";", "%2F", "%5C", "%252F"]\n';
  return {
    application: "max_requests_per_client = 1024\n",
    server: "max_connections_per_peer = 4096\n",
    limits: ["api", "discovery", "introspect", "jwks", "logout", "register", "revoke", "sign_ins"].map((name) => `${name} = "none"\n`).join(""),
    more: `[console]
enabled = true
[api]
enabled = true
[login]
failures_per_account = 1000000
failures_per_address = 1000000
[registration]
mode = "open"
max_clients = 1000000
[registration_of_people]
mode = "open"
domains = ["example.test"]
[mail]
host = "localhost"
port = ${mail}
tls = "none"
from = "no-reply@example.test"
[[app]]
name = "many"
host = "many.localhost"
upstreams = ["http://127.0.0.1:${upstream}"]
${routes.join("")}[[app.route]]
path = "/api/"
access = "bearer"
cors_origins = [${Array.from({ length: 20 }, (_, number) => `"https://origin-${number}.test"`).join(", ")}]
${characters}[[app.route]]
path = "/dav/"
access = "signed_in"
app_passwords = true
[[app.route]]
path = "/"
access = "public"
${characters}[[app]]
name = "wild"
host = "*.wild.localhost"
upstreams = ["http://127.0.0.1:${upstream}"]
agents = true
scopes = { "a:read" = "Read" }
[[app.route]]
path = "/"
access = "signed_in"
${Array.from({ length: 1000 }, (_, number) => `[[app]]\nname = "app-${number}"\nhost = "app-${number}.localhost"\nupstreams = ["http://127.0.0.1:${upstream}"]\n[[app.route]]\npath = "/"\naccess = "signed_in"\n`).join("")}`,
  };
}

const BROWSER = [
  ["User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"],
  ["Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
  ["Accept-Language", "tr-TR,tr;q=0.8,en-US;q=0.5,en;q=0.3"],
  ["Sec-Fetch-Mode", "navigate"],
  ["Sec-Fetch-Dest", "document"],
];
const JWT = `eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6ImEifQ.${Buffer.from('{"iss":"https://a.test","sub":"a","exp":1,"aud":"a"}').toString("base64url")}.${"A".repeat(342)}`;
const BASIC = `Basic ${Buffer.from("bench:secret").toString("base64")}`;

/// Returns requests by name for the server at `target`. Signs no one in, but begins a sign-in at the
/// server of `client`, at `port`, to obtain its cookies and form.
export async function seeds(client, port, target) {
  const own = `localhost:${target}`;
  const get = (host, target, fields = BROWSER, method = "GET") => ({ method, target, fields: [["Host", host], ...fields] });
  const post = (host, target, body, fields = [], type = "application/x-www-form-urlencoded") => ({ method: "POST", target, body, fields: [["Host", host], ["Content-Type", type], ...fields] });
  const bearer = (token) => [["Authorization", `Bearer ${token}`], ["Accept", "application/json"]];
  const authorize = "client_id=bench&response_type=code&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcallback&scope=openid&state=a&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256";

  const cookies = new Map();
  const visit = async (request) => {
    const cookie = [["Cookie", [...cookies].map(([name, value]) => `${name}=${value}`).join("; ")]];
    const response = await client.send(http1({ ...request, fields: [...request.fields, ...cookie] }), request.method);
    for (const [, name, value] of response.head.matchAll(/\r\nset-cookie: ([^=]+)=([^;\r]*)/gi)) cookies.set(name, value);
    return response;
  };
  const begun = await visit(get(`localhost:${port}`, `/oauth/authorize?${authorize}`));
  const login = /\r\nlocation: [^/]*\/\/[^/]*(\/[^\r]*)/i.exec(begun.head)?.[1] ?? "/oauth/login";
  const hidden = (page) => [...page.body.matchAll(/<input[^>]*type="hidden"[^>]*>/g)].map(([input]) => `${/name="([^"]*)"/.exec(input)[1]}=${encodeURIComponent(/value="([^"]*)"/.exec(input)?.[1] ?? "")}`).join("&");
  const inputs = hidden(await visit(get(`localhost:${port}`, login)));
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const pending = [["Cookie", cookie], ["Origin", `http://${own}`], ...BROWSER];

  return {
    "public path": get("many.localhost", "/a"),
    "refused path": get("many.localhost", "/section-9999/a"),
    "ambiguous path": get("many.localhost", "/a%2Fb"),
    "short name": get("many.localhost", "/se~1/a"),
    "bearer token": get("many.localhost", "/api/a", bearer(JWT)),
    "preflight": get("many.localhost", "/api/a", [["Origin", "https://origin-19.test"], ["Access-Control-Request-Method", "PUT"], ["Access-Control-Request-Headers", "a"]], "OPTIONS"),
    "application password": get("many.localhost", "/dav/a", [["Authorization", BASIC]]),
    "WebDAV": get("many.localhost", "/", [["Destination", "http://many.localhost/"]], "MOVE"),
    "WebDAV, readings": get("many.localhost", "/%3Fa", [["Destination", "http://many.localhost/%3Fa"]], "MOVE"),
    "WebSocket": get("many.localhost", "/a", [["Connection", "Upgrade"], ["Upgrade", "websocket"], ["Sec-WebSocket-Version", "13"], ["Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="], ["Origin", "http://many.localhost"]]),
    "session cookie": get("many.localhost", "/section-1/a", [["Cookie", `sealgate_app=${"A".repeat(22)}.${"A".repeat(43)}; a=b`], ...BROWSER]),
    "gateway path": get("many.localhost", "/.sealgate/login?then=%2Fa"),
    "gateway language": get("many.localhost", "/.sealgate/language?lang=tr&then=%2Fa"),
    "wildcard": get("a.wild.localhost", "/a"),
    "agent": get("a.wild.localhost", "/a", bearer(JWT)),
    "resource metadata": get("a.wild.localhost", "/.well-known/oauth-protected-resource"),
    "unknown host": get("b.localhost", "/"),
    "discovery": get(own, "/.well-known/openid-configuration", []),
    "keys": get(own, "/.well-known/sealgate/keys", []),
    "jwks": get(own, "/oauth/jwks", []),
    "style": get(own, "/oauth/style.css", [["Accept-Encoding", "br, gzip"]]),
    "home": get(own, "/"),
    "unknown page": get(own, "/oauth/nothing"),
    "authorize": get(own, `/oauth/authorize?${authorize}`),
    "authorize by POST": post(own, "/oauth/authorize", authorize, BROWSER),
    "sign-in page": get(own, login, pending),
    "sign-in": post(own, login, `${inputs}&email=anna%40example.test&password=wrong`, pending),
    "passkey": post(own, "/oauth/passkey", `${inputs}&credential=%7B%22id%22%3A%22AAAA%22%7D`, pending),
    "second factor": post(own, "/oauth/factor", `${inputs}&code=123456`, pending),
    "forgotten password": get(own, "/oauth/forgot-password", pending),
    "new account": get(own, "/oauth/create-account", pending),
    "address of a new account": post(own, "/oauth/create-account", `${inputs}&email=a%40example.test`, pending),
    "reset": get(own, `/oauth/reset?token=${"A".repeat(43)}`),
    "invitation": get(own, `/oauth/invitation?token=${"A".repeat(43)}`),
    "sign-out": get(own, `/oauth/logout?id_token_hint=${JWT}&post_logout_redirect_uri=https%3A%2F%2Fa.test&state=a`),
    "account": get(own, "/account", pending),
    "console": get(own, "/console/users", pending),
    "token by code": post(own, "/oauth/token", `grant_type=authorization_code&client_id=bench&code=${"A".repeat(43)}&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcallback&code_verifier=${"a".repeat(43)}`),
    "token by code, chunks": { ...post(own, "/oauth/token", `grant_type=authorization_code&client_id=bench&code=${"A".repeat(60_000)}`), chunk: 1000 },
    // Requests that an earlier search has found.
    "small chunks": { ...post(own, "/oauth/token", `grant_type=authorization_code&client_id=bench&code=${"A".repeat(60_000)}`), chunk: 1 },
    "small chunks to a public path": { ...post("many.localhost", "/a", "a".repeat(60_000)), chunk: 1 },
    "chunk extensions": { ...post(own, "/oauth/nothing", "a".repeat(60_000)), chunk: 20, extension: `;a=${"b".repeat(4000)}` },
    "letters that fold": get("many.localhost", `/${"%EF%B7%BA".repeat(3400)}`),
    "separators": get("many.localhost", `/${"..%2F".repeat(6000)}`),
    "many fields": get("many.localhost", "/section-1/a", [...BROWSER, ...Array.from({ length: 200 }, (_, number) => [`X_A-${number}`, "b"])]),
    "form to a rule": { ...post("many.localhost", "/section-1/", "a=b", [...BROWSER, ["Origin", "http://many.localhost"]]), chunk: 1000 },
    "token by refresh": post(own, "/oauth/token", `grant_type=refresh_token&client_id=bench&refresh_token=${"A".repeat(43)}`, [["DPoP", JWT]]),
    "token by assertion": post(own, "/oauth/token", `grant_type=client_credentials&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=${JWT}`),
    "token by secret": post(own, "/oauth/token", "grant_type=client_credentials&scope=a", [["Authorization", BASIC]]),
    "userinfo": get(own, "/oauth/userinfo", bearer(JWT)),
    "revoke": post(own, "/oauth/revoke", `token=${JWT}&client_id=bench`),
    "introspect": post(own, "/oauth/introspect", `token=${JWT}`, [["Authorization", BASIC]]),
    "registration": post(own, "/oauth/register", '{"redirect_uris":["https://a.test/cb"],"client_name":"A","scope":"openid","contacts":["a@example.test"]}', [], "application/json"),
    "API without a token": get(own, "/api/v1/users?search=a&limit=1", [["Accept", "application/json"]]),
    "API with a wrong token": get(own, "/api/v1/audit?kind=signed_in,signed_out", bearer(`sealgate_api_${"A".repeat(43)}`)),
    "API with another token": get(own, "/api/v1/clients/a%2Fb/secrets", bearer(JWT)),
    "change by the API": { method: "PATCH", target: "/api/v1/users/anna%40example.test", body: '{"name":"Anna","groups":["a","b"]}', fields: [["Host", own], ["Content-Type", "application/json"], ["If-Match", '"a"'], ...bearer(`sealgate_api_${"A".repeat(43)}`)] },
    "description of the API": get(own, "/api/v1/openapi.json", [["Accept", "application/json"], ["If-None-Match", '"a"']]),
    "registered client": get(own, "/oauth/register/a", bearer("A".repeat(43))),
  };
}
