// The report of a soak test: Markdown, and a chart of each figure over time.

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import os from "node:os";

const { WORK, SEALGATE } = process.env;
/// The directory for explanation/soak-test.md and images/, laid out like docs/.
const DIRECTORY = process.env.SOAK_REPORT ?? `${WORK}-report`;
const WIDTH = 900;
const HEIGHT = 220;
const MARGIN = { left: 56, right: 12, top: 28, bottom: 28 };

const FIGURES = [
  { key: "memory", title: "Resident memory, MiB" },
  { key: "descriptors", title: "Open file descriptors" },
  { key: "threads", title: "Threads" },
  { key: "disk", title: "Store on disk, MiB" },
  { key: "p99", title: "Gated request over HTTP/1.1, 99th percentile, ms" },
];

export async function report({ seconds, seed, verdict, samples, events, contents, flat, server }) {
  for (const folder of ["explanation", "images"]) mkdirSync(`${DIRECTORY}/${folder}`, { recursive: true });
  for (const { key, title } of FIGURES) writeFileSync(`${DIRECTORY}/images/soak-${key}.svg`, chart(title, key, samples, events, seconds));
  const version = execFileSync(SEALGATE, ["--version"], { encoding: "utf8" }).trim();
  const table = (rows) => rows.map((row) => `| ${row.join(" | ")} |`).join("\n");
  const counts = Object.entries(verdict.counts).sort(([one], [other]) => (one < other ? -1 : 1));
  const kinds = new Map();
  for (const { name } of events) kinds.set(name, (kinds.get(name) ?? 0) + 1);
  const text = `# Soak test

Written by \`make soak\`: ${duration(seconds)} of mixed load with seed ${seed} on ${new Date().toISOString().slice(0, 10)}; ${version}, ${os.cpus().length} cores shared with the load, the
application and the token. SoftHSM behind a p11-kit server makes the signatures. In the first half the
server is also killed, stopped and suspended. The second half is one process, whose memory, files and
threads must not grow.

**${verdict.violations.length === 0 ? "No violations." : `${verdict.violations.length} violations:`}**
${verdict.violations.map((line) => `\n- ${line}`).join("")}

## Injected faults

| fault | times |
|---|---|
${table([...kinds].sort())}

The server was started ${server.starts} times; the slowest start took ${(server.slowestStart / 1000).toFixed(1)} s until it was ready.

## Operations and checks

"Failed in a fault": no answer or a temporary refusal during an injected fault or in the five seconds
after it. Any other failure, and any wrong answer at any time, is a violation.

| what | times |
|---|---|
${table(counts)}

## Growth

Medians of the second and the last quarter of the second half${flat.every((one) => one.judged) ? "" : " (not judged: the run was too short)"}.

| | second quarter | last quarter |
|---|---|---|
${table(flat.map(({ key, early, late }) => [FIGURES.find((figure) => figure.key === key).title, early?.toFixed(1), late?.toFixed(1)]))}

## Contents of the store

Records by table in five of the ${contents.length} backups.

${held(contents)}

${FIGURES.map(({ key, title }) => `![${title}](../images/soak-${key}.svg)`).join("\n\n")}
`;
  writeFileSync(`${DIRECTORY}/explanation/soak-test.md`, text);
  console.log(`the report is ${DIRECTORY}/explanation/soak-test.md`);
}

/// Returns a table of the records in five backups, spread over the run.
function held(contents) {
  const shown = [...new Set([0, 0.25, 0.5, 0.75, 1].map((share) => contents[Math.round(share * (contents.length - 1))]))].filter(Boolean);
  const tables = [...new Set(shown.flatMap(({ records }) => Object.keys(records)))].sort();
  const rows = tables.map((table) => [table, ...shown.map(({ records }) => records[table] ?? 0)]);
  const head = ["table", ...shown.map(({ time }) => `${(time / 60).toFixed(0)} min`)];
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

function duration(seconds) {
  return seconds >= 3600 ? `${(seconds / 3600).toFixed(1)} hours` : `${Math.round(seconds / 60)} minutes`;
}

/// Returns a line chart over time. Grey marks are faults, gaps are times without a process.
function chart(title, key, samples, events, seconds) {
  const points = thinned(samples.filter((one) => one[key] !== undefined), key);
  const top = Math.max(1, ...points.map((one) => one[key])) * 1.1;
  const x = (time) => MARGIN.left + (time / seconds) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const line = points.map((one) => `${x(one.time).toFixed(1)},${y(one[key]).toFixed(1)}`).join(" ");
  const marks = events.map(({ time }) => `<line x1="${x(time).toFixed(1)}" x2="${x(time).toFixed(1)}" y1="${HEIGHT - MARGIN.bottom}" y2="${HEIGHT - MARGIN.bottom + 5}" stroke="#c33"/>`).join("");
  const levels = [0, 0.5, 1].map((share) => (top / 1.1) * share);
  const grid = levels.map((value) => `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${y(value)}" y2="${y(value)}" stroke="#8884"/><text x="${MARGIN.left - 6}" y="${y(value) + 4}" text-anchor="end">${value >= 10 ? value.toFixed(0) : value.toFixed(1)}</text>`).join("");
  const hours = [0, 0.25, 0.5, 0.75, 1].map((share) => `<text x="${x(seconds * share)}" y="${HEIGHT - 6}" text-anchor="${share === 1 ? "end" : "middle"}">${((seconds * share) / 60).toFixed(0)} min</text>`).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="11" fill="#555">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
<text x="${MARGIN.left}" y="16" font-size="13" fill="#222">${title}</text>
${grid}${marks}${hours}
<polyline fill="none" stroke="#0a5c53" stroke-width="1.2" points="${line}"/>
</svg>
`;
}

/// Reduces a series to at most 600 points by the maximum of neighbours, which keeps peaks.
function thinned(points, key) {
  const step = Math.ceil(points.length / 600);
  const kept = [];
  for (let index = 0; index < points.length; index += step) {
    kept.push(points.slice(index, index + step).reduce((most, one) => (one[key] > most[key] ? one : most)));
  }
  return kept;
}
