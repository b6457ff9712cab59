// Each state in both languages with scripts, in one without, narrow and wide; and meanwhile the walks.

import { appendFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { accessible, considerate, fitting, light, reachable, settled, stretched, structured } from "./checks.mjs";
import { mailsReceived, startMailServer } from "./mails.mjs";
import { STATES } from "./states.mjs";
import { WALKS } from "./walks.mjs";
import { SIZES, cookiesOf, cookiesOfFactors, first, launch, open, second, startClient, third } from "./world.mjs";

const SCREENSHOTS = new URL("screenshots/", import.meta.url).pathname;
const parts = process.argv.slice(2);
const chosen = ({ name }) => parts.length === 0 || parts.some((part) => name.includes(part));

// Words, sizes and stretched text are looked at in every lane. The colours, with axe-core and a picture, where they tell most:
// all its rules in Turkish on a narrow light page and in English on a wide dark one, the contrast in the other colours too. A page
// without its script differs from one with it in what is hidden only, so that lane looks at no colours, and in the language with
// the longer words.
const view = (size, colorScheme, all = false) => ({ size, colorScheme, all });
const LANES = [
  { name: "en-script", language: "en", scripts: true, keyboard: true, views: [view("wide", "light"), view("wide", "dark", true)] },
  { name: "tr-script", language: "tr", scripts: true, keyboard: false, views: [view("narrow", "light", true), view("narrow", "dark")] },
  { name: "tr-plain", language: "tr", scripts: false, keyboard: true, views: [] },
];

// On a busy machine Chromium now and then lays a page out a moment after it was looked at. So a fault of layout or of axe-core is
// looked for once more, on the very same page: what stands there still counts. This many second looks in a run are a fault of
// their own: what is wrong for a moment in one run of two is wrong. Nothing else is tried again, and no walk.
const SECOND_LOOKS = 3;

const faults = [];
const tell = (fault) => {
  faults.push(fault);
  console.log(`FAULT ${fault}`);
  appendFileSync(process.env.FAULTS_FILE, `${fault}\n`);
};
const count = { pages: 0, views: 0, walks: 0, heaviest: 0, secondLooks: 0 };

/// What `check` finds wrong with the page, and finds again once the page has come to rest.
async function twice(where, page, check) {
  const found = await check(page);
  if (found.length === 0) return [];
  count.secondLooks += 1;
  found.forEach((fault) => console.log(`looking again: ${where}: ${fault}`));
  await settled(page);
  return check(page);
}

/// A state in one language, with or without scripts: all sizes and colours on the one page.
async function examine(browser, lane, state, cookies) {
  const { page, context, journal } = await open(browser, { language: lane.language, cookies });
  // axe-core is a script itself, so here the page's own is taken away; the walks turn scripts off for good.
  if (!lane.scripts) await context.route(/\/script\.js/, (route) => route.fulfill({ contentType: "text/javascript", body: "" }));
  const place = `${state.name} (${lane.name})`;
  const blame = (where, found) => found.forEach((fault) => tell(`${place}${where}: ${fault}`));
  const look = async (where, check) => blame(where, await twice(`${place}${where}`, page, check));
  try {
    await state.show(page, lane.name);
    // What was waited for may stand there before the stylesheet does.
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

async function walkAll(browser) {
  for (const walk of WALKS.filter(chosen)) {
    // With scripts in English, without them in Turkish.
    for (const [scripts, language] of [[true, "en"], [false, "tr"]]) {
      await follow(browser, walk, scripts, language);
      count.walks += 1;
    }
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
const browser = await launch();
try {
  await Promise.all([...LANES.map((lane) => examineAll(browser, lane)), walkAll(browser)]);
} finally {
  await browser.close();
  client.close();
  mailServer.close();
}
if (count.secondLooks > SECOND_LOOKS) tell(`${count.secondLooks} second looks, and at most ${SECOND_LOOKS} are taken`);
const seconds = ((Date.now() - started) / 1000).toFixed(0);
console.log(`${count.pages} pages, ${count.views} pictures, ${count.walks} walks, ${mailsReceived()} mails, ${count.secondLooks} second looks, the heaviest page ${count.heaviest} bytes, ${faults.length} faults, ${seconds} s`);
if (count.pages + count.walks === 0) console.log("nothing has such a name");
process.exitCode = faults.length === 0 && count.pages + count.walks > 0 ? 0 : 1;
