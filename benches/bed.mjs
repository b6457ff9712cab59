// Shared by the benchmarks of the edge: a working directory, its programs, and a provider with a
// SoftHSM token.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { median } from "./measure.mjs";

export const root = new URL("..", import.meta.url).pathname;
/// The program that is measured: the packaged one, unless PROGRAM names another one.
export const sealgate = process.env.PROGRAM ?? `${root}/target/optimized/sealgate`;

// The directory in which .ci/install unpacks programs.
process.env.PATH += `:/usr/sbin:${process.env.CARGO_TARGET_DIR ?? `${root}/target`}/tools/bin`;
mkdirSync(`${root}/target`, { recursive: true });
export const work = mkdtempSync(`${root}/target/bench.`);
const children = [];
process.on("exit", () => {
  for (const child of children) child.kill("SIGTERM");
  rmSync(work, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

/// Copies a configuration, replaces its words in capitals, and returns the copy's path.
export function filled(file, values) {
  let text = readFileSync(file, "utf8");
  for (const [word, value] of Object.entries({ WORK: work, ...values })) {
    text = text.replaceAll(new RegExp(`\\b${word}\\b`, "g"), value);
  }
  const copy = `${work}/${file.split("/").slice(-2).join("-")}`;
  writeFileSync(copy, text);
  return copy;
}

export function start(program, words, env = {}) {
  const file = `${work}/${children.length}.log`;
  const log = openSync(file, "a");
  const child = spawn(program, words, { stdio: ["ignore", log, log], env: { ...process.env, ...env } });
  child.on("exit", (code) => {
    if (code) console.error(`${program} ended with ${code}:\n${readFileSync(file, "utf8").slice(-2000)}`);
  });
  children.push(child);
  return child;
}

/// Waits until a server answers with any status. A large store takes a while to open.
export async function listens(port, scheme = "http") {
  for (let tries = 0; tries < 3000; tries += 1) {
    try {
      execFileSync("curl", ["-sk", "-o", "/dev/null", "-m", "1", `${scheme}://127.0.0.1:${port}/`]);
      return;
    } catch {
      await sleep(100);
    }
  }
  const said = children.map((child, number) => `${child.spawnfile}: ${readFileSync(`${work}/${number}.log`, "utf8").slice(-500)}`);
  throw new Error(`nothing listens on port ${port}\n${said.join("\n")}`);
}

/// Creates a SoftHSM token and returns its configuration section.
export function softHsm(directory = work) {
  execFileSync(`${root}/hsm/init-token.sh`, [`${directory}/hsm`, "sealgate"], { stdio: "ignore" });
  process.env.SOFTHSM2_CONF = `${directory}/hsm/softhsm2.conf`;
  return `[hsm]
module = "/usr/lib/softhsm/libsofthsm2.so"
token_label = "sealgate"
pin_file = "${directory}/hsm/pin"
`;
}

export function run(...words) {
  runAt(work, ...words);
}

/// Runs Sealgate with the configuration in a directory. The last word may be options of
/// `execFileSync`.
export function runAt(directory, ...words) {
  const options = typeof words.at(-1) === "object" ? words.pop() : {};
  execFileSync(sealgate, [...words, "--config", `${directory}/sealgate.toml`], { stdio: ["pipe", "ignore", "inherit"], ...options });
}

/// Creates a certificate for app.localhost with a P-256 key; `pair` contains both.
export function certificate() {
  const [certificate, key, pair] = [`${work}/certificate.pem`, `${work}/key.pem`, `${work}/pair.pem`];
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=app.localhost",
      "-addext", "subjectAltName=DNS:localhost,DNS:app.localhost", "-keyout", key, "-out", certificate],
    { stdio: "ignore" },
  );
  writeFileSync(pair, readFileSync(certificate, "utf8") + readFileSync(key, "utf8"));
  return { certificate, key, pair };
}

/// Runs each case for `rounds` rounds after one second of warm-up. The order changes in each round,
/// so that no case always follows the same one.
export function measured(cases, rounds, measure) {
  const names = Object.keys(cases);
  const results = Object.fromEntries(names.map((name) => [name, []]));
  for (const name of names) measure(cases[name], 1);
  for (let round = 0; round < rounds; round += 1) {
    for (let turn = 0; turn < names.length; turn += 1) {
      const name = names[(turn + round) % names.length];
      results[name].push(measure(cases[name]));
    }
  }
  return results;
}

/// Prints the medians of each case as a table. `columns`: name, key, digits.
export function printMedians(results, columns) {
  console.log(medians(results, columns));
}

export function medians(results, columns) {
  const lines = [`| | ${columns.map(([name]) => name).join(" | ")} |\n|-|${columns.map(() => "-|").join("")}`];
  for (const [name, runs] of Object.entries(results)) {
    const values = columns.map(([, key, digits]) => median(runs.map((run) => run[key])).toFixed(digits));
    lines.push(`| ${name} | ${values.join(" | ")} |`);
  }
  return lines.join("\n");
}

/// Prints ratios of pairs of cases within a round.
export function printRatios(results, pairs) {
  console.log("\n| ratio within a round | median (least to most) | of processor time (least to most) |\n|-|-|-|");
  for (const [over, under] of pairs) {
    const ratio = (key) => {
      const all = results[over].map((run, round) => run[key] / results[under][round][key]);
      return `${median(all).toFixed(2)} (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)})`;
    };
    console.log(`| ${over} / ${under} | ${ratio("rate")} | ${ratio("cpu")} |`);
  }
}
