// Searches for the request without credentials that takes the most processor time, at an application
// with 10,000 rules and at the provider's endpoints. Fails if one takes more than BUDGET_MS.
//
//   node fuzz/cost/run.mjs                  FUZZ_SECONDS=10 SEED=… PROGRAM=target/optimized/sealgate
//
// docs/explanation/fuzzing.md describes what is measured and which work is excluded.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { certificate, root, sealgate, work } from "../../benches/bed.mjs";
import { Client, http1, processorTime } from "./client.mjs";
import { Http2Client, http2 } from "./http2.mjs";
import { changed, described, random } from "./requests.mjs";
import { configuration, seeds } from "./target.mjs";

const seconds = Number(process.env.FUZZ_SECONDS ?? 10);
const seed = Number(process.env.SEED ?? Date.now() % 1e9);
/// Milliseconds. A build without optimization takes several times as long.
const budget = Number(process.env.BUDGET_MS ?? (sealgate.includes("/debug/") ? 25 : 1));
const SHOWN = Number(process.env.SHOWN ?? 12);
const artifacts = `${root}/fuzz/artifacts/cost`;

const [upstream, mail] = await freePorts(2);
createHttpServer((request, response) => request.resume().on("end", () => response.end("x"))).listen(upstream, "127.0.0.1");
createServer((socket) => socket.on("error", () => {})).listen(mail, "127.0.0.1");
const { provider } = await import("../../benches/provider.mjs");
const servers = { "HTTP/1.1": await serve("http1"), "HTTP/2": await serve("http2", certificate()) };

const { below, pick } = random(seed);
const found = new Map();
for (const [protocol, server] of Object.entries(servers)) {
  const plain = servers["HTTP/1.1"];
  for (const [name, request] of Object.entries(await seeds(plain.client, plain.port, server.port))) {
    if (process.env.ONLY && !`${name}, ${protocol}`.includes(process.env.ONLY)) continue;
    const first = await measured(server, request, 8, 3);
    found.set(`${name}, ${protocol}`, { server, request, ...first, first });
  }
}
let tries = 0;
const until = performance.now() + seconds * 1000;
while (performance.now() < until) {
  const name = below(3) ? pick([...found.keys()]) : [...found].sort(([, a], [, b]) => b.cost - a.cost)[below(Math.min(5, found.size))][0];
  const best = found.get(name);
  const request = changed(best.request, { below, pick });
  tries += 1;
  let cost = await measured(best.server, request, 4, 1);
  if (cost.cost > best.cost * 1.03) cost = await measured(best.server, request, 8, 3);
  if (cost.cost > best.cost * 1.03) found.set(name, { ...best, request, ...cost });
}

const rows = [];
for (const [name, { server, request, first }] of found) rows.push({ name, server, request, first, ...(await measured(server, request, 8, 4)) });
rows.sort((a, b) => b.cost - a.cost);
// The smallest of more counts excludes the server's own work, such as a signature for its readiness.
for (const row of rows.slice(0, SHOWN)) Object.assign(row, await measured(row.server, row.request, 16, 8));
rows.sort((a, b) => b.cost - a.cost);
mkdirSync(artifacts, { recursive: true });
for (const { name, request } of rows) writeFileSync(`${artifacts}/${name.replaceAll(/\W+/g, "-")}.json`, JSON.stringify(request));
console.log(`cost: ${tries} requests tried, seed ${seed}; processor time of a request, ms\n\n| | ordinary | most expensive | status | request |\n|-|-|-|-|-|`);
for (const { name, cost, first, status, request } of rows.slice(0, SHOWN)) console.log(`| ${name} | ${first.cost.toFixed(3)} | ${cost.toFixed(3)} | ${status} | \`${described(request).replaceAll(/[^ -~]/g, "?")}\` |`);
const over = rows.filter(({ cost }) => cost > budget);
if (over.length) {
  console.error(`\ncost: FOUND requests of more than ${budget} ms: ${over.map(({ name }) => name).join("; ")}. They are in ${artifacts}`);
  process.exit(1);
}
process.exit(0);

/// Starts a server with one thread, over TLS if there is a certificate, and returns it with a client.
async function serve(name, tls) {
  const [port, adminPort] = await freePorts(2);
  const server = provider({ issuerPort: port, adminPort, upstream, threads: 1, tls, directory: `${work}/${name}`, ...configuration({ upstream, mail, work }) });
  const [client, encode] = tls ? [new Http2Client(port), http2] : [new Client(port), http1];
  return { port, child: await server.start(), client, encode };
}

/// Returns the smallest processor time per request over several counts, in milliseconds, and the status.
/// Excludes opening connections: a handshake takes more than most requests.
async function measured({ child, client, encode }, request, times, counts) {
  const encoded = encode(request);
  let [cost, status] = [Infinity, 0];
  for (let count = 0; count < counts; count += 1) {
    let spent = -processorTime(child.pid);
    for (let sent = 0; sent < times; sent += 1) {
      if (client.closed) {
        spent += processorTime(child.pid);
        await client.ready();
        spent -= processorTime(child.pid);
      }
      ({ status } = await client.send(encoded, request.method));
    }
    spent += processorTime(child.pid);
    cost = Math.min(cost, spent / times / 1e6);
  }
  assert.equal(child.exitCode, null, `the server ended at ${described(request)}`);
  return { cost, status };
}
