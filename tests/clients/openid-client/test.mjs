// openid-client (npm), as a confidential client by both methods and as a public one.

import assert from "node:assert/strict";
import * as oidc from "openid-client";
import { Browser } from "../browser.mjs";

const { ISSUER, CLIENT_ID, CLIENT_SECRET, PUBLIC_CLIENT_ID, REDIRECT_URI, SIGNED_OUT_URI, EMAIL } = process.env;

async function wholeFlow(name, id, authentication) {
  const config = await oidc.discovery(new URL(ISSUER), id, {}, authentication, { execute: [oidc.allowInsecureRequests] });
  const browser = new Browser();
  const verifier = oidc.randomPKCECodeVerifier();
  const [state, nonce] = [oidc.randomState(), oidc.randomNonce()];
  const address = oidc.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT_URI,
    scope: "openid profile email offline_access",
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    state,
    nonce,
  });
  const callback = await browser.go(address);
  const tokens = await oidc.authorizationCodeGrant(config, callback, {
    pkceCodeVerifier: verifier,
    expectedState: state,
    expectedNonce: nonce,
    idTokenExpected: true,
  });
  const { sub } = tokens.claims();
  const info = await oidc.fetchUserInfo(config, tokens.access_token, sub);
  assert.equal(info.email, EMAIL);

  const renewed = await oidc.refreshTokenGrant(config, tokens.refresh_token);
  assert.equal(renewed.claims().sub, sub);
  assert.notEqual(renewed.refresh_token, tokens.refresh_token);
  await assert.rejects(oidc.refreshTokenGrant(config, tokens.refresh_token), { error: "invalid_grant" });

  await oidc.tokenRevocation(config, renewed.access_token);
  await assert.rejects(oidc.fetchUserInfo(config, renewed.access_token, sub));

  const logout = oidc.buildEndSessionUrl(config, { id_token_hint: tokens.id_token, post_logout_redirect_uri: SIGNED_OUT_URI, state: "bye" });
  const end = await browser.go(logout);
  assert.equal(end.searchParams.get("state"), "bye");
  console.log(`ok ${name}`);
}

await wholeFlow("client_secret_basic", CLIENT_ID, oidc.ClientSecretBasic(CLIENT_SECRET));
await wholeFlow("client_secret_post", CLIENT_ID, oidc.ClientSecretPost(CLIENT_SECRET));
await wholeFlow("public", PUBLIC_CLIENT_ID, oidc.None());
