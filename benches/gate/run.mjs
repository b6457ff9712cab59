// The gateway compared with other proxies in front of the same upstream. Cases alternate; prints
// ratios within a round. Each program also runs with one thread: the ratio of processor time per
// request shows what its threads share.
//
//   make bench-gate [ROUNDS=7] [SECONDS=3] [THREADS=2]
//
// wrk, the upstream and the gateway share the machine, so absolute figures mean less than ratios.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPublicKey } from "node:crypto";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { filled, listens, measured, printMedians, printRatios, root, start, work } from "../bed.mjs";
import { envoy } from "../all/envoy.mjs";
import { wrk } from "../measure.mjs";
import { accessTokens, provider } from "../provider.mjs";

const here = new URL(".", import.meta.url).pathname;
const rounds = Number(process.env.ROUNDS ?? 7);
const seconds = Number(process.env.SECONDS ?? 3);
const TOKENS = 1000;
const CONNECTIONS = 64;
// Threads of the gateway and of bare Pingora.
const threads = Number(process.env.THREADS ?? availableParallelism());

const [issuerPort, adminPort, singlePort, singleAdminPort, upstream] = await freePorts(5);
const peers = ["bare", "haproxy", "envoy"].flatMap((program) => [threads, 1].map((own) => ({ program, own })));
const peerPorts = await freePorts(peers.length);
peers.forEach((peer, number) => Object.assign(peer, { port: peerPorts[number] }));

start("nginx", ["-p", work, "-c", filled(`${here}/nginx.conf`, { UPSTREAM: upstream, BODY: "x".repeat(1024) })]);
const gate = provider({ issuerPort, adminPort, upstream, threads });
const { issuer } = gate;
const sealgate = await gate.start();
const tokens = await accessTokens(issuer, TOKENS);
writeFileSync(`${work}/tokens`, tokens.join("\n"));
writeFileSync(`${work}/one`, tokens[0]);
const singleGate = provider({ issuerPort: singlePort, adminPort: singleAdminPort, upstream, threads: 1, directory: `${work}/single` });
const single = await singleGate.start();
writeFileSync(`${work}/single-tokens`, (await accessTokens(singleGate.issuer, TOKENS)).join("\n"));
const { kid } = JSON.parse(Buffer.from(tokens[0].split(".")[0], "base64url"));
const jwks = await (await fetch(`${issuer}/oauth/jwks`)).json();
const jwk = jwks.keys.find((key) => key.kid === kid);
writeFileSync(`${work}/public.pem`, createPublicKey({ key: jwk, format: "jwk" }).export({ type: "spki", format: "pem" }));
for (const peer of peers) {
  peer.child = started(peer);
  await listens(peer.port);
}

function started({ program, own, port }) {
  if (program === "bare") return start(`${root}/target/dist/examples/bare_proxy`, [`127.0.0.1:${port}`, `127.0.0.1:${upstream}`, String(own)]);
  if (program === "haproxy") {
    return start("haproxy", ["-f", filled(`${here}/haproxy.cfg`, { UPSTREAM: upstream, HAPROXY: port, KID: kid, ISSUER: issuer, THREADS: own })]);
  }
  const file = `${work}/envoy-${own}.json`;
  writeFileSync(file, JSON.stringify(envoy({ gatePort: port, upstream, issuer, jwks, tokens: TOKENS })));
  return start("envoy", ["-c", file, "--concurrency", String(own), "--disable-hot-restart", "-l", "error"]);
}

// Requests to the bare proxy and to the public path contain a token too. All requests have the same
// size.
const peerCase = (program, own, path, file) => ({ ...peers.find((peer) => peer.program === program && peer.own === own), path, tokens: file });
const cases = {
  bare: peerCase("bare", threads, "/open/", "one"),
  ungated: { port: issuerPort, path: "/open/", tokens: "one", child: sealgate },
  "gated, one token": { port: issuerPort, path: "/api/", tokens: "one", child: sealgate },
  "gated, 1,000 tokens": { port: issuerPort, path: "/api/", tokens: "tokens", child: sealgate },
  "HAProxy jwt_verify, 1,000 tokens": peerCase("haproxy", threads, "/api/", "tokens"),
  "Envoy jwt_authn, 1,000 tokens": peerCase("envoy", threads, "/api/", "tokens"),
  "bare, one thread": peerCase("bare", 1, "/open/", "one"),
  "gated, 1,000 tokens, one thread": { port: singlePort, path: "/api/", tokens: "single-tokens", child: single },
  "HAProxy jwt_verify, 1,000 tokens, one thread": peerCase("haproxy", 1, "/api/", "tokens"),
  "Envoy jwt_authn, 1,000 tokens, one thread": peerCase("envoy", 1, "/api/", "tokens"),
};
await refusesForgeries();

const load = ({ port, path, tokens: file, child }, duration = seconds) =>
  wrk({ url: `http://127.0.0.1:${port}${path}`, host: "app.localhost", tokens: `${work}/${file}`, pid: child.pid, connections: CONNECTIONS, duration });
const results = measured(cases, rounds, load);
report();
process.exit(0);

function report() {
  // State the differences, so that the ratios are not misinterpreted.
  console.log(`${new Date().toISOString().slice(0, 10)}, make bench-gate ROUNDS=${rounds} SECONDS=${seconds} THREADS=${threads}, release with counts`);
  console.log("logged: nothing a request, by any of them (the gate's filter is warn: no access log)");
  console.log("cached: no answers, by any of them; the gate and Envoy remember verified tokens, HAProxy verifies each anew\n");
  console.log(`${rounds} rounds of ${seconds} s, ${CONNECTIONS} connections, ${threads} threads on ${availableParallelism()} cores shared with wrk and nginx\n`);
  printMedians(results, [["requests/s", "rate", 0], ["processor time per request, µs", "cpu", 1], ["p50, ms", "p50", 2], ["p99, ms", "p99", 2]]);
  printRatios(results, [
    ["gated, one token", "ungated"],
    ["gated, 1,000 tokens", "ungated"],
    ["ungated", "bare"],
    ["gated, 1,000 tokens", "bare"],
    ["gated, 1,000 tokens", "HAProxy jwt_verify, 1,000 tokens"],
    ["gated, 1,000 tokens", "Envoy jwt_authn, 1,000 tokens"],
  ]);
  console.log(`\n${threads} threads / one thread:`);
  const names = ["gated, 1,000 tokens", "bare", "HAProxy jwt_verify, 1,000 tokens", "Envoy jwt_authn, 1,000 tokens"];
  printRatios(results, names.map((name) => [name, `${name}, one thread`]));
}

/// Checks that both gateways verify tokens.
async function refusesForgeries() {
  const forged = `${tokens[0].slice(0, -8)}AAAAAAAA`;
  const gates = peers.filter(({ program }) => program !== "bare").map(({ port }) => port);
  for (const port of [issuerPort, ...gates]) {
    for (const [token, status] of [[tokens[0], "200"], [forged, "401"]]) {
      const out = execFileSync("curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: app.localhost", "-H", `Authorization: Bearer ${token}`, `http://127.0.0.1:${port}/api/`], { encoding: "utf8" });
      assert.equal(out, status, `port ${port}`);
    }
  }
}
