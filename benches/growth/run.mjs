// Cost of a request and memory use for growing numbers of users (with sessions, grants and events),
// of applications and rules, and of open connections and WebSockets.
//
//   make bench-growth [PEOPLE=1000,10000,100000] [CONNECTIONS=100,1000,10000] [ROUNDS=3] [SECONDS=2] [WRITE=1]
//   make bench-growth CONSOLE=100,10000      only the console's list of users
//
// A million users take another quarter of an hour and 10 GB. With WRITE=1 the output replaces the
// section of docs/explanation/performance-service.md.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { certificate, filled, root, start, work } from "../bed.mjs";
import { median, processorTime, wrk } from "../measure.mjs";
import { lines } from "../plot.mjs";
import { pageCookies, provider, redeem, signIn } from "../provider.mjs";
import { written } from "../written.mjs";

const here = new URL(".", import.meta.url).pathname;
const rounds = Number(process.env.ROUNDS ?? 3);
const seconds = Number(process.env.SECONDS ?? 2);
const numbers = (text) => text.split(",").map(Number);
const [TOKENS, CLIENTS, SIGN_INS] = [500, 64, 10];
const page = written("growth", "performance-service.md");

const [upstream, sockets] = await freePorts(2);
start("nginx", ["-p", work, "-c", filled(`${root}/benches/gate/nginx.conf`, { UPSTREAM: upstream, BODY: "x".repeat(1024) })]);

page.say(`Measured on ${new Date().toISOString().slice(0, 10)}, release: \`make bench-growth\`, medians of ${rounds} rounds of ${seconds} s on two cores, which the load shares.\n`);
const { people } = await import("./people.mjs");
if (process.env.CONSOLE) {
  await ofConsole(numbers(process.env.CONSOLE));
  process.exit(0);
}
await ofPeople(numbers(process.env.PEOPLE ?? "1000,10000,100000"));
await ofRules();
await ofConnections(numbers(process.env.CONNECTIONS ?? "100,1000,10000"));
await ofConsole([100, 10_000]);
page.end();
process.exit(0);

/// Returns the median time of requests for a page, in milliseconds. Each must have the text `wanted`.
async function pageTime(address, cookie, wanted, before = () => {}) {
  const times = [];
  for (let round = 0; round < 15; round += 1) {
    before(round);
    const started = performance.now();
    const response = await fetch(address, { headers: { cookie } });
    const text = await response.text();
    times.push(performance.now() - started);
    assert.ok(response.status === 200 && text.includes(wanted), `${address}: ${response.status}`);
  }
  return median(times);
}

/// Times of the console's list of users, in 200 groups.
async function ofConsole(counts) {
  const rows = [];
  for (const count of counts) {
    const [issuerPort, adminPort] = await freePorts(2);
    const server = provider({ issuerPort, adminPort, upstream, threads: 2, directory: `${work}/console`, more: "[console]\nenabled = true\n" });
    server.run("user", "set", process.env.EMAIL, "--role", "admin");
    const [exported, file] = [`${work}/exported`, `${work}/people.export`];
    server.run("export", "--to", exported);
    people({ exported, file, count, tokens: 1, groups: 200 });
    rmSync(`${server.directory}/store`, { recursive: true });
    server.run("import", "--from", file);
    for (const gone of [exported, file]) rmSync(gone);
    const child = await server.start();
    const cookie = await pageCookies(server.issuer);
    const list = `${server.issuer}/console/users`;
    const [before, started] = [resident(child), performance.now()];
    const first = await fetch(list, { headers: { cookie } });
    assert.equal(first.status, 200);
    await first.text();
    const row = { count, first: performance.now() - started, bytes: (Math.max(0, resident(child) - before) * 2 ** 20) / count };
    row.list = await pageTime(list, cookie, "row-user");
    row.search = await pageTime(`${list}?find=rson+9`, cookie, "row-user");
    row.group = await pageTime(`${list}?group=group-7&sort=created`, cookie, "group-7");
    row.signedIn = await pageTime(`${list}?sort=signed-in&page=2`, cookie, "row-user");
    const change = (round) => server.run("user", "set", "person.1@example.test", "--name", `Changed ${round}`);
    row.changed = await pageTime(`${list}?find=changed`, cookie, "Changed", change);
    row.groups = await pageTime(`${server.issuer}/console/groups`, cookie, "group-0");
    rows.push(row);
    await end(child);
    rmSync(server.directory, { recursive: true });
  }
  page.say("\n### The console's list of users, in 200 groups: time of a request\n");
  const columns = [["first, ms", "first"], ["list, ms", "list"], ["search, ms", "search"], ["group, ms", "group"], ["by last sign-in, ms", "signedIn"], ["after a change, ms", "changed"], ["groups, ms", "groups"]];
  page.table(rows, [["users", "count", 0], ...columns.map(([title, key]) => [title, key, 1]), ["memory of the list, bytes a user", "bytes", 0]]);
  const [small, large] = [rows[0], rows.at(-1)];
  page.say(`\n${large.count.toLocaleString("en")} users to ${small.count.toLocaleString("en")}: ${columns.map(([title, key]) => `${title.split(",")[0]} ${(large[key] / small[key]).toFixed(1)}`).join(", ")}.`);
}

async function ofPeople(counts) {
  const rows = [];
  for (const count of counts) {
    const [issuerPort, adminPort] = await freePorts(2);
    const server = provider({ issuerPort, adminPort, upstream, threads: 2, directory: `${work}/people` });
    const [exported, file] = [`${work}/exported`, `${work}/people.export`];
    server.run("export", "--to", exported);
    const families = people({ exported, file, count, tokens: TOKENS + (CLIENTS + 1) * rounds });
    rmSync(`${server.directory}/store`, { recursive: true });
    const importing = performance.now();
    server.run("import", "--from", file);
    const imported = (performance.now() - importing) / 1000;
    for (const gone of [exported, file]) rmSync(gone);
    const disk = Number(execFileSync("du", ["-sm", `${server.directory}/store`], { encoding: "utf8" }).split("\t")[0]);
    const starting = performance.now();
    const child = await server.start();
    const row = { count, imported, disk, started: (performance.now() - starting) / 1000, memory: resident(child) };

    const tokens = [];
    for (const refresh_token of families.splice(0, TOKENS)) tokens.push((await redeem(server.issuer, { grant_type: "refresh_token", refresh_token })).access_token);
    assert.equal(new Set(tokens).size, tokens.length);
    const load = (url, host, all, more = {}) => {
      writeFileSync(`${work}/tokens`, all.join("\n"));
      return wrk({ url, host, tokens: `${work}/tokens`, pid: child.pid, connections: CLIENTS, duration: seconds, ...more }).cpu;
    };
    const times = (measure) => median(Array.from({ length: rounds }, measure));
    const own = new URL(server.issuer).host;
    row.gated = times(() => load(`http://127.0.0.1:${issuerPort}/api/`, "app.localhost", tokens));
    row.userinfo = times(() => load(`${server.issuer}/oauth/userinfo`, own, tokens));
    row.refresh = times(() => load(`${server.issuer}/oauth/token`, own, families.splice(0, CLIENTS + 1), { script: "refresh.lua" }) / 1000);
    await signIn(server.issuer);
    const before = processorTime(child.pid);
    for (let signed = 0; signed < SIGN_INS; signed += 1) await signIn(server.issuer);
    row.signIn = (processorTime(child.pid) - before) / SIGN_INS / 1e6;
    row.after = resident(child);
    rows.push(row);
    await end(child);
    rmSync(server.directory, { recursive: true });
  }
  page.say("### Users, each with a session, a grant, a consent and an event\n");
  page.table(rows, [
    ["users", "count", 0], ["import, s", "imported", 1], ["store, MB", "disk", 0], ["start, s", "started", 1], ["memory after the start, MiB", "memory", 0],
    ["memory after the load, MiB", "after", 0], [`gated, ${TOKENS} users, µs`, "gated", 1], [`UserInfo, ${TOKENS} users, µs`, "userinfo", 1], ["refresh, ms", "refresh", 2],
    ["sign-in, ms", "signIn", 1],
  ]);
  page.say("\nTimes of requests are processor times.\n");
  const over = (key) => rows.map((row) => [row.count, row[key]]);
  lines(page.image("growth-people"), "Processor time per request, µs", "users", { gated: over("gated"), UserInfo: over("userinfo") });
  lines(page.image("growth-memory"), "Memory, MiB", "users", { "after the start": over("memory"), "after the load": over("after") });
}

async function ofRules() {
  const rows = [];
  for (const [apps, rules] of [[1, 10], [10, 10], [100, 10], [1000, 10], [1, 100], [1, 1000], [1, 10_000]]) {
    const [issuerPort, adminPort] = await freePorts(2);
    const route = (number) => `[[app.route]]\npath = "/section-${number}/"\naccess = "public"\n`;
    const app = (number) => `[[app]]\nname = "application-${number}"\nhost = "app-${number}.localhost"\nupstreams = ["http://127.0.0.1:${upstream}"]\n`;
    const all = (_, number) => app(number) + Array.from({ length: rules }, (_, rule) => route(rule)).join("");
    const server = provider({ issuerPort, adminPort, upstream, threads: 2, directory: `${work}/rules`, more: Array.from({ length: apps }, all).join("") });
    const starting = performance.now();
    const child = await server.start();
    const row = { apps, rules, started: (performance.now() - starting) / 1000, memory: resident(child) };
    writeFileSync(`${work}/tokens`, "none");
    const last = { url: `http://127.0.0.1:${issuerPort}/section-${rules - 1}/`, host: `app-${apps - 1}.localhost` };
    row.public = median(Array.from({ length: rounds }, () => wrk({ ...last, tokens: `${work}/tokens`, pid: child.pid, connections: CLIENTS, duration: seconds }).cpu));
    rows.push(row);
    await end(child);
    rmSync(server.directory, { recursive: true });
  }
  page.say("### Applications and rules: a public path, matched by the last rule of the last application\n");
  page.table(rows, [["applications", "apps", 0], ["rules each", "rules", 0], ["start, s", "started", 1], ["memory, MiB", "memory", 0], ["per request, µs", "public", 1]]);
  page.say("");
  lines(page.image("growth-rules"), "Processor time per request, µs", "applications of 10 rules, or rules of one application", {
    applications: rows.filter((row) => row.rules === 10).map((row) => [row.apps, row.public]),
    rules: rows.filter((row) => row.apps === 1).map((row) => [row.rules, row.public]),
  });
}

async function ofConnections(counts) {
  const tls = certificate();
  echo(sockets);
  const rows = counts.map((count) => ({ count }));
  for (const kind of ["http", "https", "websocket"]) {
    for (const row of rows) {
      const count = kind === "websocket" ? webSockets(row.count) : row.count;
      const [issuerPort, adminPort] = await freePorts(2);
      const server = provider({
        issuerPort, adminPort, upstream: kind === "websocket" ? sockets : upstream, threads: 2, directory: `${work}/connections`, ...(kind === "https" && { tls }),
        server: "max_connections = 15000\nmax_connections_per_peer = 15000\nidle_timeout_seconds = 3600\n",
        application: "max_requests = 20000\nmax_requests_per_client = 20000\n",
      });
      const child = await server.start();
      await hold(kind, issuerPort, 50, () => {});
      const before = resident(child);
      await hold(kind, issuerPort, count, () => (row[kind] = ((resident(child) - before) * 1024) / count));
      await end(child);
      rmSync(server.directory, { recursive: true });
    }
  }
  page.say("### Open connections\n");
  page.table(rows, [["connections", "count", 0], ["HTTP/1.1, idle, KiB each", "http", 1], ["over TLS, KiB each", "https", 1], ["WebSockets (5,000 at most), KiB each", "websocket", 1]]);
  const over = (key, count = (all) => all) => rows.map((row) => [count(row.count), row[key]]);
  const series = { "HTTP/1.1": over("http"), TLS: over("https"), WebSockets: over("websocket", webSockets) };
  lines(page.image("growth-connections"), "Memory per connection, KiB", "connections", series);
}

/// Limits the number, because each WebSocket needs a second descriptor for the upstream.
function webSockets(connections) {
  return Math.min(connections, 5000);
}

/// Calls `then` while `count` connections are open.
async function hold(kind, port, count, then) {
  const holder = spawn("node", [`${here}/hold.mjs`, kind, String(port), String(count)], { stdio: ["pipe", "pipe", "inherit"] });
  const [said] = await Promise.race([once(holder.stdout, "data"), once(holder, "exit").then(() => ["ended"])]);
  assert.match(String(said), /^ready/);
  then();
  holder.stdin.end();
  await once(holder, "exit");
}

/// An application that accepts WebSockets and sends nothing.
function echo(port) {
  const server = createServer((request, response) => response.end("x"));
  server.on("upgrade", (request, socket) => {
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.on("error", () => {}).resume();
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  });
  server.listen(port, "127.0.0.1");
}

/// Resident memory of a process, MiB.
function resident(child) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))[1]) / 1024;
}

async function end(child) {
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
}
