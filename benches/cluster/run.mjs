// A cluster compared with one server with a store in files: token responses a second with one, two
// and three nodes, and gated requests with cached tokens. Cases alternate; prints ratios within a
// round.
//
//   make bench-cluster [ROUNDS=5] [SECONDS=5]
//
// Nodes, databases, load generator and SoftHSM share this machine. Two kinds of token device are
// measured. The first takes 10 ms for a signature without using the processors, like a network HSM
// or a TPM: the throughput should grow with the number of nodes. The second is plain SoftHSM, where
// all nodes together have the processors of a single node.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, realpathSync, writeFileSync, writeSync } from "node:fs";
import { Agent } from "node:http";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { median, wrk } from "../measure.mjs";
import { refreshing, signatures, token } from "../refresh.mjs";

const root = new URL("../..", import.meta.url).pathname;
const rounds = Number(process.env.ROUNDS ?? 5);
const seconds = Number(process.env.SECONDS ?? 5);
const program = process.env.PROGRAM ?? `${root}/target/optimized/sealgate`;
/// Clients per server. Each client refreshes continuously.
const CLIENTS = 64;
const TOKENS = 1000;
const DEVICE_MILLISECONDS = 10;
const redirectUri = "http://127.0.0.1/callback";

mkdirSync(`${root}/target`, { recursive: true });
// The real path, because the shell writes it into configurations.
const work = realpathSync(mkdtempSync(`${root}/target/bench-cluster.`));
const children = [];
let ended = false;
process.on("exit", () => {
  ended = true;
  for (const child of children) child.kill("SIGTERM");
  // The databases stop after the nodes, and their directory must exist until then.
  spawn("sh", ["-c", `while kill -0 ${children.map((child) => child.pid).join(" ")} 2>/dev/null; do sleep 0.2; done; rm -rf '${work}' '${databases}'`], { detached: true, stdio: "ignore" }).unref();
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

// conf/cluster.sh also uses ports that it derives from this one.
const port = await freePort();
const databases = `/var/lib/postgresql/sealgate-cluster-${port}`;
const [sledPort, sledAdmin] = await freePorts(2);
const module = slowModule();
writeFileSync(`${work}/extra.toml`, `[tokens]\naccess_token_seconds = 3600\n[rate_limits]\ntoken = "none"\nauthorize = "none"\npages = "none"\n`);

const bare = { slow: bareSignatures(DEVICE_MILLISECONDS), SoftHSM: bareSignatures(0) };
delay(0);
const cluster = await startCluster();
const sled = await startSled();
const cases = {
  "sled, one server": { issuer: sled.issuer, ports: [sledPort] },
  "one node": { issuer: cluster.issuer, ports: cluster.ports.slice(0, 1) },
  "two nodes": { issuer: cluster.issuer, ports: cluster.ports.slice(0, 2) },
  "three nodes": { issuer: cluster.issuer, ports: cluster.ports },
};
const families = { [sled.issuer]: await signIn(sled, CLIENTS), [cluster.issuer]: await signIn(cluster, 3 * CLIENTS) };
const names = Object.keys(cases);
const refreshed = { slow: series(names), SoftHSM: series(names) };
for (const device of ["slow", "SoftHSM"]) {
  delay(device === "slow" ? DEVICE_MILLISECONDS : 0);
  for (const name of names) await refresh(cases[name], 1);
  await turns(names, async (name) => refreshed[device][name].push(await refresh(cases[name], seconds)));
}

const gated = {};
for (const [name, server] of Object.entries({ "sled, one server": sled, "one node of three": cluster })) {
  writeFileSync(`${work}/${server.ports[0]}.tokens`, server.tokens.slice(-TOKENS).join("\n"));
  assert.equal(server.tokens.slice(-TOKENS).length, TOKENS);
  gated[name] = { ...server, tokens: `${work}/${server.ports[0]}.tokens` };
}
const asked = series(Object.keys(gated));
for (const name of Object.keys(gated)) gate(gated[name], 2);
await turns(Object.keys(gated), async (name) => asked[name].push(gate(gated[name], seconds)));
report();
process.exit(0);

function report() {
  const shown = (values, digits) => `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)})`;
  console.log(`${new Date().toISOString().slice(0, 10)}, make bench-cluster ROUNDS=${rounds} SECONDS=${seconds}, ${program.includes("release") ? "release" : "debug"}, ${availableParallelism()} cores for all\n`);
  console.log(`Token responses: ${CLIENTS} clients at each server refresh without a pause; two signatures of RSA 2048 each.\n`);
  for (const [device, runs] of Object.entries(refreshed)) {
    const limit = bare[device] / 2;
    const title = device === "slow" ? `a device of ${DEVICE_MILLISECONDS} ms a signature a session` : "SoftHSM as it is";
    console.log(`${title}: ${bare[device].toFixed(0)} bare signatures a second of one process, enough for ${limit.toFixed(0)} responses\n`);
    console.log("| | responses/s | / that limit | / one node | p50, ms | p99, ms |\n|-|-|-|-|-|-|");
    for (const name of names) {
      const rates = runs[name].map((run) => run.rate);
      const cells = [
        median(rates).toFixed(0),
        shown(rates.map((rate) => rate / limit), 2),
        shown(rates.map((rate, round) => rate / runs["one node"][round].rate), 2),
        median(runs[name].map((run) => run.p50)).toFixed(1),
        median(runs[name].map((run) => run.p99)).toFixed(1),
      ];
      console.log(`| ${name} | ${cells.join(" | ")} |`);
    }
    console.log("");
  }
  console.log(`Gated requests: ${TOKENS} tokens that are remembered, 64 connections, the default log.\n`);
  console.log("| | requests/s | processor time per request, µs | p50, ms | p99, ms |\n|-|-|-|-|-|");
  for (const [name, runs] of Object.entries(asked)) {
    const column = (key, digits) => median(runs.map((run) => run[key])).toFixed(digits);
    console.log(`| ${name} | ${column("rate", 0)} | ${column("cpu", 1)} | ${column("p50", 2)} | ${column("p99", 2)} |`);
  }
  const ratios = (key) => asked["one node of three"].map((run, round) => run[key] / asked["sled, one server"][round][key]);
  console.log(`\nthe node / sled within a round: requests ${shown(ratios("rate"), 2)}, processor time ${shown(ratios("cpu"), 2)}`);
}

/// Changes the order in each round, so that no case always follows the same one.
async function turns(all, act) {
  for (let round = 0; round < rounds; round += 1) {
    for (let turn = 0; turn < all.length; turn += 1) await act(all[(turn + round) % all.length]);
  }
}

function series(all) {
  return Object.fromEntries(all.map((name) => [name, []]));
}

function gate({ issuer, ports, tokens, pid }, duration) {
  return wrk({ url: `http://127.0.0.1:${ports[0]}/api/`, host: `app.${new URL(issuer).host}`, tokens, pid, connections: 64, duration });
}

/// Responses a second, and their latency.
function refresh({ issuer, ports }, duration) {
  const { tokens } = issuer === sled.issuer ? sled : cluster;
  return refreshing({ families: families[issuer].slice(0, CLIENTS * ports.length), host: new URL(issuer).host, ports, tokens }, duration);
}

/// Creates families of refresh tokens for one user.
async function signIn({ issuer, email, password, ports }, count) {
  Object.assign(process.env, { EMAIL: email, PASSWORD: password, REDIRECT_URI: redirectUri, SIGNED_OUT_URI: redirectUri });
  const { Browser } = await import("../../tests/clients/browser.mjs");
  const browser = new Browser([redirectUri], { email, password });
  const agent = new Agent({ keepAlive: true });
  const found = [];
  while (found.length < count) {
    const verifier = randomBytes(32).toString("base64url");
    const request = new URL(`${issuer}/oauth/authorize`);
    request.search = new URLSearchParams({
      client_id: "bench",
      response_type: "code",
      redirect_uri: redirectUri,
      scope: "openid profile offline_access",
      prompt: "consent",
      state: "bench",
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256",
    });
    const back = await browser.go(request);
    const fields = { grant_type: "authorization_code", code: back.searchParams.get("code"), redirect_uri: redirectUri, code_verifier: verifier };
    found.push({ token: (await token(agent, new URL(issuer).host, ports[0], fields)).refresh_token });
  }
  agent.destroy();
  return found;
}

async function startCluster() {
  const child = start(`${root}/conf/cluster.sh`, [], { PORT: String(port), RUN: `${work}/cluster`, SEALGATE: program, MODULE: module, EXTRA: `${work}/extra.toml` });
  const said = () => readFileSync(`${work}/log`, "utf8");
  for (let tries = 0; !said().includes("Stop with Ctrl-C"); tries += 1) {
    if (tries > 600 || child.exitCode !== null) throw new Error(`the cluster does not start:\n${said().slice(-2000)}`);
    await sleep(200);
  }
  const issuer = `http://localhost:${port}`;
  await listens(`${issuer}/.well-known/openid-configuration`);
  const configuration = `${work}/cluster/node-1/sealgate.toml`;
  addClient(configuration, `${work}/cluster/node-1/hsm`);
  return {
    issuer,
    ports: [1, 2, 3].map((node) => port + 10 + node),
    pid: Number(readFileSync(`${work}/cluster/node-1/pid`, "utf8")),
    email: "demo@example.com",
    password: readFileSync(`${work}/cluster/password`, "utf8").trim(),
    tokens: [],
  };
}

/// Starts a single server with the first node's configuration except the store.
async function startSled() {
  const own = `${work}/sled`;
  execFileSync(`${root}/hsm/init-token.sh`, [`${own}/hsm`, "sealgate"], { stdio: "ignore" });
  const configuration = `${own}/sealgate.toml`;
  const ofNode = readFileSync(`${work}/cluster/node-1/sealgate.toml`, "utf8");
  const text = ofNode
    .replaceAll(`localhost:${port}`, `localhost:${sledPort}`)
    .replace(`127.0.0.1:${port + 11}`, `127.0.0.1:${sledPort}`)
    .replace(`127.0.0.1:${port + 1031}`, `127.0.0.1:${sledAdmin}`)
    .replaceAll(`${work}/cluster/node-1/`, `${own}/`)
    .replace("shared = false\n", "")
    .replace(/engine = "postgres"\nurl_file = .*\n/, `path = "${own}/store"\n`)
    .replace(/\[cluster\]\nnode = .*\n/, "");
  writeFileSync(configuration, text);
  const env = { SOFTHSM2_CONF: `${own}/hsm/softhsm2.conf` };
  const run = (words, input) => execFileSync(program, [...words, "--config", configuration], { env: { ...process.env, ...env }, input, stdio: ["pipe", "ignore", "inherit"] });
  const [email, password] = ["demo@example.com", "correct horse battery staple"];
  run(["key", "generate"]);
  run(["user", "add", email, "--name", "Demo", "--password-stdin"], password);
  const child = start(program, ["serve", "--config", configuration], env);
  const issuer = `http://localhost:${sledPort}`;
  await listens(`${issuer}/.well-known/openid-configuration`);
  addClient(configuration, `${own}/hsm`);
  return { issuer, ports: [sledPort], pid: child.pid, email, password, tokens: [] };
}

function addClient(configuration, hsm) {
  const words = ["client", "add", "bench", "--name", "Bench", "--type", "public", "--redirect-uri", redirectUri, "--config", configuration];
  execFileSync(program, words, { env: { ...process.env, SOFTHSM2_CONF: `${hsm}/softhsm2.conf` }, stdio: ["ignore", "ignore", "inherit"] });
}

/// Builds a module that wraps SoftHSM and can be slowed down at run time; see tests/support/shim.c.
function slowModule() {
  const path = `${work}/slow.so`;
  const real = "/usr/lib/softhsm/libsofthsm2.so";
  execFileSync("cc", ["-shared", "-fPIC", "-O1", "-pthread", "-I/usr/include/p11-kit-1", `-DREAL="${real}"`, "-o", path, `${root}/tests/support/shim.c`]);
  writeFileSync(`${path}.control`, Buffer.alloc(512 * 8));
  return path;
}

/// Sets an additional delay for each C_Sign.
function delay(milliseconds) {
  const [SIGN, LATE] = [12, 2];
  const word = Buffer.alloc(8);
  word.writeBigUInt64LE(BigInt(milliseconds * 1000));
  const control = openSync(`${module}.control`, "r+");
  writeSync(control, word, 0, 8, 8 * (16 + 8 * SIGN + LATE));
  closeSync(control);
}

/// Signatures a second of threads that only sign, one per session of a server.
function bareSignatures(milliseconds) {
  delay(milliseconds);
  return signatures(root, module);
}

function start(file, words, env) {
  const log = openSync(`${work}/log`, "a");
  const child = spawn(file, words, { cwd: root, env: { ...process.env, ...env }, stdio: ["ignore", log, log] });
  child.on("exit", (code) => {
    if (code && !ended) console.error(`${file} ended with ${code}:\n${readFileSync(`${work}/log`, "utf8").slice(-2000)}`);
  });
  children.push(child);
  return child;
}

/// Returns a port for conf/cluster.sh. All ports that the script derives from it are free.
async function freePort() {
  for (;;) {
    const [first] = await freePorts(1);
    const all = [0, 1, 11, 12, 13, 21, 22, 1031, 1032, 1033].map((offset) => first + offset);
    if ((await Promise.all(all.map(refuses))).every(Boolean)) return first;
  }
}

async function refuses(at) {
  return fetch(`http://127.0.0.1:${at}/`).then(() => false, (error) => error.cause?.code === "ECONNREFUSED");
}

async function listens(url) {
  for (let tries = 0; tries < 300; tries += 1) {
    const status = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(1000) }).then((answer) => answer.status, () => 0);
    if (status === 200) return;
    await sleep(100);
  }
  throw new Error(`nothing serves ${url}\n${readFileSync(`${work}/log`, "utf8").slice(-2000)}`);
}
