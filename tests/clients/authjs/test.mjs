// Auth.js (npm, @auth/express) with its defaults, as a confidential client.

import assert from "node:assert/strict";
import { Browser, listening } from "../browser.mjs";

const { RP_PORT, EMAIL, NAME, ISSUER, SIGNED_OUT_URI } = process.env;
const site = `http://localhost:${RP_PORT}`;
await listening(site);
const browser = new Browser([]);

// The sign-in page of Auth.js has a button for each provider.
const button = await browser.open(`${site}/auth/signin?callbackUrl=${encodeURIComponent(`${site}/`)}`);
const toProvider = await browser.submit(button, {});
assert.match(toProvider.html, /id="login-submit"/, toProvider.html);
const signedIn = await browser.pass(toProvider.url.href);
assert.equal(new URL(signedIn.url).origin, site, signedIn.html);
const session = JSON.parse((await browser.open(site)).html);
assert.deepEqual([session.user.name, session.user.email], [NAME, EMAIL]);
assert.match(session.sub, /^[0-9a-f-]{36}$/);
console.log("ok sign-in with its defaults");

// Auth.js only ends its own session; the application redirects the browser to the provider.
const question = await browser.open(`${site}/auth/signout`);
await browser.submit(question, {});
assert.deepEqual(JSON.parse((await browser.open(site)).html), { error: "nobody" });
const query = new URLSearchParams({ id_token_hint: session.idToken, post_logout_redirect_uri: SIGNED_OUT_URI });
await browser.pass(`${ISSUER}/oauth/logout?${query}`);
const again = await browser.submit(await browser.open(`${site}/auth/signin`), {});
assert.match(again.html, /id="login-submit"/);
console.log("ok logout, at the provider too");
