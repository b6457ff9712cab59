// The gate beside its peers, in front of one upstream, in rounds that take turns: prints ratios within a round.
//
//   make bench-gate [ROUNDS=7] [SECONDS=3] [THREADS=2]
//
// wrk, the upstream and the gate share the machine, so a figure alone says little; a ratio of neighbours says more.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, createPublicKey, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { filled, listens, measured, printMedians, printRatios, root, run, softHsm, start, work } from "../bed.mjs";
import { wrk } from "../measure.mjs";

const here = new URL(".", import.meta.url).pathname;
const rounds = Number(process.env.ROUNDS ?? 7);
const seconds = Number(process.env.SECONDS ?? 3);
const TOKENS = 1000;
const CONNECTIONS = 64;
// Of the gate and of bare Pingora.
const threads = Number(process.env.THREADS ?? availableParallelism());

const ports = await freePorts(5);
const [issuerPort, adminPort, upstream, bare, haproxy] = ports;
const issuer = `http://localhost:${issuerPort}`;
const redirectUri = "http://127.0.0.1/callback";
const [EMAIL, PASSWORD] = ["anna@example.test", "correct horse battery staple"];
Object.assign(process.env, { EMAIL, PASSWORD, REDIRECT_URI: redirectUri, SIGNED_OUT_URI: redirectUri });
const { Browser } = await import("../../tests/clients/browser.mjs");

start("nginx", ["-p", work, "-c", filled(`${here}/nginx.conf`, { UPSTREAM: upstream, BODY: "x".repeat(1024) })]);
const sealgate = await startSealgate();
const tokens = await collectTokens();
writeFileSync(`${work}/tokens`, tokens.join("\n"));
writeFileSync(`${work}/one`, tokens[0]);
const { kid } = JSON.parse(Buffer.from(tokens[0].split(".")[0], "base64url"));
const { keys } = await (await fetch(`${issuer}/oauth/jwks`)).json();
const jwk = keys.find((key) => key.kid === kid);
writeFileSync(`${work}/public.pem`, createPublicKey({ key: jwk, format: "jwk" }).export({ type: "spki", format: "pem" }));
const haproxyChild = start("haproxy", ["-f", filled(`${here}/haproxy.cfg`, { UPSTREAM: upstream, HAPROXY: haproxy, KID: kid, ISSUER: issuer, THREADS: availableParallelism() })]);
const bareChild = start(`${root}/target/release/examples/bare_proxy`, [`127.0.0.1:${bare}`, `127.0.0.1:${upstream}`, String(threads)]);
for (const port of [upstream, bare, haproxy]) await listens(port);

// The bare proxy and the open path get a token along as well: all carry the same bytes.
const cases = {
  bare: { port: bare, path: "/open/", tokens: "one", child: bareChild },
  ungated: { port: issuerPort, path: "/open/", tokens: "one", child: sealgate },
  "gated, one token": { port: issuerPort, path: "/api/", tokens: "one", child: sealgate },
  "gated, 1,000 tokens": { port: issuerPort, path: "/api/", tokens: "tokens", child: sealgate },
  "HAProxy jwt_verify, 1,000 tokens": { port: haproxy, path: "/api/", tokens: "tokens", child: haproxyChild },
};
await refusesForgeries();

const load = ({ port, path, tokens: file, child }, duration = seconds) =>
  wrk({ url: `http://127.0.0.1:${port}${path}`, host: "app.localhost", tokens: `${work}/${file}`, pid: child.pid, connections: CONNECTIONS, duration });
const results = measured(cases, rounds, load);
report();
process.exit(0);

function report() {
  // What is compared, so that nobody takes the ratios for more than they are.
  console.log(`${new Date().toISOString().slice(0, 10)}, make bench-gate ROUNDS=${rounds} SECONDS=${seconds} THREADS=${threads}, profile bench (fat LTO)`);
  console.log("logged: nothing a request, by any of them (the gate's filter is warn: no access log)");
  console.log("cached: no answers, by any of them; the gate remembers verified tokens, which HAProxy and bare Pingora cannot: HAProxy verifies each anew\n");
  console.log(`${rounds} rounds of ${seconds} s, ${CONNECTIONS} connections, ${threads} threads on ${availableParallelism()} cores shared with wrk and nginx\n`);
  printMedians(results, [["requests/s", "rate", 0], ["processor time a request, µs", "cpu", 1], ["p50, ms", "p50", 2], ["p99, ms", "p99", 2]]);
  printRatios(results, [
    ["gated, one token", "ungated"],
    ["gated, 1,000 tokens", "ungated"],
    ["ungated", "bare"],
    ["gated, 1,000 tokens", "HAProxy jwt_verify, 1,000 tokens"],
  ]);
}

/// Both gates must do the work that they are timed for.
async function refusesForgeries() {
  const forged = `${tokens[0].slice(0, -8)}AAAAAAAA`;
  for (const port of [issuerPort, haproxy]) {
    for (const [token, status] of [[tokens[0], "200"], [forged, "401"]]) {
      const out = execFileSync("curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: app.localhost", "-H", `Authorization: Bearer ${token}`, `http://127.0.0.1:${port}/api/`], { encoding: "utf8" });
      assert.equal(out, status, `port ${port}`);
    }
  }
}

async function startSealgate() {
  writeFileSync(
    `${work}/sealgate.toml`,
    `issuer = "${issuer}"
[server]
listen = ["127.0.0.1:${issuerPort}"]
threads = ${threads}
[admin]
listen = "127.0.0.1:${adminPort}"
socket = "${work}/admin.sock"
${softHsm()}[store]
path = "${work}/store"
[tokens]
access_token_seconds = 3600
[rate_limits]
token = 4095
[log]
filter = "warn"
[[app]]
name = "application"
host = "app.localhost"
upstreams = ["http://127.0.0.1:${upstream}"]
[[app.route]]
path = "/open/"
access = "public"
[[app.route]]
path = "/api/"
access = "bearer"
`,
  );
  run("key", "generate");
  run("user", "add", "--email", EMAIL, "--name", "Anna", "--password-stdin", { input: PASSWORD });
  run("client", "add", "--id", "bench", "--name", "Bench", "--type", "public", "--redirect-uri", redirectUri);
  const child = start(`${root}/target/release/sealgate`, ["serve", "--config", `${work}/sealgate.toml`]);
  await listens(issuerPort);
  return child;
}

/// Distinct access tokens, by refreshing.
async function collectTokens() {
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
  const redeem = async (fields) => {
    const response = await fetch(`${issuer}/oauth/token`, { method: "POST", body: new URLSearchParams({ client_id: "bench", ...fields }) });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    return body;
  };
  let answer = await redeem({ grant_type: "authorization_code", code: back.searchParams.get("code"), redirect_uri: redirectUri, code_verifier: verifier });
  const found = [answer.access_token];
  while (found.length < TOKENS) {
    answer = await redeem({ grant_type: "refresh_token", refresh_token: answer.refresh_token });
    found.push(answer.access_token);
  }
  return found;
}
