// Searches for the request without credentials that takes the most processor time, at an application
// with 10,000 rules and at the provider's endpoints. Fails if one takes more than BUDGET_MS.
//
//   node fuzz/cost/run.mjs                  FUZZ_SECONDS=10 SEED=… PROGRAM=target/dist/sealgate
//
// docs/explanation/fuzzing.md describes what is measured and which work is excluded.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { root, sealgate, work } from "../../benches/bed.mjs";
import { Client, http1, processorTime } from "./client.mjs";
import { changed, described, random } from "./requests.mjs";
import { configuration, seeds } from "./target.mjs";

const seconds = Number(process.env.FUZZ_SECONDS ?? 10);
const seed = Number(process.env.SEED ?? Date.now() % 1e9);
const budget = Number(process.env.BUDGET_MS ?? (sealgate.includes("/debug/") ? 10 : 1));
const only = process.env.ONLY;
const artifacts = `${root}/fuzz/artifacts/cost`;

const [issuerPort, adminPort, upstream, mail] = await freePorts(4);
createHttpServer((request, response) => request.resume().on("end", () => response.end("x"))).listen(upstream, "127.0.0.1");
createServer((socket) => socket.on("error", () => {})).listen(mail, "127.0.0.1");
const { provider } = await import("../../benches/provider.mjs");
const server = provider({ issuerPort, adminPort, upstream, threads: 1, ...configuration({ upstream, mail, work }) });
const child = await server.start();
const client = new Client(issuerPort);

const { below, pick } = random(seed);
const found = new Map();
for (const [name, request] of Object.entries(await seeds(client, issuerPort))) {
  if (only && !name.includes(only)) continue;
  const first = await measured(request, 8, 3);
  found.set(name, { request, ...first, first });
}
let tries = 0;
const until = performance.now() + seconds * 1000;
while (performance.now() < until) {
  const name = below(3) ? pick([...found.keys()]) : [...found].sort(([, a], [, b]) => b.cost - a.cost)[below(Math.min(5, found.size))][0];
  const best = found.get(name);
  const request = changed(best.request, { below, pick });
  tries += 1;
  let cost = await measured(request, 4, 1);
  if (cost.cost > best.cost * 1.03) cost = await measured(request, 8, 3);
  if (cost.cost > best.cost * 1.03) found.set(name, { request, ...cost, first: best.first });
}

// The smallest of several counts excludes the server's own work, such as a signature for its readiness.
const rows = [];
for (const [name, { request, first }] of found) rows.push({ name, request, first, ...(await measured(request, 16, 6)) });
rows.sort((a, b) => b.cost - a.cost);
mkdirSync(artifacts, { recursive: true });
for (const { name, request } of rows) writeFileSync(`${artifacts}/${name.replaceAll(/\W+/g, "-")}.json`, JSON.stringify(request));
console.log(`cost: ${tries} requests tried, seed ${seed}; processor time of a request, ms\n\n| | ordinary | dearest found | status | request |\n|-|-|-|-|-|`);
for (const { name, cost, first, status, request } of rows) console.log(`| ${name} | ${first.cost.toFixed(3)} | ${cost.toFixed(3)} | ${status} | \`${described(request).replaceAll(/[^ -~]/g, "?")}\` |`);
const over = rows.filter(({ cost }) => cost > budget);
client.close();
if (over.length) {
  console.error(`\ncost: FOUND requests of more than ${budget} ms: ${over.map(({ name }) => name).join(", ")}; see ${artifacts}`);
  process.exit(1);
}
process.exit(0);

/// Returns the smallest processor time per request over several counts, in milliseconds, and the status.
async function measured(request, times, counts) {
  const bytes = http1(request);
  let [cost, status] = [Infinity, 0];
  for (let count = 0; count < counts; count += 1) {
    const before = processorTime(child.pid);
    for (let sent = 0; sent < times; sent += 1) ({ status } = await client.send(bytes, request.method));
    cost = Math.min(cost, (processorTime(child.pid) - before) / times / 1e6);
  }
  assert.equal(child.exitCode, null, `the server ended at ${described(request)}`);
  return { cost, status };
}
