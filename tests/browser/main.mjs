// Checks each state in both languages with scripts and in one language without, in narrow and wide
// windows. Runs the walks at the same time.

import { appendFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { accessible, considerate, fitting, light, reachable, settled, stretched, structured } from "./checks.mjs";
import { dayOf } from "./day.mjs";
import { MAIN, looks } from "./looks.mjs";
import { mailsReceived, startMailServer } from "./mails.mjs";
import { STATES } from "./states.mjs";
import { walksOf } from "./walks.mjs";
import { PICTURES, SIZES, cookiesOf, cookiesOfFactors, first, launch, open, reuse, second, startClient, third } from "./world.mjs";

const SCREENSHOTS = new URL("screenshots/", import.meta.url).pathname;
const parts = process.argv.slice(2);
const chosen = ({ name }) => parts.length === 0 || parts.some((part) => name.includes(part));

// Text, sizes and stretched text are checked in every lane. Colours and axe-core are checked where
// they find most: all rules in Turkish on a narrow light page and in English on a wide dark page, and
// the contrast in the other colours and in a window of medium width. A page without its script differs
// from one with it only in hidden elements. So the lane without scripts checks no colours, and only the
// narrowest and the widest window. It uses the language with the longer words.
const view = (size, colorScheme, rules) => ({ size, colorScheme, rules });
const ALL_SIZES = Object.keys(SIZES);
const LANES = [
  {
    name: "en-script", language: "en", scripts: true, keyboard: true, sizes: ALL_SIZES,
    views: [view("medium", "light", "size"), view("wide", "light", "colors"), view("wide", "dark", "all")],
  },
  {
    name: "tr-script", language: "tr", scripts: true, keyboard: false, sizes: ALL_SIZES,
    views: [view("narrow", "dark", "colors"), view("narrow", "light", "all")],
  },
  { name: "tr-plain", language: "tr", scripts: false, keyboard: true, sizes: ["narrow", "wide"], views: [] },
];

const WALK_LANES = [
  { name: "walk-script", language: "en", scripts: true },
  { name: "walk-plain", language: "tr", scripts: false },
];

// Maximum number of repeated checks in a run. On a busy machine Chromium sometimes completes a
// layout shortly after the check. So a check of the layout or by axe-core that fails is repeated
// once on the same page, and its error counts if it persists. More repetitions than this are an
// error, because a page that fails in every second run has a defect. No other check and no walk is
// repeated.
const MAX_REPEATED_CHECKS = 3;

const faults = [];
const tell = (fault) => {
  faults.push(fault);
  console.log(`FAULT ${fault}`);
  appendFileSync(process.env.FAULTS_FILE, `${fault}\n`);
};
const count = { pages: 0, views: 0, walks: 0, heaviest: 0, repeatedChecks: 0 };

/// Returns the errors that `check` finds again once the page layout is stable.
async function twice(where, page, check) {
  const found = await check(page);
  if (found.length === 0) return [];
  count.repeatedChecks += 1;
  found.forEach((fault) => console.log(`looking again: ${where}: ${fault}`));
  await settled(page);
  return check(page);
}

/// Opens the page in which a lane checks its states.
async function enterLane(browser, { language, scripts }) {
  const entered = await open(browser, { language });
  // axe-core needs scripts, so replace only the page's own script. The walks disable scripts
  // completely.
  if (!scripts) await entered.context.route(/\/(script|keys)\.js/, (route) => route.fulfill({ contentType: "text/javascript", body: "" }));
  return entered;
}

/// Checks a state in one language, with or without scripts, in all sizes and colours on the same
/// page. Returns whether the page can be used for the next state.
async function examine({ page, journal }, lane, state) {
  const place = `${state.name} (${lane.name})`;
  const blame = (where, found) => found.forEach((fault) => tell(`${place}${where}: ${fault}`));
  const look = async (where, check) => blame(where, await twice(`${place}${where}`, page, check));
  try {
    await state.show(page, lane.name);
    // The expected element may appear before the stylesheet is loaded.
    await page.waitForLoadState("load");
    const status = journal.responses[0]?.status();
    if (status !== (state.status ?? 200)) blame("", [`the status is ${status}`]);
    const { weight, faults: heavy } = await light(journal);
    count.heaviest = Math.max(count.heaviest, weight);
    blame("", [...heavy, ...await structured(page, lane.language)]);
    for (const size of lane.sizes) {
      await page.setViewportSize(SIZES[size]);
      await look(` ${size}`, fitting);
      for (const { colorScheme, rules } of lane.views.filter((view) => view.size === size)) {
        await page.emulateMedia({ colorScheme });
        await look(` ${size} ${colorScheme}`, (page) => accessible(page, rules));
        if (rules === "all" && MAIN.has(state.name)) await look(` ${size}`, (page) => looks(page, `${state.name}.${size}`));
        count.views += 1;
      }
      for (const colorScheme of PICTURES && lane.scripts ? ["light", "dark"] : []) {
        await page.emulateMedia({ colorScheme });
        await page.screenshot({ path: `${SCREENSHOTS}${state.name}.${lane.name}.${size}.${colorScheme}.png`, fullPage: true });
      }
    }
    count.pages += 1;
    if (lane.scripts) blame("", await considerate(page));
    await look("", stretched);
    if (lane.keyboard) blame(" keyboard", await reachable(page));
    blame("", journal.complaints);
    return !state.alone;
  } catch (error) {
    blame("", [`${error.message.split("\n").slice(0, 4).join(" ")} at ${page.url()}`]);
    await page.screenshot({ path: `${SCREENSHOTS}${state.name}.${lane.name}.failed.png` }).catch(() => {});
    return false;
  }
}

async function examineAll(browser, lane) {
  const states = STATES.filter(chosen);
  if (states.length === 0) return;
  const cookies = { nobody: undefined };
  if (states.some(({ as }) => as === "first")) cookies.first = await cookiesOf(browser, lane.name, [first]);
  if (states.some(({ as }) => as === "second")) cookies.second = await cookiesOf(browser, lane.name, [second]);
  if (states.some(({ as }) => as === "both")) cookies.both = await cookiesOf(browser, lane.name, [second, first]);
  if (states.some(({ as, factors }) => as === "third" || factors)) cookies.third = await cookiesOfFactors(browser, third(lane.name));
  let entered = await enterLane(browser, lane);
  for (const state of states) {
    await reuse(entered, cookies[state.as]);
    if (await examine(entered, lane, state)) continue;
    await entered.context.close();
    entered = await enterLane(browser, lane);
  }
  await entered.context.close();
}

async function walkAll(browser, shell, { name, language, scripts }) {
  for (const walk of [...walksOf(name), ...dayOf(name)].filter(chosen)) {
    await follow(browser, shell, walk, scripts, language);
    count.walks += 1;
  }
}

async function follow(browser, shell, walk, scripts, language) {
  const journals = [];
  // A mail is only shown, so the shell suffices.
  const enter = async ({ isSimple = false, ...options } = {}) => {
    const entered = await open(isSimple ? shell : browser, { scripts, language, ...options });
    journals.push(entered);
    return entered;
  };
  const name = `${walk.name} (${scripts ? "script" : "plain"})`;
  try {
    await walk.go(enter, { browser: shell, scripts, language, words: (words) => words[language] });
    for (const { journal } of journals) journal.complaints.forEach((complaint) => tell(`${name}: ${complaint}`));
  } catch (error) {
    tell(`${name}: ${error.message.split("\n").slice(0, 6).join(" ")} at ${journals.at(-1)?.page.url()}`);
  } finally {
    for (const { context } of journals) await context.close();
  }
}

const started = Date.now();
await rm(SCREENSHOTS, { recursive: true, force: true });
await mkdir(SCREENSHOTS, { recursive: true });
const client = await startClient();
const mailServer = await startMailServer();
// The walks with scripts use Chromium as users do. Its headless shell has the same engine without the
// browser's own windows, and needs two thirds of the time.
const [browser, shell] = await Promise.all([launch(process.env.CHROMIUM), launch(process.env.HEADLESS_SHELL)]);
try {
  await Promise.all([...LANES.map((lane) => examineAll(shell, lane)), ...WALK_LANES.map((lane) => walkAll(lane.scripts ? browser : shell, shell, lane))]);
} finally {
  await Promise.all([browser.close(), shell.close()]);
  client.close();
  mailServer.close();
}
if (count.repeatedChecks > MAX_REPEATED_CHECKS) tell(`${count.repeatedChecks} repeated checks; at most ${MAX_REPEATED_CHECKS} are permitted`);
const seconds = ((Date.now() - started) / 1000).toFixed(0);
console.log(`${count.pages} pages, ${count.views} views, ${count.walks} walks, ${mailsReceived()} mails, ${count.repeatedChecks} second looks, the heaviest page ${count.heaviest} bytes, ${faults.length} faults, ${seconds} s`);
if (count.pages + count.walks === 0) console.log("nothing has such a name");
process.exitCode = faults.length === 0 && count.pages + count.walks > 0 ? 0 : 1;
