// oauth2-proxy in front of a page, as a confidential client with PKCE.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Browser, listening } from "../browser.mjs";

const { ISSUER, CLIENT_ID, COOKIE_SECRET, EMAIL, PROGRAM, RP_PORT, SIGNED_OUT_PAGE, STATE } = process.env;
const site = `http://localhost:${RP_PORT}`;

// The upstream returns the request as JSON.
const page = http.createServer((request, response) => {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ url: request.url, headers: request.headers }));
});
await new Promise((done) => page.listen(0, "127.0.0.1", done));

const log = openSync(`${STATE}/log`, "w");
const proxy = spawn(
  PROGRAM,
  [
    "--provider=oidc",
    `--oidc-issuer-url=${ISSUER}`,
    `--client-id=${CLIENT_ID}`,
    `--client-secret-file=${STATE}/client-secret`,
    `--redirect-url=${site}/oauth2/callback`,
    "--scope=openid profile email offline_access",
    "--code-challenge-method=S256",
    "--skip-provider-button",
    "--email-domain=*",
    "--cookie-secure=false",
    "--cookie-refresh=1s",
    "--pass-access-token",
    `--whitelist-domain=${new URL(ISSUER).host}`,
    "--skip-auth-route=GET=^/signed-out$",
    `--http-address=127.0.0.1:${RP_PORT}`,
    `--upstream=http://127.0.0.1:${page.address().port}/`,
  ],
  { stdio: ["ignore", log, log], env: { OAUTH2_PROXY_COOKIE_SECRET: COOKIE_SECRET } },
);
try {
  await signInRefreshAndLogOut();
} finally {
  proxy.kill();
  page.close();
}

async function told(browser, address) {
  const { url, html, status } = await browser.pass(address);
  assert.equal(status, 200, `${url}: ${html}`);
  return JSON.parse(html);
}

async function signInRefreshAndLogOut() {
  await listening(SIGNED_OUT_PAGE);
  const browser = new Browser([]);

  const wanted = "/reports?year=2026&name=%C5%9E";
  const first = await told(browser, site + wanted);
  assert.equal(first.url, wanted);
  assert.equal(first.headers["x-forwarded-email"], EMAIL);
  assert.match(first.headers["x-forwarded-user"], /^[0-9a-f-]{36}$/);
  console.log("ok sign-in, comes back to the page wanted");

  // oauth2-proxy rounds cookie-refresh to whole seconds.
  let second = first;
  for (let tries = 0; tries < 20 && second.headers["x-forwarded-access-token"] === first.headers["x-forwarded-access-token"]; tries += 1) {
    await sleep(500);
    second = await told(browser, site + wanted);
  }
  assert.notEqual(second.headers["x-forwarded-access-token"], first.headers["x-forwarded-access-token"]);
  assert.equal(second.headers["x-forwarded-user"], first.headers["x-forwarded-user"]);
  console.log("ok refresh");

  const logout = new URL(`${ISSUER}/oauth/logout`);
  logout.search = new URLSearchParams({ client_id: CLIENT_ID, post_logout_redirect_uri: SIGNED_OUT_PAGE });
  const end = await browser.pass(`${site}/oauth2/sign_out?rd=${encodeURIComponent(logout)}`);
  assert.equal(end.url.href, SIGNED_OUT_PAGE, end.html);
  assert.match((await browser.open(site + wanted)).html, /id="login-submit"/);
  console.log("ok logout, at the provider too");
}
