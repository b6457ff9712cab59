// Shared by the benchmarks: processor time, medians, and runs of load generators.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const [below, above] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return below + (above - below) * (place - Math.floor(place));
}

export function median(values) {
  return quantile(values, 0.5);
}

/// Processor time of a process and its children, nanoseconds.
export function processorTime(pid) {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    sum += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
    for (const child of readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean)) sum += processorTime(child);
  }
  return sum;
}

/// Runs wrk. Each request has one of the tokens of a file. Returns requests a second, processor time
/// of the process `pid` per request in microseconds, and latencies in milliseconds.
///
/// `headers`: additional ones, `NAME: VALUE`. `script`: creates the requests from the tokens. Every
/// response must be 2xx, because refusals are fast.
export function wrk({ url, host, tokens, pid, connections, duration, headers = [], script = "random_token.lua" }) {
  const before = processorTime(pid);
  const file = new URL(script, import.meta.url).pathname;
  const out = execFileSync("wrk", ["-t1", `-c${connections}`, `-d${duration}s`, "--latency", "-H", `Host: ${host}`, ...headers.flatMap((header) => ["-H", header]), "-s", file, url], {
    encoding: "utf8",
    env: { ...process.env, TOKENS: tokens },
  });
  const cpu = processorTime(pid) - before;
  assert.doesNotMatch(out, /Non-2xx|Socket errors/, out);
  const count = Number(/(\d+) requests in/.exec(out)[1]);
  const milliseconds = (percent) => {
    const [, value, unit] = new RegExp(`${percent}%\\s+([0-9.]+)(us|ms|s)`).exec(out);
    return Number(value) * { us: 0.001, ms: 1, s: 1000 }[unit];
  };
  return { rate: Number(/Requests\/sec:\s+([0-9.]+)/.exec(out)[1]), cpu: cpu / count / 1000, p50: milliseconds(50), p99: milliseconds(99) };
}

/// Runs h2load over TLS, with 10 streams per connection. Every response must be 2xx.
export function h2load({ url, host, pid, connections, duration }) {
  const before = processorTime(pid);
  const out = execFileSync("h2load", ["-t1", `-c${connections}`, "-m10", "-D", String(duration), "-H", `:authority: ${host}`, url], { encoding: "utf8" });
  const cpu = processorTime(pid) - before;
  const [, count, failed] = /status codes: (\d+) 2xx, (\d+ 3xx, \d+ 4xx, \d+ 5xx)/.exec(out);
  assert.equal(failed, "0 3xx, 0 4xx, 0 5xx", out);
  assert.match(out, /0 failed, 0 errored, 0 timeout/, out);
  return { rate: Number(/finished in [^,]+, ([0-9.]+) req\/s/.exec(out)[1]), cpu: cpu / Number(count) / 1000 };
}

/// Prints instruction counts next to those of a file. Returns whether none has increased by more
/// than 5 %. With ACCEPT=1 in the environment the counts replace those of the file, for example
/// after a change of the compiler or of libraries.
export function within(file, counted) {
  const MOST = 1.05;
  const before = JSON.parse(readFileSync(file, "utf8"));
  console.log("| | instructions | before | |\n|-|-|-|-|");
  for (const [name, now] of Object.entries(counted)) console.log(`| ${name} | ${now} | ${before[name]} | ${(now / before[name]).toFixed(3)} |`);
  if (process.env.ACCEPT) {
    writeFileSync(file, `${JSON.stringify(counted, null, 2)}\n`);
    return true;
  }
  const risen = Object.keys({ ...before, ...counted }).filter((name) => !(counted[name] <= before[name] * MOST));
  if (risen.length) console.error(`\nmore than ${MOST} times what it was, or not counted: ${risen.join("; ")}`);
  return !risen.length;
}
