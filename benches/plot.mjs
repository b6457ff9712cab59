// SVG plots: medians as bars, with a line from minimum to maximum. Readable on light and on dark
// pages.

import { writeFileSync } from "node:fs";
import { median } from "./measure.mjs";

const [LEFT, WIDTH, RIGHT, ROW, TOP] = [230, 420, 90, 26, 44];
const text = (x, y, words, more = "") => `<text x="${x}" y="${y}" ${more}>${words.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</text>`;

/// One bar per series of values, with a title that names the unit.
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
  writeFileSync(file, svg(LEFT + WIDTH + RIGHT, height, [text(10, 22, title, `font-weight="bold"`), ...drawn]));
}

/// One line per series of `[x, y]`, with a logarithmic x axis, a y axis from zero, and a title that
/// names the unit.
export function lines(file, title, across, series) {
  const [left, width, top, height] = [70, 520, 44, 200];
  const points = Object.values(series).flat();
  const [least, most] = [Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x))].map(Math.log10);
  const highest = Math.max(...points.map(([, y]) => y)) * 1.1;
  const place = ([x, y]) => [left + ((Math.log10(x) - least) / (most - least || 1)) * width, top + height - (y / highest) * height].map((at) => at.toFixed(1));
  const colours = ["#2a7de1", "#d9480f", "#2b8a3e", "#862e9c"];
  const drawn = Object.entries(series).map(([name, values], number) => {
    const colour = colours[number % colours.length];
    const path = `<path d="M${values.map((value) => place(value).join(" ")).join("L")}" stroke="${colour}" stroke-width="2" fill="none"/>`;
    const dots = values.map((value) => `<circle cx="${place(value)[0]}" cy="${place(value)[1]}" r="3" fill="${colour}"/>`);
    return [path, ...dots, text(left + width + 12, top + 14 + number * 20, name, `style="fill:${colour}"`)].join("\n");
  });
  const marks = [...new Set(points.map(([x]) => x))].map((x) => text(place([x, 0])[0], top + height + 18, x.toLocaleString("en"), `text-anchor="middle"`));
  const scale = [0, 0.5, 1].map((share) => text(left - 8, Number(place([10 ** least, highest * share])[1]) + 4, shown(highest * share), `text-anchor="end"`));
  const axes = `<path d="M${left} ${top}v${height}h${width}" stroke="#9aa5b1" fill="none"/>`;
  const name = text(left + width / 2, top + height + 38, across, `text-anchor="middle"`);
  writeFileSync(file, svg(left + width + 190, top + height + 50, [text(10, 22, title, `font-weight="bold"`), axes, ...marks, ...scale, ...drawn, name]));
}

function svg(width, height, parts) {
  const style = "<style>text{font:13px sans-serif;fill:#1b1f24}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>";
  return [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" role="img">`, style, ...parts, "</svg>"].join("\n") + "\n";
}

function shown(value) {
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}
