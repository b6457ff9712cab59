// Instructions of the parts of a request without I/O. An increase of more than 5 % fails.
//
//   make bench-requests [PROFILE=dist|dev] [ACCEPT=1]
//
// callgrind runs `benches/requests.rs` once; each case is a separate function. The counts of the
// unoptimized dev build are several times as high, but additional work is visible there too, and
// the tests have already built most of it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { within } from "../measure.mjs";

const here = new URL(".", import.meta.url).pathname;
const profile = process.env.PROFILE ?? "dist";
const source = readFileSync(`${here}/../requests.rs`, "utf8");
const times = Number(/const TIMES: usize = (\d+);/.exec(source)[1]);
const cases = [...source.matchAll(/#\[inline\(never\)\]\nfn (\w+)/g)].map(([, name]) => name);

const directory = mkdtempSync(`${tmpdir()}/sealgate-requests.`);
let counted;
try {
  const file = `${directory}/counts`;
  const functions = cases.map((name) => `--toggle-collect=requests::${name}`);
  execFileSync("valgrind", ["--tool=callgrind", `--callgrind-out-file=${file}`, ...functions, built()], { stdio: ["ignore", "inherit", "pipe"] });
  counted = inclusive(readFileSync(file, "utf8"));
} finally {
  rmSync(directory, { recursive: true });
}
console.log(`make bench-requests PROFILE=${profile}, a request\n`);
process.exit(within(`${here}/${profile}.json`, counted) ? 0 : 1);

function built() {
  const words = ["bench", "--locked", "--workspace", "--profile", profile, "--bench", "requests", "--no-run", "--message-format=json-render-diagnostics"];
  const out = execFileSync(process.env.CARGO ?? "cargo", words, { cwd: `${here}/../..`, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 26 });
  const artifacts = out.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  return artifacts.find((artifact) => artifact.target?.name === "requests" && artifact.executable).executable;
}

/// The inclusive instruction count of each case. In callgrind's format, a line `cfn=(number) name`
/// names the callee (with the name only the first time). A line `calls=` follows, then a line with
/// the position and the cost.
function inclusive(text) {
  const names = new Map();
  const found = {};
  let called;
  let is_cost = false;
  for (const line of text.split("\n")) {
    const name = /^(c?)fn=\((\d+)\)(?: (.*))?$/.exec(line);
    if (name) {
      if (name[3]) names.set(name[2], name[3].replace(/^requests::/, ""));
      if (name[1]) called = names.get(name[2]);
    } else if (is_cost) {
      if (cases.includes(called)) found[called] = (found[called] ?? 0) + Number(line.split(" ")[1]) / times;
    }
    is_cost = line.startsWith("calls=");
  }
  const counted = Object.fromEntries(cases.map((name) => [name, Math.round(found[name])]));
  assert.ok(Object.values(counted).every((count) => count > 0), JSON.stringify(found));
  return counted;
}
