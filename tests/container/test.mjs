// The first administrator: opens the link that `init` printed, chooses a password and opens the application.

import assert from "node:assert/strict";
import { Browser, listening } from "../clients/browser.mjs";

const [link, email, application] = process.argv.slice(2);
await listening(link);

const password = "a window over the Golden Horn";
const browser = new Browser([], { email, password });
const invitation = await browser.open(link);
assert.ok(invitation.html.includes('id="new-password-submit"'), `no form for a password at ${invitation.url}: ${invitation.html}`);
const chosen = await browser.submit(invitation, { "new-password": password, "new-password-submit": "yes" });
assert.equal(chosen.status, 200, chosen.html);

const page = await browser.pass(application);
assert.deepEqual([page.status, page.url.href], [200, application]);
assert.match(page.html, /Directory listing/, "this is not the sample application");

const stranger = await new Browser([]).open(application);
assert.ok(stranger.html.includes('id="login-submit"'), `a stranger is not asked to sign in: ${stranger.url}`);
