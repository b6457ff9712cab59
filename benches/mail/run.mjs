// Sign-ins with a full outbox whose mail cannot be delivered. Cases alternate; prints ratios within
// a round to a server without mail.
//
//   make bench-mail [ROUNDS=15] [SIGN_INS=40] [IDLE=60] [PROGRAM=target/optimized/sealgate]
//
// One server per outbox. Only one server runs at a time; the others are suspended by SIGSTOP.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { freePorts } from "../../tests/support/free_ports.mjs";
import { median, processorTime, quantile } from "../measure.mjs";

const root = new URL("../..", import.meta.url).pathname;
const rounds = Number(process.env.ROUNDS ?? 15);
const signIns = Number(process.env.SIGN_INS ?? 40);
const idleSeconds = Number(process.env.IDLE ?? 60);
const program = process.env.PROGRAM ?? `${root}/target/optimized/sealgate`;
const WAITING = 10_000;
const PASSWORD = "correct horse battery staple";
/// The users who sign in, in turn.
const PEOPLE = Array.from({ length: 20 }, (_, number) => `anna${number}@example.test`);

mkdirSync(`${root}/target`, { recursive: true });
const work = mkdtempSync(`${root}/target/bench-mail.`);
const servers = [];
let hasKey = false;
const agents = new Map();
process.on("exit", () => {
  for (const { child } of servers) {
    child.kill("SIGCONT");
    child.kill("SIGTERM");
  }
  rmSync(work, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

execFileSync(`${root}/hsm/init-token.sh`, [`${work}/hsm`, "sealgate"], { stdio: "ignore" });
process.env.SOFTHSM2_CONF = `${work}/hsm/softhsm2.conf`;
const [silent, later, dead, ...ports] = await freePorts(15);
// In a separate thread, so that it does not delay the measurement.
const relays = new Worker(new URL("relays.mjs", import.meta.url), { workerData: { silent, later } });
relays.unref();

await fill();
const cases = {
  "no mail": await start("none", ""),
  "10,000 waiting, the mail server silent": await start("silent", section(silent)),
  "10,000 waiting, 451 to each, 60 a minute": await start("later", section(later, 60)),
  "10,000 waiting, 451 to each, 6,000 a minute": await start("hurry", section(later, 6000)),
  "10,000 waiting, no mail server there": await start("dead", section(dead)),
};
const names = Object.keys(cases);
const memory = {};
for (const name of names) memory[name] = resident(cases[name]);
// Wait until each server has tried its mail server.
await sleep(25_000);
for (const name of names) cases[name].child.kill("SIGSTOP");
for (const name of names) await alone(name, () => signInSome(cases[name], 5));
const results = Object.fromEntries(names.map((name) => [name, []]));
for (let round = 0; round < rounds; round += 1) {
  // Change the order in each round, so that no case always follows the same one.
  for (let turn = 0; turn < names.length; turn += 1) {
    const name = names[(turn + round) % names.length];
    await alone(name, async () => results[name].push(await signInSome(cases[name], signIns)));
  }
}
const idle = {};
for (const name of names) await alone(name, async () => { idle[name] = await idleTime(cases[name]); });
report();
process.exit(0);

function report() {
  console.log(`${new Date().toISOString().slice(0, 10)}, make bench-mail ROUNDS=${rounds} SIGN_INS=${signIns} IDLE=${idleSeconds}, ${program.replace(root, "")}\n`);
  console.log("| | POST of a sign-in, ms: median of the rounds' medians | p95 of all | ratio of medians within a round (quartiles) | ratio of the quickest tenths | processor time of the server a sign-in, its pages and its outbox, ms | ratio (quartiles) |\n|-|-|-|-|-|-|-|");
  for (const [name, runs] of Object.entries(results)) {
    const bare = results["no mail"];
    const ratio = (figure) => {
      if (runs === bare) return "";
      const ratios = runs.map((run, round) => figure(run) / figure(bare[round]));
      return `${quantile(ratios, 0.5).toFixed(3)} (${quantile(ratios, 0.25).toFixed(2)} to ${quantile(ratios, 0.75).toFixed(2)})`;
    };
    // The fastest tenth depends least on other work on the machine.
    const quickest = ratio((run) => quantile(run.times, 0.1));
    const [middle, late] = [median(runs.map((run) => median(run.times))), quantile(runs.flatMap((run) => run.times), 0.95)];
    const cpu = median(runs.map((run) => run.cpu));
    const cells = [name, middle.toFixed(1), late.toFixed(0), ratio((run) => median(run.times)), quickest, cpu.toFixed(1), ratio((run) => run.cpu)];
    console.log(`| ${cells.join(" | ")} |`);
  }
  console.log(`\n| idle for ${idleSeconds} s, nobody asking | processor time, ms a second | of a step of 250 ms: median of those above 0.2 ms, most | resident at the start, MiB | now |\n|-|-|-|-|-|`);
  for (const name of names) {
    const steps = idle[name].filter((step) => step > 0.2);
    const sum = idle[name].reduce((sum, step) => sum + step, 0);
    console.log(`| ${name} | ${(sum / idleSeconds).toFixed(2)} | ${steps.length ? median(steps).toFixed(2) : "–"}, ${Math.max(...idle[name]).toFixed(2)} | ${memory[name].toFixed(0)} | ${resident(cases[name]).toFixed(0)} |`);
  }
}

/// Calls `act` while only this server runs.
async function alone(name, act) {
  const { child } = cases[name];
  child.kill("SIGCONT");
  // Wait until the timers that expired meanwhile have been handled.
  await sleep(1500);
  await act();
  child.kill("SIGSTOP");
}

/// Signs in sequentially, each time in a new browser. Measures the time of the POST with the
/// password.
async function signInSome(server, count) {
  const times = [];
  const before = processorTime(server.child.pid);
  for (let number = 0; number < count; number += 1) times.push(await signIn(server, PEOPLE[number % PEOPLE.length]));
  return { times, cpu: (processorTime(server.child.pid) - before) / count / 1e6 };
}

async function signIn({ port }, email) {
  const cookies = new Map();
  const ask = async (path, body) => {
    const answer = await exchange(port, path, [...cookies].map(([name, value]) => `${name}=${value}`).join("; "), body);
    for (const cookie of answer.headers["set-cookie"] ?? []) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      cookies.set(name, value);
    }
    return answer;
  };
  const follow = async (answer) => {
    while (answer.headers.location) answer = await ask(new URL(answer.headers.location, `http://localhost:${port}`).href.replace(/^http:\/\/[^/]+/, ""));
    return answer.text;
  };
  const page = await follow(await ask("/account"));
  const action = /<form [^>]*action="([^"]*)"/.exec(page)[1].replaceAll("&amp;", "&").replaceAll("&#38;", "&");
  const fields = [...page.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, name, value]) => [name, value]);
  const body = new URLSearchParams([...fields, ["email", email], ["password", PASSWORD]]).toString();
  const begun = process.hrtime.bigint();
  const answer = await ask(new URL(action, `http://localhost:${port}`).href.replace(/^http:\/\/[^/]+/, ""), body);
  const took = Number(process.hrtime.bigint() - begun) / 1e6;
  assert.equal(answer.status, 303, answer.text);
  assert.match(answer.headers.location, /\/oauth\/resume|\/account/);
  return took;
}

function exchange(port, path, cookie, body) {
  if (!agents.has(port)) agents.set(port, new Agent({ keepAlive: true, maxSockets: 1 }));
  const form = body === undefined ? {} : { "content-type": "application/x-www-form-urlencoded", "content-length": Buffer.byteLength(body) };
  const headers = { host: `localhost:${port}`, accept: "text/html", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "same-origin", ...form };
  if (cookie) headers.cookie = cookie;
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, path, method: body === undefined ? "GET" : "POST", headers, agent: agents.get(port), signal: AbortSignal.timeout(20_000) }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => { text += chunk; });
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

/// Processor time in each step of 250 ms, milliseconds.
async function idleTime({ child }) {
  const steps = [];
  let before = processorTime(child.pid);
  for (let step = 0; step < idleSeconds * 4; step += 1) {
    await sleep(250);
    const now = processorTime(child.pid);
    steps.push((now - before) / 1e6);
    before = now;
  }
  return steps;
}

/// Creates a store with 10,000 queued invitations, and one with as many users and no mail.
async function fill() {
  const server = await start("full", section(dead));
  const command = (words) => admin(server.socket, { user: { invite_person: words } });
  const invitee = (number) => ({
    email: `invited${number}@example.test`, username: null, name: "Somebody", phone: null, picture: null, roles: [], groups: [], app: null,
  });
  await sleep(3000);
  const before = resident(server);
  let next = 0;
  const begun = Date.now();
  await Promise.all(Array.from({ length: 12 }, async () => {
    while (next < WAITING) {
      const number = next;
      next += 1;
      let answer = await command(invitee(number));
      // Near the limit, some are refused until the outbox is counted again, because some mails were
      // counted twice.
      for (let tries = 0; tries < 30 && answer.errors && number > WAITING - 100; tries += 1) {
        await sleep(1000);
        answer = await command(invitee(number));
      }
      assert.ok(answer.answer, `${number}: ${JSON.stringify(answer)}`);
    }
  }));
  const seconds = (Date.now() - begun) / 1000;
  // Wait for the next count of the outbox.
  await sleep(16_000);
  const after = resident(server);
  const refused = await command(invitee(WAITING));
  assert.ok(refused.errors, JSON.stringify(refused));
  console.log(`${WAITING} invitations in ${seconds.toFixed(0)} s; resident ${before.toFixed(0)} MiB before, ${after.toFixed(0)} after; one more: ${refused.errors.join(" ")}`);
  await end(server);
  for (const name of ["silent", "later", "hurry", "dead"]) cpSync(`${work}/full/store`, `${work}/${name}/store`, { recursive: true });
  const people = Array.from({ length: WAITING }, (_, number) => `invited${number}@example.test,Somebody\n`);
  writeFileSync(`${work}/people.csv`, `email,name\n${people.join("")}`);
  const none = configure("none", "", await freePorts(2));
  addPeople(none.file);
  run(none.file, "user", "import", `${work}/people.csv`, "--format", "csv");
}

function section(port, perMinute = 60) {
  return `[mail]\nhost = "127.0.0.1"\nport = ${port}\ntls = "none"\nfrom = "id@example.test"\nper_minute = ${perMinute}\n`;
}

function configure(name, sections, [port, adminPort]) {
  const directory = `${work}/${name}`;
  mkdirSync(directory, { recursive: true });
  const file = `${directory}/sealgate.toml`;
  writeFileSync(file, `issuer = "http://localhost:${port}"
[server]
listen = ["127.0.0.1:${port}"]
[admin]
listen = "127.0.0.1:${adminPort}"
socket = "${directory}/admin.sock"
[hsm]
module = "/usr/lib/softhsm/libsofthsm2.so"
token_label = "sealgate"
pin_file = "${work}/hsm/pin"
[store]
path = "${directory}/store"
[rate_limits]
sign_ins = "none"
pages = "none"
[log]
filter = "warn"
${sections}`);
  return { file, socket: `${directory}/admin.sock`, port, directory };
}

function addPeople(file) {
  if (!hasKey) run(file, "key", "generate");
  hasKey = true;
  for (const email of PEOPLE) run(file, "user", "add", email, "--name", "Anna", "--password-stdin", { input: PASSWORD });
}

async function start(name, sections) {
  const server = configure(name, sections, [ports.shift(), ports.shift()]);
  if (name === "full") addPeople(server.file);
  const log = openSync(`${server.directory}/log`, "a");
  server.child = spawn(program, ["serve", "--config", server.file], { stdio: ["ignore", log, log] });
  servers.push(server);
  for (let tries = 0; ; tries += 1) {
    try {
      await exchange(server.port, "/oauth/jwks");
      return server;
    } catch (error) {
      if (tries > 300) throw new Error(readFileSync(`${server.directory}/log`, "utf8").slice(-2000), { cause: error });
      await sleep(100);
    }
  }
}

async function end(server) {
  const ended = new Promise((done) => server.child.once("exit", done));
  server.child.kill("SIGTERM");
  await ended;
}

function run(file, ...words) {
  const options = typeof words.at(-1) === "object" ? words.pop() : {};
  execFileSync(program, [...words, "--config", file], { stdio: ["pipe", "ignore", "inherit"], ...options });
}

/// Sends a command to a running server as the command line does.
function admin(path, command) {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(path, () => socket.write(`${JSON.stringify(command)}\n`));
    socket.setEncoding("utf8").on("data", (chunk) => { text += chunk; });
    socket.on("end", () => resolve(JSON.parse(text)));
    socket.on("error", reject);
  });
}

/// Resident memory, MiB.
function resident({ child }) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))[1]) / 1024;
}
