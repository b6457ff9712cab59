// Instructions per request. The count does not depend on other work on the machine or on its clock,
// so an increase of a few percent is visible and is caused by the program.
//
//   make bench-instructions [ACCEPT=1]
//
// callgrind counts 1,000 requests on 8 connections after 500 warm-up requests, with one thread.
// Background work of the program is included. Every ten seconds, that is a signature of the token,
// which adds 12 thousand instructions to each of the 1,000 requests: the smallest of three counts
// excludes it. An increase of more than 5 % over most.json fails.
// The last two cases record traces, of one request in ten and of every request, and send them to a receiver.
//
// valgrind's processor has no SHA-256 instructions, so the hashes of a gated request count about
// ten times.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { filled, listens, root, start, work } from "../bed.mjs";
import { within } from "../measure.mjs";
import { accessTokens, provider } from "../provider.mjs";

const here = new URL(".", import.meta.url).pathname;
const REQUESTS = 1000;
const COUNTS = 3;

const [issuerPort, adminPort, upstream, bare, collector] = await freePorts(5);
start("nginx", ["-p", work, "-c", filled(`${root}/benches/gate/nginx.conf`, { UPSTREAM: upstream, BODY: "x".repeat(1024) })]);
const gate = provider({ issuerPort, adminPort, upstream, threads: 1 });
const counting = (name) => ["valgrind", "--tool=callgrind", `--callgrind-out-file=${work}/${name}`];

const counted = {};
const dumps = {};
const [callgrind, ...words] = counting("bare");
const proxy = start(callgrind, [...words, `${root}/target/dist/examples/bare_proxy`, `127.0.0.1:${bare}`, `127.0.0.1:${upstream}`, "1"]);
await listens(bare);
count("bare Pingora", proxy, bare, "/open/");
await end(proxy);

let sealgate = await gate.start({ before: counting("quiet") });
const [token] = await accessTokens(gate.issuer, 1);
count("public, no log", sealgate, issuerPort, "/open/");
count("gated, no log", sealgate, issuerPort, "/api/", token);
await end(sealgate);
sealgate = await gate.start({ filter: "info", before: counting("logged") });
count("public, the default log", sealgate, issuerPort, "/open/");
await end(sealgate);
start(process.execPath, [`${here}/receiver.mjs`, String(collector)]);
await listens(collector);
for (const [name, sample] of [["public, no log, one trace in ten", "0.1"], ["public, no log, every request traced", "1.0"]]) {
  const more = `[telemetry]\notlp = "http://127.0.0.1:${collector}"\nsample = ${sample}\n`;
  sealgate = await gate.start({ before: counting(`traced-${sample}`), more });
  count(name, sealgate, issuerPort, "/open/");
  assert.ok(exported() > 0, "no trace was sent");
  await end(sealgate);
}

console.log(`${new Date().toISOString().slice(0, 10)}, make bench-instructions, release, a request\n`);
process.exit(within(`${here}/most.json`, counted) ? 0 : 1);

function count(name, child, port, path, token) {
  const load = (requests) => {
    const fields = ["-H", ":authority: app.localhost", ...(token ? ["-H", `Authorization: Bearer ${token}`] : [])];
    const out = execFileSync("h2load", ["--h1", "-t1", "-c8", "-n", String(requests), ...fields, `http://127.0.0.1:${port}${path}`], { encoding: "utf8" });
    assert.match(out, new RegExp(`status codes: ${requests} 2xx`), out);
  };
  const control = (what) => execFileSync("callgrind_control", [what, String(child.pid)], { encoding: "utf8", stdio: ["ignore", "ignore", "inherit"] });
  const [, file] = /--callgrind-out-file=(\S+)/.exec(child.spawnargs.join(" "));
  load(500);
  const counts = [];
  while (counts.length < COUNTS) {
    control("-z");
    load(REQUESTS);
    dumps[file] = (dumps[file] ?? 0) + 1;
    control("-d");
    const [, total] = /^(?:totals|summary): (\d+)/m.exec(readFileSync(`${file}.${dumps[file]}`, "utf8"));
    counts.push(Number(total) / REQUESTS);
  }
  counted[name] = Math.round(Math.min(...counts));
}

/// Returns the number of spans that the receiver has accepted.
function exported() {
  const metrics = execFileSync("curl", ["-s", `http://127.0.0.1:${adminPort}/metrics`], { encoding: "utf8" });
  return Number(/^sealgate_trace_spans_total\{outcome="exported"\} (\d+)/m.exec(metrics)?.[1]);
}

/// Kills a program, because a graceful stop of bare Pingora takes five minutes.
async function end(child) {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}
