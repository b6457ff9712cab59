// openid-client (npm), as a confidential client by both methods and as a public one.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import http from "node:http";
import { createRemoteJWKSet, jwtVerify } from "jose";
import * as oidc from "openid-client";
import { Browser } from "../browser.mjs";

const header = (token) => JSON.parse(Buffer.from(token.split(".")[0], "base64url"));
const { ISSUER, CLIENT_ID, CLIENT_SECRET, PUBLIC_CLIENT_ID, REDIRECT_URI, SIGNED_OUT_URI, EMAIL } = process.env;

// The algorithm of each ID token must be `algorithm`, and its signature is verified with the published keys.
async function wholeFlow(name, id, authentication, algorithm = "RS256") {
  const metadata = { id_token_signed_response_alg: algorithm };
  const config = await oidc.discovery(new URL(ISSUER), id, metadata, authentication, {
    execute: [oidc.allowInsecureRequests, oidc.enableNonRepudiationChecks],
  });
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
  assert.equal(header(tokens.id_token).alg, algorithm);
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
for (const algorithm of ["PS256", "ES256", "EdDSA"]) {
  const secret = oidc.ClientSecretBasic(process.env[`SECRET_${algorithm}`]);
  await wholeFlow(algorithm, `web-${algorithm}`, secret, algorithm);
  // The client expects another algorithm than the one for which it is registered.
  await assert.rejects(wholeFlow(algorithm, `web-${algorithm}`, secret, "RS256"), (error) => /"alg"/.test(error.cause?.message));
}

// A client in its own name, without a user.
const { SERVICE_CLIENT_ID, SERVICE_CLIENT_SECRET, RESOURCE } = process.env;
const options = { execute: [oidc.allowInsecureRequests] };
const secret = oidc.ClientSecretBasic(SERVICE_CLIENT_SECRET);
const service = await oidc.discovery(new URL(ISSUER), SERVICE_CLIENT_ID, {}, secret, options);
const tokens = await oidc.clientCredentialsGrant(service, { resource: RESOURCE, scope: "wiki:read" });
const claims = JSON.parse(Buffer.from(tokens.access_token.split(".")[1], "base64url"));
assert.deepEqual([claims.aud, claims.sub, claims.scope], [RESOURCE, SERVICE_CLIENT_ID, "wiki:read"]);
assert.deepEqual([tokens.scope, tokens.refresh_token, tokens.id_token], ["wiki:read", undefined, undefined]);
for (const [parameters, error] of [
  [{}, "invalid_target"],
  [{ resource: ISSUER }, "invalid_target"],
  [{ resource: RESOURCE, scope: "wiki:write" }, "invalid_scope"],
]) {
  await assert.rejects(oidc.clientCredentialsGrant(service, parameters), { error });
}
// The application verifies the token with the published key of its algorithm only.
const keys = createRemoteJWKSet(new URL(service.serverMetadata().jwks_uri));
const expected = { issuer: ISSUER, audience: RESOURCE, typ: "at+jwt" };
await jwtVerify(tokens.access_token, keys, { ...expected, algorithms: ["ES256"] });
await assert.rejects(jwtVerify(tokens.access_token, keys, { ...expected, algorithms: ["RS256"] }));
await assert.rejects(oidc.fetchUserInfo(service, tokens.access_token, oidc.skipSubjectCheck));
await oidc.tokenRevocation(service, tokens.access_token);
console.log("ok client_credentials");

// The application behind the gate answers with the user that the gate names.
const application = http.createServer((request, response) => response.end(request.headers["x-forwarded-user"]));
await new Promise((listens) => application.listen(process.env.RP_PORT, "127.0.0.1", listens));
const throughTheGate = (token) => new Promise((resolve, reject) => {
  const [{ port, hostname }, host] = [new URL(ISSUER), new URL(RESOURCE).host];
  const headers = { host, authorization: `Bearer ${token}`, connection: "close" };
  http.get({ hostname, port, headers }, async (response) => {
    let user = "";
    for await (const chunk of response) user += chunk;
    resolve({ status: response.statusCode, user });
  }).on("error", reject);
});

// A client with a key instead of a secret.
const pem = (await readFile(process.env.SIGNED_CLIENT_KEY, "utf8")).replace(/-----[A-Z ]+-----|\n/g, "");
const curve = { name: "ECDSA", namedCurve: "P-256" };
const key = await crypto.subtle.importKey("pkcs8", Buffer.from(pem, "base64"), curve, false, ["sign"]);
const { SIGNED_CLIENT_ID } = process.env;
const signed = await oidc.discovery(new URL(ISSUER), SIGNED_CLIENT_ID, {}, oidc.PrivateKeyJwt(key), options);
for (let times = 0; times < 2; times++) {
  const { access_token } = await oidc.clientCredentialsGrant(signed, { resource: RESOURCE });
  const { sub, scope } = JSON.parse(Buffer.from(access_token.split(".")[1], "base64url"));
  assert.deepEqual([sub, scope], [SIGNED_CLIENT_ID, "wiki:read"]);
  assert.deepEqual(await throughTheGate(access_token), { status: 200, user: `client:${SIGNED_CLIENT_ID}` });
  await oidc.tokenRevocation(signed, access_token);
  assert.equal((await throughTheGate(access_token)).status, 401);
}
application.close();
const other = await crypto.subtle.generateKey(curve, false, ["sign"]);
const thief = await oidc.discovery(new URL(ISSUER), SIGNED_CLIENT_ID, {}, oidc.PrivateKeyJwt(other.privateKey), options);
await assert.rejects(oidc.clientCredentialsGrant(thief, { resource: RESOURCE }), { status: 401 });
console.log("ok private_key_jwt");
// Back-channel logout and introspection.
async function leave(algorithm) {
  const id = `leaver-${algorithm}`;
  const secret = oidc.ClientSecretBasic(process.env[`LEAVER_${algorithm}`]);
  const config = await oidc.discovery(new URL(ISSUER), id, { id_token_signed_response_alg: algorithm }, secret, options);
  const metadata = config.serverMetadata();
  assert.deepEqual([metadata.backchannel_logout_supported, metadata.backchannel_logout_session_supported], [true, true]);
  const received = new Promise((resolve, reject) => {
    const server = http.createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      response.end();
      server.close();
      if (request.url !== "/backchannel-logout") reject(new Error(request.url));
      resolve({ type: request.headers["content-type"], form: new URLSearchParams(body) });
    });
    server.listen(process.env.RP_PORT);
  });
  const browser = new Browser();
  const verifier = oidc.randomPKCECodeVerifier();
  const address = oidc.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT_URI,
    scope: "openid profile",
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  const tokens = await oidc.authorizationCodeGrant(config, await browser.go(address), { pkceCodeVerifier: verifier });
  const { sub, sid } = tokens.claims();

  const about = await oidc.tokenIntrospection(config, tokens.access_token);
  assert.deepEqual([about.active, about.client_id, about.sub, about.token_type], [true, id, sub, "Bearer"]);
  assert.deepEqual(await oidc.tokenIntrospection(config, tokens.id_token), { active: false });

  const logout = oidc.buildEndSessionUrl(config, { id_token_hint: tokens.id_token, post_logout_redirect_uri: SIGNED_OUT_URI });
  await browser.go(logout);
  const { type, form } = await received;
  assert.equal(type, "application/x-www-form-urlencoded");
  const keys = createRemoteJWKSet(new URL(metadata.jwks_uri));
  const { payload } = await jwtVerify(form.get("logout_token"), keys, {
    issuer: ISSUER,
    audience: id,
    algorithms: [algorithm],
    typ: "logout+jwt",
    maxTokenAge: 60,
    requiredClaims: ["iat", "exp", "jti", "events"],
  });
  assert.deepEqual([payload.sub, payload.sid, payload.nonce], [sub, sid, undefined]);
  assert.deepEqual(payload.events, { "http://schemas.openid.net/event/backchannel-logout": {} });
  assert.ok(sid && payload.exp - payload.iat <= 120);
  await oidc.tokenRevocation(config, tokens.access_token);
  assert.deepEqual(await oidc.tokenIntrospection(config, tokens.access_token), { active: false });
  console.log(`ok back-channel logout and introspection, ${algorithm}`);
}

await leave("RS256");
await leave("ES256");
