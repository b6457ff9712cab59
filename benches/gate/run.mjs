// The gate beside its peers, in front of one upstream, in rounds that take turns: prints ratios within a round.
//
//   make bench-gate [ROUNDS=7] [SECONDS=3] [THREADS=2]
//
// wrk, the upstream and the gate share the machine, so a figure alone says little; a ratio of neighbours says more.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash, createPublicKey, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { median, wrk } from "../measure.mjs";

const here = new URL(".", import.meta.url).pathname;
const root = new URL("../..", import.meta.url).pathname;
const rounds = Number(process.env.ROUNDS ?? 7);
const seconds = Number(process.env.SECONDS ?? 3);
const TOKENS = 1000;
const CONNECTIONS = 64;
// Of the gate and of bare Pingora.
const threads = Number(process.env.THREADS ?? availableParallelism());

// Where .ci/install puts what it takes out of packages.
process.env.PATH += `:/usr/sbin:${process.env.CARGO_TARGET_DIR ?? `${root}/target`}/tools/bin`;
mkdirSync(`${root}/target`, { recursive: true });
const work = mkdtempSync(`${root}/target/bench-gate.`);
const children = [];
process.on("exit", () => {
  for (const child of children) child.kill("SIGTERM");
  rmSync(work, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const ports = await freePorts(5);
const [issuerPort, adminPort, upstream, bare, haproxy] = ports;
const issuer = `http://localhost:${issuerPort}`;
const redirectUri = "http://127.0.0.1/callback";
const [EMAIL, PASSWORD] = ["anna@example.test", "correct horse battery staple"];
Object.assign(process.env, { EMAIL, PASSWORD, REDIRECT_URI: redirectUri, SIGNED_OUT_URI: redirectUri });
const { Browser } = await import("../../tests/clients/browser.mjs");

start("nginx", ["-p", work, "-c", filled("nginx.conf", { BODY: "x".repeat(1024) })]);
const sealgate = await startSealgate();
const tokens = await collectTokens();
writeFileSync(`${work}/tokens`, tokens.join("\n"));
writeFileSync(`${work}/one`, tokens[0]);
const { kid } = JSON.parse(Buffer.from(tokens[0].split(".")[0], "base64url"));
const { keys } = await (await fetch(`${issuer}/oauth/jwks`)).json();
const jwk = keys.find((key) => key.kid === kid);
writeFileSync(`${work}/public.pem`, createPublicKey({ key: jwk, format: "jwk" }).export({ type: "spki", format: "pem" }));
const haproxyChild = start("haproxy", ["-f", filled("haproxy.cfg", { KID: kid, ISSUER: issuer, THREADS: availableParallelism() })]);
const bareChild = start(`${root}/target/release/examples/bare_proxy`, [`127.0.0.1:${bare}`, `127.0.0.1:${upstream}`, String(threads)]);
await Promise.all([upstream, bare, haproxy].map(listens));

// The bare proxy and the open path get a token along as well: all carry the same bytes.
const cases = {
  bare: { port: bare, path: "/open/", tokens: "one", child: bareChild },
  ungated: { port: issuerPort, path: "/open/", tokens: "one", child: sealgate },
  "gated, one token": { port: issuerPort, path: "/api/", tokens: "one", child: sealgate },
  "gated, 1,000 tokens": { port: issuerPort, path: "/api/", tokens: "tokens", child: sealgate },
  "HAProxy jwt_verify, 1,000 tokens": { port: haproxy, path: "/api/", tokens: "tokens", child: haproxyChild },
};
await refusesForgeries();

const results = Object.fromEntries(Object.keys(cases).map((name) => [name, []]));
const load = ({ port, path, tokens: file, child }, duration) =>
  wrk({ url: `http://127.0.0.1:${port}${path}`, host: "app.localhost", tokens: `${work}/${file}`, pid: child.pid, connections: CONNECTIONS, duration });
for (const name of Object.keys(cases)) load(cases[name], 1);
for (let round = 0; round < rounds; round += 1) {
  // Another order each round, so that no case always follows the same neighbour.
  const names = Object.keys(cases);
  for (let turn = 0; turn < names.length; turn += 1) {
    const name = names[(turn + round) % names.length];
    results[name].push(load(cases[name], seconds));
  }
}
report();
process.exit(0);

function report() {
  // What is compared, so that nobody takes the ratios for more than they are.
  console.log(`${new Date().toISOString().slice(0, 10)}, make bench-gate ROUNDS=${rounds} SECONDS=${seconds} THREADS=${threads}, profile bench (fat LTO)`);
  console.log("logged: nothing a request, by any of them (the gate's filter is warn: no access log)");
  console.log("cached: no answers, by any of them; the gate remembers verified tokens, which HAProxy and bare Pingora cannot: HAProxy verifies each anew\n");
  console.log(`${rounds} rounds of ${seconds} s, ${CONNECTIONS} connections, ${threads} threads on ${availableParallelism()} cores shared with wrk and nginx\n`);
  console.log("| | requests/s | processor time a request, µs | p50, ms | p99, ms |\n|-|-|-|-|-|");
  for (const [name, runs] of Object.entries(results)) {
    const column = (key, digits) => median(runs.map((run) => run[key])).toFixed(digits);
    console.log(`| ${name} | ${column("rate", 0)} | ${column("cpu", 1)} | ${column("p50", 2)} | ${column("p99", 2)} |`);
  }
  console.log("\n| ratio within a round | median (least to most) | of processor time |\n|-|-|-|");
  for (const [over, under] of [
    ["gated, one token", "ungated"],
    ["gated, 1,000 tokens", "ungated"],
    ["ungated", "bare"],
    ["gated, 1,000 tokens", "HAProxy jwt_verify, 1,000 tokens"],
  ]) {
    const ratios = (key) => results[over].map((run, round) => run[key] / results[under][round][key]);
    const rates = ratios("rate");
    const spread = `${Math.min(...rates).toFixed(2)} to ${Math.max(...rates).toFixed(2)}`;
    console.log(`| ${over} / ${under} | ${median(rates).toFixed(2)} (${spread}) | ${median(ratios("cpu")).toFixed(2)} |`);
  }
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
  execFileSync(`${root}/hsm/init-token.sh`, [`${work}/hsm`, "sealgate"], { stdio: "ignore" });
  process.env.SOFTHSM2_CONF = `${work}/hsm/softhsm2.conf`;
  writeFileSync(
    `${work}/sealgate.toml`,
    `issuer = "${issuer}"
[server]
listen = ["127.0.0.1:${issuerPort}"]
threads = ${threads}
[admin]
listen = "127.0.0.1:${adminPort}"
socket = "${work}/admin.sock"
[hsm]
module = "/usr/lib/softhsm/libsofthsm2.so"
token_label = "sealgate"
pin_file = "${work}/hsm/pin"
[store]
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

function run(...words) {
  const options = typeof words.at(-1) === "object" ? words.pop() : {};
  execFileSync(`${root}/target/release/sealgate`, [...words, "--config", `${work}/sealgate.toml`], { stdio: ["pipe", "ignore", "inherit"], ...options });
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

/// A configuration of this folder with its words in capitals replaced; the path of the copy.
function filled(name, values) {
  let text = readFileSync(`${here}/${name}`, "utf8");
  for (const [word, value] of Object.entries({ WORK: work, UPSTREAM: upstream, HAPROXY: haproxy, ...values })) {
    text = text.replaceAll(new RegExp(`\\b${word}\\b`, "g"), value);
  }
  writeFileSync(`${work}/${name}`, text);
  return `${work}/${name}`;
}

function start(program, words) {
  const log = openSync(`${work}/log`, "a");
  const child = spawn(program, words, { stdio: ["ignore", log, log] });
  child.on("exit", (code) => {
    if (code) console.error(`${program} ended with ${code}:\n${readFileSync(`${work}/log`, "utf8").slice(-2000)}`);
  });
  children.push(child);
  return child;
}

async function listens(port) {
  for (let tries = 0; tries < 300; tries += 1) {
    try {
      await fetch(`http://127.0.0.1:${port}/`, { redirect: "manual", signal: AbortSignal.timeout(1000) });
      return;
    } catch {
      await sleep(100);
    }
  }
  throw new Error(`nothing listens on port ${port}\n${readFileSync(`${work}/log`, "utf8").slice(-2000)}`);
}
