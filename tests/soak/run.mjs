// A soak test: creates users and a client, runs the load, injects faults, measures, and writes the
// report.

import { appendFileSync, readFileSync, rmSync, truncateSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Server, Token, Verdict, command, measure, metrics, startApplication } from "./world.mjs";
import { report } from "./report.mjs";

const { WORK, REDIRECT_URI } = process.env;
const SECONDS = Number(process.env.SOAK_SECONDS ?? 8 * 3600);
const SEED = Number(process.env.SOAK_SEED ?? Date.now() % 1e9);
const PEOPLE = 12;
/// Mean time between faults, seconds.
const PAUSE = Math.min(45, Math.max(8, SECONDS / 40));
const SAMPLE = Math.min(10, Math.max(1, SECONDS / 360));
/// Maximum time until the server is ready after a fault, milliseconds.
const BACK_WITHIN = 30_000;

const begun = Date.now();
const verdict = new Verdict(begun);
const token = new Token();
const server = new Server();
process.on("exit", () => {
  token.signal("SIGKILL");
  if (server.pid) server.signal("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
process.on("unhandledRejection", (error) => {
  console.error(error);
  process.exit(1);
});

await startApplication(verdict);
await token.start();
// Debian 12's p11-kit does not pass on the parameters of AES-GCM.
await command(["key", "generate", "--without-wrapping-key"]);
const people = [];
for (let number = 0; number < PEOPLE; number += 1) {
  const [email, password] = [`person${number}@example.test`, `a long enough secret, number ${number}`];
  await command(["user", "add", email, "--name", `Person ${number}`, "--email-verified", "--password-stdin"], password);
  people.push({ email, password, sub: JSON.parse(await command(["user", "show", email, "--json"])).sub });
}
const added = await command(["client", "add", "soak", "--name", "Soak", "--type", "confidential", "--consent", "implied", "--redirect-uri", REDIRECT_URI, "--refresh-retry-seconds", "60", "--json"]);
process.env.CLIENT_SECRET = JSON.parse(added).client_secret;
const { Load, Trouble } = await import("./load.mjs");
const trouble = new Trouble();
await server.start();

const load = new Load({ verdict, trouble, people });
const samples = [];
const events = [];
const contents = [];
let stopped = false;
console.log(`${SECONDS} s with seed ${SEED}; the log is ${WORK}/log`);
const running = load.run();
const background = [sample(), breakThings()];
await sleep(SECONDS * 1000);
stopped = true;
load.stop();
await Promise.all([running, ...background]);

// Acknowledged changes survive a final clean restart.
const code = await server.end("SIGTERM");
if (code !== 0) verdict.violation(`a stop ended with ${code}`);
await server.start();
await load.finish();
await server.end("SIGTERM");
watchLog();
const flat = flatness();
await report({ seconds: SECONDS, seed: SEED, verdict, samples, events, contents, flat, server });
console.log(verdict.violations.length ? `${verdict.violations.length} violations; the log is ${WORK}/log` : "no violation");
const checks = Object.values(verdict.counts).reduce((sum, count) => sum + count, 0);
console.log(`${checks} passed, ${verdict.violations.length} failed`);
if (verdict.violations.length === 0) rmSync(WORK, { recursive: true, force: true });
process.exit(verdict.violations.length ? 1 : 0);

async function sample() {
  while (!stopped) {
    try {
      const { memory, threads, descriptors, processor, disk } = measure(server.pid);
      const sorted = load.latencies.splice(0).sort((a, b) => a - b);
      const at = (quantile) => sorted[Math.floor(sorted.length * quantile)];
      samples.push({ time: (Date.now() - begun) / 1000, pid: server.pid, memory, threads, descriptors, processor, disk, p50: at(0.5), p99: at(0.99), requests: sorted.length });
    } catch {
      // There is no process to measure.
    }
    watchLog();
    await sleep(SAMPLE * 1000);
  }
}

/// Reads new lines of the server's log and truncates the file, to save disk space.
function watchLog() {
  const path = `${WORK}/log`;
  const text = readFileSync(path, "utf8");
  for (const line of text.split("\n")) {
    if (/panicked|SIGSEGV|stack overflow/.test(line)) verdict.violation(`the log says: ${line}`);
    if (/ ERROR /.test(line)) verdict.count("errors in the log");
  }
  if (text.length) appendFileSync(`${WORK}/log.kept`, text.split("\n").filter((line) => !/ INFO access/.test(line)).join("\n"));
  truncateSync(path);
  if (statSync(`${WORK}/log.kept`, { throwIfNoEntry: false })?.size > 256 << 20) truncateSync(`${WORK}/log.kept`);
}

/// Faults that restart the server only happen in the first half, so that growth is visible in the
/// second.
async function breakThings() {
  let state = SEED;
  // mulberry32: the same seed gives the same order of faults.
  const chance = () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  const always = { "token hangs": tokenHangs, "token dies": tokenDies, reload, rotation, backup };
  const restarts = { "kill -9": kill, "stop and start": restart, "process paused": pause };
  while (!stopped) {
    await interruptible(PAUSE * (0.5 + chance()) * 1000);
    if (stopped) return;
    const first = Date.now() - begun < SECONDS * 500;
    const faults = Object.entries(first && chance() < 0.5 ? restarts : always);
    const [name, act] = faults[Math.floor(chance() * faults.length)];
    events.push({ time: (Date.now() - begun) / 1000, name });
    verdict.count(name);
    try {
      await act(chance());
    } catch (error) {
      verdict.violation(`${name}: ${error.message}`);
    }
    await isBack(name);
  }
}

async function interruptible(milliseconds) {
  for (const until = Date.now() + milliseconds; Date.now() < until && !stopped; ) await sleep(200);
}

async function isBack(after) {
  const from = Date.now();
  while (!(await server.ready())) {
    if (Date.now() - from > BACK_WITHIN) return verdict.violation(`not ready ${BACK_WITHIN / 1000} s after "${after}"`);
    await sleep(100);
  }
}

async function kill() {
  const end = trouble.begin("all");
  await server.end("SIGKILL");
  await server.start();
  end();
}

async function restart() {
  const end = trouble.begin("all");
  const code = await server.end("SIGTERM");
  if (code !== 0) verdict.violation(`a stop ended with ${code}`);
  await server.start();
  end();
}

async function pause(chance) {
  const end = trouble.begin("all");
  server.signal("SIGSTOP");
  await sleep(2000 + chance * 20_000);
  server.signal("SIGCONT");
  end();
}

async function tokenDies(chance) {
  const end = trouble.begin("token");
  token.signal("SIGKILL");
  await sleep(chance * 6000);
  await token.start();
  await isBack("token dies");
  end();
}

async function tokenHangs(chance) {
  const end = trouble.begin("token");
  token.signal("SIGSTOP");
  await sleep(chance * 10_000);
  token.signal("SIGCONT");
  await isBack("token hangs");
  end();
}

/// The following three actions must not cause any failure.
async function reload() {
  await command(["reload"]);
}

async function rotation() {
  try {
    await command(["key", "rotate"]);
  } catch (error) {
    // The previous rotation has not finished.
    if (!/under way|already|announced|waits/.test(error.message)) throw error;
    verdict.count("rotation refused: one was under way");
  }
}

async function backup() {
  const directory = `${WORK}/backup`;
  rmSync(directory, { recursive: true, force: true });
  await command(["backup", "--to", directory]);
  // Count records by table, which shows what grows without a limit.
  const records = {};
  for (const line of (await command(["export", "--backup", directory, "--to", "-"])).split("\n")) {
    const { table } = line ? JSON.parse(line) : {};
    if (table) records[table] = (records[table] ?? 0) + 1;
  }
  contents.push({ time: (Date.now() - begun) / 1000, records });
  rmSync(directory, { recursive: true, force: true });
}

/// Compares the last quarter of the second half with its second quarter: the process must not grow.
/// Short runs are not judged.
function flatness() {
  const half = samples.filter((one) => one.time > SECONDS / 2 && one.pid === samples.at(-1)?.pid);
  const quarter = (number) => half.slice(Math.floor(half.length * number * 0.25), Math.floor(half.length * (number + 1) * 0.25));
  const median = (list, key) => list.map((one) => one[key]).sort((a, b) => a - b)[list.length >> 1];
  const allowed = { memory: 12, descriptors: 24, threads: 4, disk: 24 };
  return Object.entries(allowed).map(([key, slack]) => {
    const [early, late] = [median(quarter(1), key), median(quarter(3), key)];
    const judged = SECONDS >= 3600;
    if (judged && late > early * 1.1 + slack) verdict.violation(`${key} grew from ${early.toFixed(0)} to ${late.toFixed(0)} in the second half`);
    return { key, early, late, judged };
  });
}
