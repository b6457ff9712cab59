// The environment of a soak test: a token behind a p11-kit server, an application that checks its
// requests, and the server, which can be killed, stopped, restarted and controlled by commands.

import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, openSync, readFileSync, readdirSync, rmSync, statSync, existsSync } from "node:fs";
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const { WORK, SEALGATE, ISSUER, ADMIN, UPSTREAM_PORT } = process.env;
const P11_KIT = "/usr/libexec/p11-kit/p11-kit-server";
const SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so";
const WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export const PATIENCE = 20_000;
/// A header that each client forges and the gateway must replace.
export const FORGED = "forged";

/// Violations of Sealgate's guarantees. Any violation fails the run.
export class Verdict {
  violations = [];
  counts = {};

  constructor(begun) {
    this.begun = begun;
  }

  count(name, by = 1) {
    this.counts[name] = (this.counts[name] ?? 0) + by;
  }

  violation(what) {
    const line = `${Math.round((Date.now() - this.begun) / 1000)} s: ${what}`;
    console.log(`VIOLATION ${line}`);
    // Repeated violations must not fill the memory in a long run.
    if (this.violations.length < 200) this.violations.push(line);
  }
}

/// The application. Requests must contain exactly one identity, no session cookie and no forged
/// header.
export function startApplication(verdict) {
  const server = http.createServer((request, response) => {
    inspect(verdict, request);
    request.resume();
    request.on("end", () => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ user: request.headers["x-forwarded-user"] ?? null, path: request.url, mark: request.headers["x-mark"] ?? null }));
    });
  });
  server.keepAliveTimeout = 65_000;
  server.on("upgrade", (request, socket) => {
    inspect(verdict, request);
    const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + WEBSOCKET).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on("error", () => {});
    // Each message has fewer than 126 bytes and arrives in one piece. It is returned without its
    // mask.
    let rest = Buffer.alloc(0);
    socket.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= 2 && rest.length >= 6 + (rest[1] & 0x7f)) {
        const length = rest[1] & 0x7f;
        const [mask, payload] = [rest.subarray(2, 6), rest.subarray(6, 6 + length)];
        const plain = Buffer.from(payload.map((byte, index) => byte ^ mask[index % 4]));
        if ((rest[0] & 0x0f) === 1) socket.write(Buffer.concat([Buffer.from([0x81, length]), plain]));
        if ((rest[0] & 0x0f) === 8) socket.end();
        rest = rest.subarray(6 + length);
      }
    });
  });
  return new Promise((done) => server.listen(Number(UPSTREAM_PORT), "127.0.0.1", () => done(server)));
}

function inspect(verdict, request) {
  const { headers, url } = request;
  if (/sealgate/i.test(headers.cookie ?? "")) verdict.violation(`the application got our cookie on ${url}`);
  if (url.startsWith("/open/")) {
    if (headers["x-forwarded-user"]) verdict.violation(`an identity on a public route: ${headers["x-forwarded-user"]}`);
    return;
  }
  if (!/^[0-9a-f-]{36}$/.test(headers["x-forwarded-user"] ?? "")) verdict.violation(`no identity on ${url}: ${headers["x-forwarded-user"]}`);
  for (const [name, value] of Object.entries(headers)) {
    if (String(value).includes(FORGED)) verdict.violation(`a forged header came through: ${name}`);
  }
}

/// SoftHSM behind a p11-kit server's socket, which simulates a network device that fails, hangs and
/// returns.
export class Token {
  #server;

  async start() {
    const socket = `${WORK}/p11.sock`;
    rmSync(socket, { force: true });
    // A separate process group, because the server starts a process for each connection.
    this.#server = spawn(P11_KIT, ["-f", "-n", socket, "--provider", SOFTHSM, "pkcs11:"], { detached: true, stdio: "ignore" });
    for (let tries = 0; !existsSync(socket); tries += 1) {
      if (tries > 100) throw new Error("the p11-kit server does not listen");
      await sleep(50);
    }
  }

  signal(name) {
    try {
      process.kill(-this.#server.pid, name);
    } catch {
      // The process has already ended.
    }
  }
}

/// The server under test.
export class Server {
  #child;
  #ended;
  starts = 0;
  slowestStart = 0;

  get pid() {
    return this.#child?.pid;
  }

  /// Starts it and waits until it is ready.
  async start() {
    const begun = Date.now();
    const log = openSync(`${WORK}/log`, "a");
    this.#child = spawn(SEALGATE, ["serve", "--config", `${WORK}/sealgate.toml`], { stdio: ["ignore", log, log] });
    this.#ended = new Promise((done) => this.#child.once("exit", (code, signal) => done(signal ?? code)));
    let ended;
    this.#ended.then((how) => (ended = how));
    while (!(await this.ready())) {
      if (ended !== undefined) throw new Error(`the server ended with ${ended}:\n${this.log()}`);
      if (Date.now() - begun > 60_000) throw new Error(`the server is not ready after 60 s:\n${this.log()}`);
      await sleep(50);
    }
    this.starts += 1;
    this.slowestStart = Math.max(this.slowestStart, Date.now() - begun);
  }

  async ready() {
    try {
      return (await fetch(`${ADMIN}/readyz`, { signal: AbortSignal.timeout(5000) })).status === 200;
    } catch {
      return false;
    }
  }

  signal(name) {
    this.#child.kill(name);
  }

  /// Sends a signal that ends it. Returns the exit code or the signal's name.
  async end(name) {
    this.#child.kill(name);
    return this.#ended;
  }

  log() {
    return readFileSync(`${WORK}/log`, "utf8").slice(-3000);
  }
}

/// Runs a command of the same binary and returns its standard output. Rejects with the output on
/// failure.
export function command(words, input = "") {
  return new Promise((resolve, reject) => {
    const child = execFile(SEALGATE, [...words, "--config", `${WORK}/sealgate.toml`], { timeout: 120_000, maxBuffer: 64 << 20 }, (error, out, complaint) =>
      error ? reject(new Error(`sealgate ${words.join(" ")}: ${complaint || error}`)) : resolve(out),
    );
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

/// Resident memory and disk in MiB, descriptors, threads, and processor seconds of the server's
/// process.
export function measure(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const number = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)[1]);
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return {
    memory: number("VmRSS") / 1024,
    threads: number("Threads"),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    processor: (Number(stat[11]) + Number(stat[12])) / 100,
    disk: diskBytes(`${WORK}/store`) / 2 ** 20,
  };
}

function diskBytes(path) {
  try {
    const stat = statSync(path);
    if (!stat.isDirectory()) return stat.blocks * 512;
    return readdirSync(path).reduce((sum, name) => sum + diskBytes(`${path}/${name}`), 0);
  } catch {
    // sled may remove files during the scan.
    return 0;
  }
}

export async function metrics() {
  const text = await (await fetch(`${ADMIN}/metrics`, { signal: AbortSignal.timeout(5000) })).text();
  const values = new Map();
  for (const line of text.split("\n")) {
    const [, name, value] = /^(\S+) (\S+)$/.exec(line) ?? [];
    if (name && !line.startsWith("#")) values.set(name, Number(value));
  }
  return values;
}

mkdirSync(WORK, { recursive: true });
