// Uses DokuWiki and Django's admin through the gateway, which signs in with a service account.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Browser } from "../clients/browser.mjs";

const { PORT, ADMIN, APP_PASSWORD, PYTHON, DJANGO_DATABASE, WIKI_DATA, WIKI_SESSIONS, LOG } = process.env;
const PATIENCE = 60_000;

const site = (name) => `http://${name}.localhost:${PORT}`;
const browser = new Browser([]);

/// Repeats a step until it returns a value. The gateway probes a session at most once a second.
async function eventually(what, step) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const value = await step();
    if (value) return value;
    assert.ok(Date.now() < deadline, what);
    await sleep(100);
  }
}

/// Sends the form of a page that contains the pattern, as a browser does.
async function submit(page, pattern, fields) {
  const form = page.html.split(/(?=<form)/).find((part) => part.startsWith("<form") && pattern.test(part));
  assert.ok(form, `${page.url} (${page.status}) has no form with ${pattern}: ${page.html}`);
  const html = form.split("</form>")[0];
  return browser.submit({ url: page.url, html }, fields, { origin: page.url.origin, "sec-fetch-site": "same-origin" });
}

/// Returns the number of successful sign-ins of the gateway at an application.
async function signIns(app) {
  const metrics = await (await fetch(`http://127.0.0.1:${ADMIN}/metrics`)).text();
  return Number(new RegExp(`^sealgate_app_sign_ins_total\\{app="${app}",outcome="signed_in"\\} (\\d+)$`, "m").exec(metrics)?.[1] ?? 0);
}

/// Tests an application: `first` and `second` are pages that contain `user`; `edit(value)` sends a form with a
/// value, `stored()` returns the saved one, `endSessions()` ends all sessions, and `signOut(page)` uses the
/// application's own sign-out.
async function application({ name, first, second, user, edit, stored, endSessions, signOut }) {
  const shows = (page) => page.status === 200 && user.test(page.html);
  const open = async (path) => {
    const page = await browser.open(site(name) + path);
    assert.equal(page.status, 200, `${page.url}: ${page.html}`);
    return page;
  };
  let page = await browser.pass(site(name) + first);
  assert.ok(shows(page), `${page.url} (${page.status}): ${page.html}`);
  assert.ok(shows(await open(second)), second);
  assert.equal(await signIns(name), 1);
  console.log(`ok ${name} shows the service account on two pages after one sign-in`);

  await (await edit("first"))();
  assert.match(stored(), /^first\s*$/);
  console.log(`ok ${name} saves a form`);

  endSessions();
  await eventually(`${name} does not show the user after its sessions ended`, async () => shows(await open(second)));
  assert.equal(await signIns(name), 2);
  await (await edit("second"))();
  assert.match(stored(), /^second\s*$/);
  console.log(`ok ${name} shows the user and saves a form after its sessions ended`);

  const send = await edit("lost");
  endSessions();
  await eventually(`${name}: a form of an ended session is not answered with 409`, async () => (await send()).status === 409);
  assert.match(stored(), /^second\s*$/);
  page = await open(second);
  assert.ok(shows(page), page.html);
  console.log(`ok ${name} saves no form of an ended session, and the next page works`);

  const cookies = browser.cookies(`${name}.localhost`).split("; ").map((cookie) => cookie.split("=")[0]);
  assert.ok(cookies.length > 0 && cookies.every((cookie) => /^sealgate(-|$)/.test(cookie)), cookies.join());
  console.log(`ok ${name}: the browser has no cookie of the application`);

  const signedOut = await signOut(page);
  assert.equal(signedOut.url.origin, `http://localhost:${PORT}`, `${signedOut.url}`);
  assert.match(signedOut.html, /id="logout-confirm"/);
  await browser.submit(signedOut, { "logout-confirm": "yes" });
  page = await browser.open(site(name) + second);
  assert.match(page.html, /id="login-submit"/, `${page.url}`);
  console.log(`ok ${name}: its sign-out signs out of Sealgate`);
}

/// Runs a statement in Django's database. Returns the first column of its rows.
function database(statement) {
  const script = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1], timeout=30) as db:\n    print(*(row[0] for row in db.execute(sys.argv[2])), sep='\\n')";
  return execFileSync(PYTHON, ["-c", script, DJANGO_DATABASE, statement], { encoding: "utf8" }).trim();
}

/// Texts that must not be in the log: the password, raw and encoded, and session cookies.
const secrets = [APP_PASSWORD, encodeURIComponent(APP_PASSWORD), new URLSearchParams({ p: APP_PASSWORD }).toString().slice(2), "correct horse"];
const passwords = secrets.length;

async function dokuwiki() {
  const saved = `${WIKI_DATA}/pages/kept.txt`;
  await application({
    name: "wiki",
    first: "/doku.php?id=start",
    second: "/doku.php?id=start&do=profile",
    user: /<li class="user">.*?<bdi>Anna<\/bdi> \(<bdi>anna<\/bdi>/s,
    async edit(text) {
      const page = await browser.open(`${site("wiki")}/doku.php?id=kept&do=edit`);
      return () => submit(page, /name="wikitext"/, { wikitext: text, "do[save]": "1" });
    },
    stored: () => (existsSync(saved) ? readFileSync(saved, "utf8") : ""),
    endSessions() {
      // The cookie contains the password, encrypted with this salt.
      for (const name of ["_htcookiesalt", "_htcookiesalt2"]) rmSync(`${WIKI_DATA}/meta/${name}`, { force: true });
      rmSync(WIKI_SESSIONS, { recursive: true, force: true });
      mkdirSync(WIKI_SESSIONS);
    },
    signOut(page) {
      const [, link] = /href="([^"]*do=logout[^"]*)"/.exec(page.html);
      return browser.open(site("wiki") + link.replaceAll("&amp;", "&"));
    },
  });
}

async function django() {
  await application({
    name: "django",
    first: "/admin/",
    second: "/admin/auth/group/",
    user: /<strong>anna<\/strong>/,
    async edit(text) {
      const page = await browser.open(`${site("django")}/admin/auth/group/add/`);
      return () => submit(page, /name="_save"/, { name: text, _save: "Save" });
    },
    stored: () => database("select name from auth_group order by id desc limit 1"),
    endSessions() {
      secrets.push(...database("select session_key from django_session").split("\n"));
      database("delete from django_session");
    },
    signOut: (page) => submit(page, /id="logout-form"/, {}),
  });
  await eventually("the gateway does not sign out of Django", () => database("select count(*) from django_session") === "0");
  console.log("ok django: the gateway signs out of the application");
}

await dokuwiki();
await django();
const log = readFileSync(LOG, "utf8");
assert.match(log, /signed in to the application/);
assert.ok(secrets.length > passwords && secrets.every(Boolean), "Django had no session");
for (const secret of secrets) assert.ok(!log.includes(secret), "the log contains a password or a cookie");
console.log("ok the log contains no password and no cookie");
