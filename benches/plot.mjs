// Plots as SVG: what was measured as bars, from the least to the most as a line. Readable on light and on dark pages.

import { writeFileSync } from "node:fs";
import { median } from "./measure.mjs";

const [LEFT, WIDTH, RIGHT, ROW, TOP] = [230, 420, 90, 26, 44];
const text = (x, y, words, more = "") => `<text x="${x}" y="${y}" ${more}>${words.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</text>`;

/// One bar for each series of values, under a title that names the unit.
export function bars(file, title, series) {
  const rows = Object.entries(series).map(([name, values]) => ({ name, middle: median(values), least: Math.min(...values), most: Math.max(...values) }));
  const scale = WIDTH / Math.max(...rows.map((row) => row.most));
  const height = TOP + rows.length * ROW + 10;
  const drawn = rows.map(({ name, middle, least, most }, at) => {
    const y = TOP + at * ROW;
    const x = (value) => (LEFT + value * scale).toFixed(1);
    return [
      text(LEFT - 10, y + 13, name, `text-anchor="end"`),
      `<rect x="${LEFT}" y="${y}" width="${(middle * scale).toFixed(1)}" height="18" fill="${name.startsWith("Sealgate") ? "#2a7de1" : "#9aa5b1"}"/>`,
      `<path d="M${x(least)} ${y + 9}H${x(most)}M${x(least)} ${y + 5}v8M${x(most)} ${y + 5}v8" stroke="#d9480f" stroke-width="1.5" fill="none"/>`,
      text(LEFT + WIDTH + 10, y + 13, shown(middle)),
    ].join("\n");
  });
  const style = "<style>text{font:13px sans-serif;fill:#1b1f24}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>";
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${LEFT + WIDTH + RIGHT}" height="${height}" role="img">`;
  writeFileSync(file, [head, style, text(10, 22, title, `font-weight="bold"`), ...drawn, "</svg>"].join("\n") + "\n");
}

function shown(value) {
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}
