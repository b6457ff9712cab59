// passport with passport-openidconnect (npm), as a confidential client. It does not use PKCE by default.

import assert from "node:assert/strict";
import { Browser, listening } from "../browser.mjs";

const { RP_PORT, EMAIL, NAME } = process.env;
const site = `http://localhost:${RP_PORT}`;
await listening(site);
const browser = new Browser([]);

const signedIn = await browser.pass(`${site}/login`);
assert.deepEqual([signedIn.status, signedIn.url.href], [200, `${site}/`], signedIn.html);
const profile = JSON.parse(signedIn.html);
assert.deepEqual([profile.displayName, profile.emails[0].value], [NAME, EMAIL]);
assert.match(profile.id, /^[0-9a-f-]{36}$/);
console.log("ok sign-in, userinfo");
