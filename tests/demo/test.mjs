// Follows the instructions that `make run` prints.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Browser, listening } from "../clients/browser.mjs";

const [said, port, program, make] = process.argv.slice(2);

function isRunning() {
  try {
    process.kill(Number(make), 0);
    return true;
  } catch {
    return false;
  }
}

// `make run` prints these words before it starts the server.
while (!readFileSync(said, "utf8").includes("Stop with Ctrl-C")) {
  assert.ok(isRunning(), "make run ended");
  await sleep(100);
}
const text = readFileSync(said, "utf8");
assert.match(text, new RegExp(`^running ${program}`, "m"));
const shown = (pattern) => pattern.exec(text)?.[1] ?? assert.fail(`not printed: ${pattern}`);
const [email, password] = [shown(/^ *user +(\S+)$/m), shown(/^ *password +(\S+)$/m)];
const [application, provider] = [shown(/^ *application +(\S+)/m), shown(/^ *provider +(\S+)/m)];
assert.equal(provider, `http://localhost:${port}`);
await listening(provider);

const open = await new Browser([]).open(new URL("/public/hello", application));
assert.equal(open.status, 200);
assert.ok(!open.html.toLowerCase().includes("x-forwarded-user"), "a stranger has a name");

const stranger = await new Browser([]).open(application);
assert.ok(stranger.html.includes('id="login-submit"'), `a stranger is not asked to sign in: ${stranger.url}`);

const person = new Browser([], { email, password });
const page = await person.pass(application);
assert.deepEqual([page.status, page.url.href], [200, application]);
assert.match(page.html, /x-forwarded-user/i);
assert.ok(page.html.includes(email), "the application is not told who it is");

// The log goes to a file, so that the password and the secret stay visible.
assert.equal(shown(/^ *log +(\S+)$/m), `${dirname(said)}/run/log`);
assert.match(text, /^ *an administrator/m);
for (const path of ["/account/security", "/account/app-passwords", "/console"]) {
  assert.ok(text.includes(`${provider}${path}`), `make run does not name ${path}`);
}
assert.ok(readFileSync(`${dirname(said)}/run/log`, "utf8").includes("/public/hello"), "no access log");
const last = readFileSync(said, "utf8").trimEnd().split("\n").at(-1);
assert.match(last, /Stop with Ctrl-C/, `printed after the addresses: ${last}`);

const document = await (await fetch(`${provider}/.well-known/openid-configuration`)).json();
assert.equal(document.issuer, provider);
