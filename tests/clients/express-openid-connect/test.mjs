// express-openid-connect (npm) with the code in the address or in a form (response_mode=form_post), as a confidential client.

import assert from "node:assert/strict";
import { Browser, listening } from "../browser.mjs";

const { RP_PORT, EMAIL, NAME, ISSUER } = process.env;
const site = `http://localhost:${RP_PORT}`;
await listening(site);
const browser = new Browser([]);

const signedIn = await browser.pass(`${site}/login`);
assert.deepEqual([signedIn.status, signedIn.url.href], [200, `${site}/`], signedIn.html);
const user = JSON.parse(signedIn.html);
assert.deepEqual([user.email, user.name], [EMAIL, NAME]);
console.log(`ok sign-in by ${process.env.RESPONSE_MODE || "query"}`);

const claims = JSON.parse((await browser.pass(`${site}/claims`)).html);
assert.deepEqual([claims.sub, claims.email], [user.sub, EMAIL]);
console.log("ok userinfo");

const out = await browser.pass(`${site}/logout`);
assert.ok(!out.url.href.startsWith(ISSUER), out.url.href);
assert.deepEqual(JSON.parse((await browser.open(site)).html), { error: "nobody" });
assert.match((await browser.open(`${site}/login`)).html, /id="login-submit"/);
console.log("ok logout, at the provider too");
