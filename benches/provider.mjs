// Provider and gateway for benchmarks: one user, one client, one application with a public path and
// a path that requires a token.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { listens, runAt, sealgate, softHsm, start, work } from "./bed.mjs";

const redirectUri = "http://127.0.0.1/callback";
const [EMAIL, PASSWORD] = ["anna@example.test", "correct horse battery staple"];
Object.assign(process.env, { EMAIL, PASSWORD, REDIRECT_URI: redirectUri, SIGNED_OUT_URI: redirectUri });
const { Browser } = await import("../tests/clients/browser.mjs");

/// Sets up a provider with a SoftHSM token. On app.localhost, `/open/` is public and `/api/`
/// requires a token. Its `start` accepts the log filter, a command prefix, such as a profiler, and
/// further tables.
/// `tls`: certificate and key. `server`, `limits` and `application`: additional lines of those tables,
/// with `rate_limits` for `limits`; `more`: further tables.
export function provider({ issuerPort, adminPort, upstream, threads, tls, directory = work, server = "", limits = "", application = "", more = "" }) {
  const scheme = tls ? "https" : "http";
  const issuer = `${scheme}://localhost:${issuerPort}`;
  mkdirSync(directory, { recursive: true });
  const hsm = softHsm(directory);
  const env = { SOFTHSM2_CONF: process.env.SOFTHSM2_CONF };
  const configure = (filter, further = "") =>
    writeFileSync(
      `${directory}/sealgate.toml`,
      `issuer = "${issuer}"
[server]
listen = ["127.0.0.1:${issuerPort}"]
threads = ${threads}
${server}${tls ? `tls = { certificate = "${tls.certificate}", key = "${tls.key}" }\n` : ""}[admin]
listen = "127.0.0.1:${adminPort}"
socket = "${directory}/admin.sock"
${hsm}[store]
path = "${directory}/store"
[tokens]
access_token_seconds = 3600
[rate_limits]
token = "none"
authorize = "none"
pages = "none"
userinfo = "none"
${limits}[log]
filter = "${filter}"
[[app]]
name = "application"
host = "app.localhost"
upstreams = ["http://127.0.0.1:${upstream}"]
${application}[[app.route]]
path = "/open/"
access = "public"
[[app.route]]
path = "/api/"
access = "bearer"
${more}${further}`,
    );
  configure("warn");
  const run = (...words) => runAt(directory, ...words);
  run("key", "generate");
  run("user", "add", EMAIL, "--name", "Anna", "--password-stdin", { input: PASSWORD });
  run("client", "add", "bench", "--name", "Bench", "--type", "public", "--redirect-uri", redirectUri);
  return {
    issuer,
    directory,
    run,
    async start({ filter = "warn", before = [], more: further = "" } = {}) {
      configure(filter, further);
      const [program, ...words] = [...before, sealgate, "serve", "--config", `${directory}/sealgate.toml`];
      const child = start(program, words, env);
      await listens(issuerPort, scheme);
      return child;
    },
  };
}

/// Signs in with a new browser, and returns the Cookie header for the provider's own pages.
export async function pageCookies(issuer) {
  const browser = new Browser();
  await browser.pass(new URL(`${issuer}/account`));
  return browser.cookies(new URL(issuer).hostname);
}

/// Returns distinct access tokens, obtained by refreshing.
export async function accessTokens(issuer, count) {
  let answer = await signIn(issuer);
  const found = [answer.access_token];
  while (found.length < count) {
    answer = await redeem(issuer, { grant_type: "refresh_token", refresh_token: answer.refresh_token });
    found.push(answer.access_token);
  }
  return found;
}

/// Signs in with a new browser and returns the token response.
export async function signIn(issuer) {
  const verifier = randomBytes(32).toString("base64url");
  const request = new URL(`${issuer}/oauth/authorize`);
  request.search = new URLSearchParams({
    client_id: "bench",
    response_type: "code",
    redirect_uri: redirectUri,
    scope: "openid offline_access",
    prompt: "consent",
    state: "bench",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  const back = await new Browser().go(request);
  return redeem(issuer, { grant_type: "authorization_code", code: back.searchParams.get("code"), redirect_uri: redirectUri, code_verifier: verifier });
}

export async function redeem(issuer, fields) {
  const response = await fetch(`${issuer}/oauth/token`, { method: "POST", body: new URLSearchParams({ client_id: "bench", ...fields }) });
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  return body;
}
