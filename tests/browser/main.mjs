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
import { SIZES, cookiesOf, cookiesOfFactors, first, launch, open, second, startClient, third } from "./world.mjs";

const SCREENSHOTS = new URL("screenshots/", import.meta.url).pathname;
const parts = process.argv.slice(2);
const chosen = ({ name }) => parts.length === 0 || parts.some((part) => name.includes(part));

// Text, sizes and stretched text are checked in every lane. Colours, axe-core and screenshots are
// checked where they find most: all rules in Turkish on a narrow light page and in English on a
// wide dark page, and the contrast in the other colours. A page without its script differs from one
// with it only in hidden elements. So the lane without scripts checks no colours. It uses the
// language with the longer words.
const view = (size, colorScheme, all = false) => ({ size, colorScheme, all });
const LANES = [
  { name: "en-script", language: "en", scripts: true, keyboard: true, views: [view("wide", "light"), view("wide", "dark", true)] },
  { name: "tr-script", language: "tr", scripts: true, keyboard: false, views: [view("narrow", "light", true), view("narrow", "dark")] },
  { name: "tr-plain", language: "tr", scripts: false, keyboard: true, views: [] },
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

/// Checks a state in one language, with or without scripts, in all sizes and colours on the same
/// page.
async function examine(browser, lane, state, cookies) {
  const { page, context, journal } = await open(browser, { language: lane.language, cookies });
  // axe-core needs scripts, so replace only the page's own script. The walks disable scripts
  // completely.
  if (!lane.scripts) await context.route(/\/script\.js/, (route) => route.fulfill({ contentType: "text/javascript", body: "" }));
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
    for (const [size, viewport] of Object.entries(SIZES)) {
      await page.setViewportSize(viewport);
      await look(` ${size}`, fitting);
      for (const { colorScheme, all } of lane.views.filter((view) => view.size === size)) {
        await page.emulateMedia({ colorScheme });
        await look(` ${size} ${colorScheme}`, (page) => accessible(page, all));
        if (all && MAIN.has(state.name)) await look(` ${size}`, (page) => looks(page, `${state.name}.${size}`));
        await page.screenshot({ path: `${SCREENSHOTS}${state.name}.${lane.name}.${size}.${colorScheme}.png`, fullPage: true });
        count.views += 1;
      }
    }
    count.pages += 1;
    if (lane.scripts) blame("", await considerate(page));
    await look("", stretched);
    if (lane.keyboard) blame(" keyboard", await reachable(page));
    blame("", journal.complaints);
  } catch (error) {
    blame("", [`${error.message.split("\n").slice(0, 4).join(" ")} at ${page.url()}`]);
  } finally {
    await context.close();
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
  for (const state of states) await examine(browser, lane, state, cookies[state.as]);
}

async function walkAll(browser, { name, language, scripts }) {
  for (const walk of [...walksOf(name), ...dayOf(name)].filter(chosen)) {
    await follow(browser, walk, scripts, language);
    count.walks += 1;
  }
}

async function follow(browser, walk, scripts, language) {
  const journals = [];
  const enter = async (options = {}) => {
    const entered = await open(browser, { scripts, language, ...options });
    journals.push(entered);
    return entered;
  };
  const name = `${walk.name} (${scripts ? "script" : "plain"})`;
  try {
    await walk.go(enter, { browser, scripts, language, words: (words) => words[language] });
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
// The walks use Chromium as users do. Its headless shell has the same engine without the browser's own
// windows, and needs two thirds of the time for the pages.
const [browser, shell] = await Promise.all([launch(process.env.CHROMIUM), launch(process.env.HEADLESS_SHELL)]);
try {
  await Promise.all([...LANES.map((lane) => examineAll(shell, lane)), ...WALK_LANES.map((lane) => walkAll(browser, lane))]);
} finally {
  await Promise.all([browser.close(), shell.close()]);
  client.close();
  mailServer.close();
}
if (count.repeatedChecks > MAX_REPEATED_CHECKS) tell(`${count.repeatedChecks} repeated checks; at most ${MAX_REPEATED_CHECKS} are permitted`);
const seconds = ((Date.now() - started) / 1000).toFixed(0);
console.log(`${count.pages} pages, ${count.views} pictures, ${count.walks} walks, ${mailsReceived()} mails, ${count.repeatedChecks} second looks, the heaviest page ${count.heaviest} bytes, ${faults.length} faults, ${seconds} s`);
if (count.pages + count.walks === 0) console.log("nothing has such a name");
process.exitCode = faults.length === 0 && count.pages + count.walks > 0 ? 0 : 1;
