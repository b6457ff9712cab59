// Authlib (PyPI) in a Flask application, as a confidential client: code flow with PKCE, claims, refresh, logout.

import assert from "node:assert/strict";
import { Browser, listening } from "../browser.mjs";

const { RP_PORT, EMAIL, NAME, SIGNED_OUT_PAGE } = process.env;
const site = `http://localhost:${RP_PORT}`;

async function json(browser, path) {
  const page = await browser.pass(site + path);
  assert.equal(page.status, 200, `${page.url}: ${page.html}`);
  return { url: page.url.href, body: JSON.parse(page.html) };
}

await listening(site);
const browser = new Browser([]);

const signedIn = await json(browser, "/login");
assert.equal(signedIn.url, `${site}/`);
const { sub, nonce, acr, amr } = signedIn.body;
assert.ok(sub && nonce && acr && amr.length > 0);
console.log("ok sign-in, ID token verified");

const { body: claims } = await json(browser, "/claims");
assert.deepEqual([claims.sub, claims.email, claims.email_verified, claims.name], [sub, EMAIL, true, NAME]);
console.log("ok userinfo");

const { body: refreshed } = await json(browser, "/refresh");
assert.deepEqual(refreshed, { sub, rotated: true, another_access_token: true, reuse: "invalid_grant" });
console.log("ok refresh, rotation, reuse refused");

// The reuse revoked the family. A second sign-in with the existing session creates a new one.
assert.equal((await json(browser, "/login")).body.sub, sub);
const signedOut = await json(browser, "/logout");
assert.ok(signedOut.url.startsWith(`${SIGNED_OUT_PAGE}?state=`), signedOut.url);
assert.deepEqual(signedOut.body, { signed_out: true });
const again = await browser.open(`${site}/login`);
assert.match(again.html, /id="login-submit"/);
console.log("ok logout, at the provider too");
