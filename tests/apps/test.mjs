// Checks the username that each application shows, and attacks on it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import { Browser, listening } from "../clients/browser.mjs";

const { PORT, EMAIL, USERNAME, NAME, WIKI, LAB, CALENDAR, FILES, FILES_ROOT, PROGRAM_HOME } = process.env;
// Every host name resolves to this machine.
const here = (_, options, found) => (options.all ? found(null, [{ address: "127.0.0.1", family: 4 }]) : found(null, "127.0.0.1", 4));
http.globalAgent.options.lookup = here;

/// Sends a request with exactly this target.
function ask(origin, path, { method = "GET", headers = {}, body } = {}) {
  const url = new URL(origin);
  return new Promise((resolve, reject) => {
    const request = http.request({ host: url.hostname, port: url.port, path, method, headers, lookup: here }, (response) => {
      response.setEncoding("utf8");
      let text = "";
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", reject);
    });
    request.setTimeout(20_000, () => request.destroy(new Error(`${method} ${path} took too long`)));
    request.on("error", reject);
    request.end(body);
  });
}

const site = (name) => `http://${name}.localhost:${PORT}`;
const browser = new Browser([]);

/// Signs the user in at an application. Returns a function that sends requests with their session.
async function signedIn(name, path) {
  const page = await browser.pass(site(name) + path);
  assert.equal(page.url.host, `${name}.localhost:${PORT}`, `${page.url} (${page.status}): ${page.html}`);
  const cookie = browser.cookies(`${name}.localhost`);
  return { page, ask: (target, options = {}) => ask(site(name), target, { ...options, headers: { cookie, ...options.headers } }) };
}

async function eventually(what, origin) {
  const deadline = Date.now() + 60_000;
  for (;;) {
    try {
      return await listening(origin);
    } catch (error) {
      if (Date.now() > deadline) throw new Error(`${what} does not answer`, { cause: error });
    }
  }
}

/// Spellings that CGI and its successors treat as the same header.
const forged = (name, value) => ({ [name]: value, [name.replaceAll("-", "_")]: value, [name.toUpperCase()]: value });

async function dokuwiki() {
  await eventually("DokuWiki", WIKI);
  const { page, ask: wiki } = await signedIn("wiki", "/doku.php?id=start");
  assert.equal(page.status, 200);
  assert.match(page.html, /The page that people see/);
  const called = (html) => /<li class="user">.*?<bdi>([^<]*)<\/bdi> \(<bdi>([^<]*)<\/bdi>/s.exec(html)?.slice(1);
  assert.deepEqual(called(page.html), [NAME, USERNAME]);
  console.log(`ok DokuWiki calls the person ${NAME} (${USERNAME})`);

  // The application trusts each of these, so only the gateway may set them.
  const direct = await ask(WIKI, "/doku.php?id=start", { headers: { Remote_User: "ceo" } });
  assert.match(direct.text, /<bdi>ceo<\/bdi>/, "DokuWiki reads the header in this spelling");
  const told = await wiki("/doku.php?id=start", { headers: { ...forged("Remote-User", "ceo"), ...forged("Remote-Groups", "admin"), ...forged("X-Remote-User", "ceo") } });
  assert.equal(told.status, 200);
  assert.deepEqual(called(told.text), [NAME, USERNAME]);
  const nobody = await ask(site("wiki"), "/doku.php?id=start", { headers: { "Remote-User": "ceo", Remote_User: "ceo" } });
  assert.equal(nobody.status, 401);
  for (const path of ["/lib/../doku.php?id=start", "/lib/%2e%2e/doku.php?id=start", "/lib/..%2Fdoku.php?id=start", "/lib//../doku.php", "/lib/..;/doku.php"]) {
    assert.equal((await ask(site("wiki"), path)).status, 400, path);
  }
  console.log("ok DokuWiki: forged names and paths around the closed part");
}

async function jupyterlab() {
  await eventually("JupyterLab", LAB);
  const { ask: lab } = await signedIn("lab", "/lab");
  const me = async (headers) => JSON.parse((await lab("/api/me", { headers })).text).identity;
  const { username, name } = await me();
  assert.deepEqual([username, name], [USERNAME, NAME]);
  console.log(`ok JupyterLab calls the person ${name} (${username})`);

  assert.equal((await ask(LAB, "/api/me", { headers: { "Remote-User": "ceo" } })).status, 200, "JupyterLab believes the header");
  assert.equal((await me({ ...forged("Remote-User", "ceo"), ...forged("Remote-Name", "The CEO") })).username, USERNAME);

  // A semicolon in a name is data here, in both spellings.
  for (const path of ["/files/a;b.txt", "/files/a%3Bb.txt"]) {
    const file = await lab(path, { headers: { referer: `${site("lab")}/lab` } });
    assert.deepEqual([file.status, file.text], [200, "data with a semicolon\n"], path);
  }
  // A server that decodes first serves a path of another rule.
  const secret = "/api/contents/private%2Fsecret.txt";
  const direct = await ask(LAB, secret, { headers: { "Remote-User": USERNAME } });
  assert.equal(JSON.parse(direct.text).content, "for owners\n", "JupyterLab takes %2F for a slash");
  assert.equal((await lab("/api/contents/private/secret.txt")).status, 403);
  for (const path of [secret, "/api/contents%2Fprivate/secret.txt", "/api/contents/private;/secret.txt", "/api%2fcontents%2Fprivate%2fsecret.txt", "/api/contents/a%2F..%2Fprivate%2Fsecret.txt"]) {
    assert.equal((await lab(path)).status, 400, path);
  }
  console.log("ok JupyterLab: forged names, and escaped slashes around a rule");
}

async function radicale() {
  await eventually("Radicale", CALENDAR);
  const { ask: calendar } = await signedIn("calendar", "/.web/");
  const propfind = (path, headers) =>
    calendar(path, {
      method: "PROPFIND",
      headers: { depth: "0", "content-type": "application/xml", ...headers },
      body: '<propfind xmlns="DAV:"><prop><current-user-principal/></prop></propfind>',
    });
  const own = `/${encodeURIComponent(USERNAME)}/`;
  const principal = async (headers) => decodeURIComponent(/<(?:\w+:)?href>([^<]*)<\/(?:\w+:)?href><\/(?:\w+:)?current-user-principal>/.exec((await propfind("/", headers)).text)?.[1] ?? "");
  assert.equal(await principal(), `/${USERNAME}/`);
  assert.equal((await calendar(`${own}work/`, { method: "MKCALENDAR" })).status, 201);
  console.log(`ok Radicale calls the person ${USERNAME}, who has a calendar`);

  const attack = { ...forged("X-Remote-User", "ceo"), authorization: `Basic ${Buffer.from("ceo:ceo").toString("base64")}` };
  const direct = await ask(CALENDAR, "/ceo/work/", { method: "MKCALENDAR", headers: { X_Remote_User: "ceo" } });
  assert.equal(direct.status, 201, "Radicale reads the header in this spelling");
  assert.equal(await principal(attack), `/${USERNAME}/`);
  assert.ok([403, 404].includes((await calendar("/ceo/work/", { method: "PROPFIND", headers: { depth: "1", ...attack } })).status));
  assert.ok([403, 404].includes((await calendar("/ceo/mine/", { method: "MKCALENDAR", headers: attack })).status));
  for (const path of [`${own}..%2Fceo%2Fwork/`, `${own}../ceo/work/`, `${own}..;/ceo/work/`, `${own}%2e%2e/ceo/work/`]) {
    assert.equal((await propfind(path)).status, 400, path);
  }
  console.log("ok Radicale: nobody enters as ceo");
}

/// Tests a program that only supports HTTP Basic, with an application password that its owner creates and
/// revokes.
async function webdav() {
  await eventually("WsgiDAV", FILES);
  await signedIn("files", "/");
  const page = `http://localhost:${PORT}/account/app-passwords`;
  const account = async (fields) => {
    const opened = await browser.pass(page);
    const csrf = /name="csrf" value="([^"]*)"/.exec(opened.html)[1];
    // The answer redirects to the page that shows the new password.
    const form = { url: new URL(page), html: '<form action="/account/app-passwords">' };
    const answer = await browser.submit(form, { csrf, ...fields });
    assert.ok(answer.status < 400, answer.html);
    return answer.html;
  };
  const password = /id="new-app-password">([^<]*)</.exec(await account({ app: "files", name: "cadaver" }))[1];
  writeFileSync(`${PROGRAM_HOME}/.netrc`, `machine files.localhost login ${USERNAME} password ${password}\n`, { mode: 0o600 });
  writeFileSync(`${PROGRAM_HOME}/note.txt`, "kept by a program\n");
  const cadaver = (...commands) =>
    // Where names below localhost are not resolved, use the gateway as a proxy, with the absolute URI in the
    // request line.
    execFileSync("cadaver", [`--proxy=127.0.0.1:${PORT}`, `${site("files")}/`], { cwd: PROGRAM_HOME, env: { ...process.env, HOME: PROGRAM_HOME, TERM: "dumb" }, input: [...commands, "quit", ""].join("\n"), encoding: "utf8", timeout: 30_000 });

  const told = cadaver("mkcol work", "put note.txt work/note.txt", "copy work/note.txt work/copy.txt", "move work/note.txt work/moved.txt", "ls work", "get work/copy.txt back.txt");
  assert.match(told, /Listing collection `\/work\/': succeeded\.[^]*copy\.txt[^]*moved\.txt/, told);
  assert.equal(readFileSync(`${PROGRAM_HOME}/back.txt`, "utf8"), "kept by a program\n");
  assert.ok(existsSync(`${FILES_ROOT}/work/moved.txt`) && !existsSync(`${FILES_ROOT}/work/note.txt`), told);
  console.log("ok WsgiDAV: cadaver makes, puts, copies, moves, lists and gets with an application password");

  // The rule of a path also applies to the destination of copies, because the application writes there.
  const basic = `Basic ${Buffer.from(`${USERNAME}:${password}`).toString("base64")}`;
  const copy = (origin, headers) => ask(origin, "/work/copy.txt", { method: "COPY", headers: { destination: `${new URL(origin).origin}/private/mine.txt`, ...headers } });
  const direct = await copy(FILES, { "Remote-User": USERNAME });
  assert.equal(direct.status, 201, `${direct.status} ${direct.text}`);
  assert.ok(existsSync(`${FILES_ROOT}/private/mine.txt`));
  assert.equal((await ask(site("files"), "/private/secret.txt", { headers: { authorization: basic } })).status, 403);
  assert.match(cadaver("copy work/copy.txt private/over.txt"), /403/);
  assert.match(cadaver("move work/copy.txt private/over.txt"), /403/);
  assert.ok(!existsSync(`${FILES_ROOT}/private/over.txt`));
  // Requests to a parent collection do not give access to a closed member.
  const dav = (origin, method, path, headers) => ask(origin, path, { method, headers });
  const listed = await dav(FILES, "PROPFIND", "/", { "Remote-User": USERNAME });
  assert.match(listed.text, /\/private\/mine\.txt/, "WsgiDAV takes no Depth for infinity");
  for (const [method, headers] of [
    ["PROPFIND", {}],
    ["PROPFIND", { depth: "infinity" }],
    ["PROPFIND", { depth: "2" }],
    ["PROPFIND", { depth: "1,noroot" }],
    ["PROPFIND", { depth: "0", connection: "close, Depth" }],
    ["DELETE", {}],
    ["DELETE", { depth: "0" }],
    ["LOCK", {}],
    ["COPY", { destination: `${site("files")}/copied/` }],
    ["COPY", { destination: `${site("files")}/copied/`, depth: "0" }],
    ["MOVE", { destination: `${site("files")}/moved/` }],
  ]) {
    const answer = await dav(site("files"), method, "/", { authorization: basic, ...headers });
    assert.equal(answer.status, 403, `${method} ${JSON.stringify(headers)}: ${answer.text}`);
  }
  assert.equal((await dav(site("files"), "PROPFIND", "/", { authorization: basic, depth: "0" })).status, 207);
  // A listing names the closed collection, and none of its members.
  const members = await dav(site("files"), "PROPFIND", "/", { authorization: basic, depth: "1" });
  assert.equal(members.status, 207, members.text);
  assert.match(members.text, /<\/?(?:\w+:)?href>\/private\/</);
  assert.doesNotMatch(members.text, /secret\.txt|mine\.txt/);
  assert.equal((await dav(site("files"), "PROPFIND", "/private/", { authorization: basic, depth: "1" })).status, 403);
  assert.equal((await dav(site("files"), "PROPFIND", "/work/", { authorization: basic })).status, 207);
  const over = { destination: `${site("files")}/private`, depth: "0" };
  assert.equal((await dav(site("files"), "COPY", "/work/", { authorization: basic, ...over })).status, 403);
  assert.ok(existsSync(`${FILES_ROOT}/private/mine.txt`) && !existsSync(`${FILES_ROOT}/copied`));
  // Both the user's own password and a missing password are refused.
  for (const authorization of [`Basic ${Buffer.from(`${USERNAME}:${process.env.PASSWORD}`).toString("base64")}`, undefined]) {
    const answer = await ask(site("files"), "/", { method: "PROPFIND", headers: authorization ? { authorization } : {} });
    assert.equal(answer.status, 401);
    assert.match(String(answer.headers["www-authenticate"]), /Basic realm="files"/);
  }
  const shown = await browser.pass(page);
  await account({ revoke: /name="revoke" value="([^"]*)"/.exec(shown.html)[1] });
  assert.equal((await ask(site("files"), "/", { method: "PROPFIND", headers: { authorization: basic } })).status, 401);
  console.log("ok WsgiDAV: no way into a closed part by Destination or through its parent, and a revoked password opens nothing");
}

await dokuwiki();
await radicale();
await webdav();
await jupyterlab();
