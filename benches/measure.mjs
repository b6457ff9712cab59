// What the benchmarks have in common: processor time, medians, and one run of wrk.

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

/// Nanoseconds on a processor, of a process and its children.
export function processorTime(pid) {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    sum += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
    for (const child of readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean)) sum += processorTime(child);
  }
  return sum;
}

/// One run of wrk, each request with one of the tokens of a file: requests a second, microseconds of processor time of the process
/// `pid` a request, and milliseconds. `headers`: further ones, `NAME: VALUE`. Every answer must be a 2xx: a gate that refuses is quick.
/// `script`: what makes the requests of the tokens.
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

/// One run of h2load over TLS, with 10 streams a connection. Every answer must be a 2xx.
export function h2load({ url, host, pid, connections, duration }) {
  const before = processorTime(pid);
  const out = execFileSync("h2load", ["-t1", `-c${connections}`, "-m10", "-D", String(duration), "-H", `:authority: ${host}`, url], { encoding: "utf8" });
  const cpu = processorTime(pid) - before;
  const [, count, failed] = /status codes: (\d+) 2xx, (\d+ 3xx, \d+ 4xx, \d+ 5xx)/.exec(out);
  assert.equal(failed, "0 3xx, 0 4xx, 0 5xx", out);
  assert.match(out, /0 failed, 0 errored, 0 timeout/, out);
  return { rate: Number(/finished in [^,]+, ([0-9.]+) req\/s/.exec(out)[1]), cpu: cpu / Number(count) / 1000 };
}

/// Prints instruction counts beside those of a file. Whether none has risen by more than 5 %. With ACCEPT=1 in the environment the counts
/// become the file's; another compiler or other libraries may be a reason.
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
