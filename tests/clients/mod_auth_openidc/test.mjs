// Apache's mod_auth_openidc (Debian) in front of a page, as a confidential client with PKCE.

import assert from "node:assert/strict";
import { Browser, listening } from "../browser.mjs";

const { RP_PORT, REDIRECT_URI, EMAIL, NAME, SIGNED_OUT_PAGE } = process.env;
const site = `http://localhost:${RP_PORT}`;

async function fields(browser, address) {
  const page = await browser.pass(address);
  assert.equal(page.status, 200, `${page.url}: ${page.html}`);
  assert.match(page.html, /<title>page</, `${page.url}: ${page.html}`);
  return { url: page.url.href, ...Object.fromEntries([...page.html.matchAll(/<p>(\w+)=(.*)/g)].map(([, name, value]) => [name, value])) };
}

await listening(SIGNED_OUT_PAGE);
const browser = new Browser([]);

// The browser returns to the page that it requested.
const wanted = `${site}/?page=1`;
const first = await fields(browser, wanted);
assert.deepEqual([first.url, first.remote_user, first.name], [wanted, `${EMAIL}`, NAME]);
assert.ok(first.sub && first.access_token);
console.log("ok sign-in, REMOTE_USER and claims");

const refresh = new URL(REDIRECT_URI);
refresh.searchParams.set("refresh", wanted);
refresh.searchParams.set("access_token", first.access_token);
const second = await fields(browser, refresh);
assert.equal(second.url, wanted);
assert.equal(second.sub, first.sub);
assert.notEqual(second.access_token, first.access_token);
console.log("ok refresh");

const logout = new URL(REDIRECT_URI);
logout.searchParams.set("logout", SIGNED_OUT_PAGE);
const end = await browser.pass(logout);
assert.equal(end.url.href.split("?")[0], SIGNED_OUT_PAGE);
assert.match(end.html, /signed out/);
assert.match((await browser.open(wanted)).html, /id="login-submit"/);
console.log("ok logout, at the provider too");
