// Compares the main pages with stored pictures.
//
// A stored picture has one pixel for each block of 8 × 8 pixels, the average of the block. Dates,
// counts and the rendering of fonts change an average little; a missing style, a shifted column or
// a wrong colour changes many. `ACCEPT=1 tests/browser/run.sh` writes the pictures.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { PNG } from "pngjs";

/// States that are compared.
export const MAIN = new Set([
  "login", "create-account", "consent", "home", "account", "account-security", "console-overview", "console-users-filtered", "console-user",
  "console-client", "console-app", "console-check",
]);

const BLOCK = 8;

/// A block differs if one of its colours differs by more than this, of 255.
const MOST_COLOR = 40;

/// Maximum share of the blocks that may differ.
const MOST_BLOCKS = 0.02;

function shrink({ width, height, data }) {
  const small = new PNG({ width: Math.floor(width / BLOCK), height: Math.floor(height / BLOCK) });
  for (let y = 0; y < small.height; y += 1) {
    for (let x = 0; x < small.width; x += 1) {
      for (let color = 0; color < 4; color += 1) {
        let sum = 0;
        for (let dy = 0; dy < BLOCK; dy += 1) {
          for (let dx = 0; dx < BLOCK; dx += 1) sum += data[((y * BLOCK + dy) * width + x * BLOCK + dx) * 4 + color];
        }
        small.data[(y * small.width + x) * 4 + color] = Math.round(sum / BLOCK ** 2);
      }
    }
  }
  return small;
}

/// Returns the share of the blocks that differ.
export function difference(one, other) {
  if (one.width !== other.width || one.height !== other.height) return 1;
  let count = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    if ([0, 1, 2].some((color) => Math.abs(one.data[at + color] - other.data[at + color]) > MOST_COLOR)) count += 1;
  }
  return count / (one.data.length / 4);
}

/// Compares the visible part of the page with its stored picture. Returns the faults.
export async function looks(page, name) {
  const folder = new URL("looks/", import.meta.url);
  const stored = new URL(`${name}.png`, folder);
  const small = shrink(PNG.sync.read(await page.screenshot()));
  if (process.env.ACCEPT) {
    await mkdir(folder, { recursive: true });
    await writeFile(stored, PNG.sync.write(small));
    return [];
  }
  const expected = await readFile(stored).catch(() => undefined);
  if (expected === undefined) return [`has no stored picture: ACCEPT=1 tests/browser/run.sh ${name.split(".")[0]} writes it`];
  const share = difference(small, PNG.sync.read(expected));
  if (process.env.SHOW_DIFFERENCES) console.log(`${name}: ${(share * 100).toFixed(2)} % of the blocks differ`);
  return share > MOST_BLOCKS
    ? [`differs from its stored picture in ${(share * 100).toFixed(1)} % of its area: look at it, and run ACCEPT=1 tests/browser/run.sh ${name.split(".")[0]}`]
    : [];
}
