// oidc-client-ts (npm) as a single-page application, a public client, in Chromium. The application and the provider are
// two origins, so discovery, keys, token, UserInfo and revocation work only with the right CORS headers.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { chromium } from "playwright-core";

const { ISSUER, PUBLIC_CLIENT_ID, REDIRECT_URI, SIGNED_OUT_URI, RP_PORT, EMAIL, PASSWORD, NAME } = process.env;

const settings = {
  authority: ISSUER,
  client_id: PUBLIC_CLIENT_ID,
  redirect_uri: REDIRECT_URI,
  post_logout_redirect_uri: SIGNED_OUT_URI,
  scope: "openid profile email offline_access",
  loadUserInfo: true,
  revokeTokensOnSignout: true,
  automaticSilentRenew: false,
};
const library = await readFile("node_modules/oidc-client-ts/dist/browser/oidc-client-ts.min.js");
const html = `<!doctype html><title>application</title><link rel="icon" href="data:,">
<script src="/oidc.js"></script>
<script>
  const settings = ${JSON.stringify(settings)};
  settings.userStore = new oidc.WebStorageStateStore({ store: localStorage });
  window.manager = new oidc.UserManager(settings);
  if (window !== parent) manager.signinSilentCallback();
  window.keys = () => new oidc.MetadataService(new oidc.OidcClientSettingsStore(settings)).getSigningKeys();
</script>`;
const application = createServer((request, response) => {
  const script = request.url === "/oidc.js";
  response.setHeader("content-type", script ? "text/javascript" : "text/html; charset=utf-8");
  response.end(script ? library : html);
});
await new Promise((done) => application.listen(Number(RP_PORT), "127.0.0.1", done));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(30_000);
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && complaints.push(`${message.text()} ${message.location().url}`));
  const calls = [];
  page.on("response", (response) => {
    if (response.url().startsWith(ISSUER) && response.request().resourceType() === "fetch") {
      calls.push(`${response.request().method()} ${new URL(response.url()).pathname} ${response.status()}`);
    }
  });

  await page.goto(SIGNED_OUT_URI);
  assert.equal((await page.evaluate(() => keys()))[0].alg, "RS256");
  console.log("ok discovery and keys");

  // The page is replaced while the script runs, so wait for the next page.
  await page.evaluate(() => void manager.signinRedirect({ url_state: "kept" }));
  await page.fill("#email", EMAIL);
  await page.fill("#password", PASSWORD);
  await page.click("#login-submit");
  await page.click("#consent-allow");
  await page.waitForURL(`${REDIRECT_URI}?**`);
  const user = await page.evaluate(async () => {
    const { profile, access_token, refresh_token, scope, url_state } = await manager.signinRedirectCallback();
    return { profile, access_token, refresh_token, scope, url_state };
  });
  assert.deepEqual([user.profile.email, user.profile.name, user.url_state], [EMAIL, NAME, "kept"]);
  console.log("ok sign-in, userinfo");

  const renewed = await page.evaluate(async () => {
    const { profile, access_token, refresh_token } = await manager.signinSilent();
    return { profile, access_token, refresh_token };
  });
  assert.equal(renewed.profile.sub, user.profile.sub);
  assert.notEqual(renewed.access_token, user.access_token);
  assert.notEqual(renewed.refresh_token, user.refresh_token);
  console.log("ok silent renewal by refresh token");

  // Without a refresh token it opens the provider in a frame with prompt=none. The provider is on the same
  // site, so its session is available and it answers without a page.
  const framed = await page.evaluate(async () => {
    const held = await manager.getUser();
    delete held.refresh_token;
    await manager.storeUser(held);
    const { profile, access_token } = await manager.signinSilent({ silentRequestTimeoutInSeconds: 15 });
    return { profile, access_token };
  });
  assert.equal(framed.profile.sub, user.profile.sub);
  assert.notEqual(framed.access_token, renewed.access_token);
  console.log("ok silent renewal in a frame");

  await page.evaluate(() => void manager.signoutRedirect({ state: "bye" }));
  await page.waitForURL(`${SIGNED_OUT_URI}?state=**`);
  await page.evaluate(() => manager.signoutRedirectCallback());
  assert.equal(await page.evaluate(() => manager.getUser()), null);
  await page.evaluate(() => void manager.signinRedirect());
  await page.waitForSelector("#login-submit");
  console.log("ok sign-out, at the provider too");

  // Each of them was a cross-origin request.
  for (const call of ["GET /.well-known/openid-configuration 200", "GET /oauth/jwks 200", "POST /oauth/token 200",
    "GET /oauth/userinfo 200", "POST /oauth/revoke 200"]) assert.ok(calls.includes(call), `${call} in ${calls}`);
  assert.deepEqual(calls.filter((call) => !call.endsWith(" 200")), []);
  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
  application.close();
}
