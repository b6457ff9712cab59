// A generated section of a page of docs/explanation, between two comments with its name. Everything
// is printed too.

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { root, work } from "./bed.mjs";

/// The section with this name. `end` writes it and its images, only with WRITE=1 in the
/// environment. An image appears after the text that was added before it.
export function written(name, page) {
  const out = [];
  const images = `${work}/images`;
  mkdirSync(images, { recursive: true });
  const say = (line) => {
    out.push(line);
    console.log(line);
  };
  return {
    say,
    /// Adds rows as a table. `columns`: name, key, digits.
    table(rows, columns) {
      say(`| ${columns.map(([title]) => title).join(" | ")} |`);
      say(`|${columns.map(() => "-|").join("")}`);
      for (const row of rows) say(`| ${columns.map(([, key, digits]) => (digits ? row[key].toFixed(digits) : Math.round(row[key]).toLocaleString("en"))).join(" | ")} |`);
    },
    /// Adds an image here and returns its file name.
    image(file, alt = file) {
      say(`\n![${alt}](../images/bench-${file}.svg)\n`);
      return `${images}/bench-${file}.svg`;
    },
    end() {
      if (!process.env.WRITE) return;
      const path = `${root}/docs/explanation/${page}`;
      const [first, last] = ["from", "to"].map((word) => `<!-- ${name}: ${word} here -->\n`);
      const text = readFileSync(path, "utf8");
      const [start, end] = [text.indexOf(first) + first.length, text.indexOf(last)];
      assert.ok(start >= first.length && end >= start, `${path} has no place for ${name}`);
      writeFileSync(path, `${text.slice(0, start)}\n${out.join("\n")}\n\n${text.slice(end)}`);
      for (const image of readdirSync(images)) copyFileSync(`${images}/${image}`, `${root}/docs/images/${image}`);
    },
  };
}
