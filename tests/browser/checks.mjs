// Checks that must pass on a page in any state. Each returns error messages, or an empty array.

import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { SIZES } from "./world.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
// Maximum size of a page in bytes, with its stylesheet and script, which are 20 KiB in the console.
const WEIGHT = 40 * 1024;

// axe-core rules whose result may depend on the colours or on the size of the window. The other rules
// need no second run, because the stylesheet hides no element depending on these.
const COLOR_RULES = ["color-contrast", "link-in-text-block"];
const SIZE_RULES = ["target-size", "scrollable-region-focusable"];

// Elements at which Tab stops, in document order. In a group of radio buttons Tab stops at the
// selected one only; arrow keys reach the others.
export const STOPS = ["a[href]", "button:enabled", "input:enabled:not([type=hidden], [type=radio])", "input[type=radio]:enabled:checked",
  "select:enabled", "textarea:enabled", "summary", "pre[tabindex='0']"].join();

/// Runs axe-core on the current page: all rules, except those with a tag of `without`, or only the rules
/// whose result may differ in other colours, or in another size.
export async function accessible(page, rules, without = []) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const runOnly = {
    all: { type: "tag", values: TAGS.filter((tag) => !without.includes(tag)) },
    colors: { type: "rule", values: COLOR_RULES },
    size: { type: "rule", values: [...COLOR_RULES, ...SIZE_RULES] },
  }[rules];
  const { violations } = await page.evaluate((runOnly) => axe.run({ runOnly, resultTypes: ["violations"] }), runOnly);
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ target, any }) =>
    `axe ${id}: ${help}: ${target} ${any.map(({ message }) => message).join("; ")}`));
}

/// Checks the uncompressed size of the document, its stylesheet, script and logo.
export async function light(journal) {
  const sizes = await Promise.all(journal.responses.map(async (response) => (await response.body()).length));
  const weight = sizes.reduce((sum, size) => sum + size, 0);
  return { weight, faults: weight < WEIGHT ? [] : [`the page weighs ${weight} bytes`] };
}

/// Checks text and structure, which do not depend on the size of the window.
export function structured(page, language) {
  return page.evaluate(({ language, autocomplete, special }) => {
    const faults = [];
    const say = (sound, words) => sound || faults.push(words);
    const { lang } = document.documentElement;
    say(lang === language, `<html lang> is ${lang}`);
    say(document.title !== "", "the page has no title");
    say(document.querySelectorAll("h1").length === 1, "the page has not exactly one h1");
    say(document.querySelectorAll("main").length === 1, "the page has not exactly one main");
    say(!document.querySelector("style, [style], script:not([src])"), "the page has inline code");
    // With `<noscript>`, a page whose script is removed would differ from the page in a browser
    // without scripts.
    say(!document.querySelector("noscript"), "the page has words for those without scripts only");
    const positive = [...document.querySelectorAll("[tabindex]")].filter((element) => element.tabIndex > 0);
    say(positive.length === 0, "a tabindex upsets the order of focus");
    // These fields describe other users or name an object. The browser must not fill in the
    // reader's own name and password.
    const others = /^\/(console|account\/(app-passwords|security)|oauth\/enrol)/.test(location.pathname);
    for (const field of document.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=radio])")) {
      // Passkeys are for signing in, and the name of a key is not the name of its owner.
      const usual = special[location.pathname]?.[field.name] ?? autocomplete[field.name];
      const wanted = usual && (others ? "off" : usual);
      say(!wanted || field.autocomplete === wanted, `autocomplete of ${field.name} is "${field.autocomplete}"`);
    }
    // Look for placeholders without a value. Code examples may contain braces.
    const codes = [...document.querySelectorAll("pre")].filter((pre) => pre.checkVisibility()).map((pre) => pre.innerText);
    const words = codes.reduce((words, code) => words.replace(code, () => ""), document.body.innerText);
    say(!/[{}]|undefined|\bnull\b/.test(words), "a placeholder stands in the text");
    return faults;
  }, {
    language,
    autocomplete: {
      email: "username webauthn", password: "current-password", current: "current-password", new: "new-password",
      again: "new-password", "new-password": "new-password", username: "username", name: "name", phone_number: "tel", picture: "photo",
      "person-name": "name",
    },
    special: {
      "/oauth/forgot-password": { email: "username" },
      "/oauth/create-account": { email: "email" },
      "/oauth/invitation": { name: "off" },
      "/oauth/create-account/finish": { name: "off" },
    },
  });
}

/// Waits until the page layout is stable: no request is in progress, and two frames have passed.
export async function settled(page) {
  await page.waitForLoadState("networkidle");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/// Checks that the content fits into the current window.
export function fitting(page) {
  return page.evaluate(() => {
    const faults = [];
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) faults.push(`the page scrolls sideways: ${scrollWidth} > ${clientWidth}`);
    const name = (element) => element.id || element.textContent.trim().slice(0, 40) || element.name;
    const visible = (element) => element.checkVisibility();
    for (const element of document.querySelectorAll("a[href], button, input:not([type=hidden])")) {
      if (!visible(element) || element.classList.contains("skip")) continue;
      const { width, height, left, right } = element.getBoundingClientRect();
      if (width < 24 || height < 24) faults.push(`"${name(element)}" is small: ${width}×${height}`);
      // Menus scroll in a narrow window.
      const menu = element.closest(".menu, .sections");
      const scrolls = menu && getComputedStyle(menu).overflowX === "auto";
      if (!scrolls && (left < 0 || right > clientWidth + 0.5)) faults.push(`"${name(element)}" is outside of the window`);
    }
    const isPlain = innerWidth >= 1280 && !document.documentElement.hasAttribute("style");
    for (const menu of document.querySelectorAll(".menu, .sections")) {
      if (isPlain && menu.scrollWidth > menu.clientWidth) faults.push(`the menu does not fit: ${menu.scrollWidth} > ${menu.clientWidth}`);
    }
    for (const element of document.querySelectorAll("body *")) {
      if (visible(element) && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === "hidden") {
        faults.push(`"${name(element)}" is cut off`);
      }
    }
    // In a table with headings (mails have tables for their layout), no cell lies over the next one, and no date,
    // address or name breaks inside a word, unless the word is wider than a column may be.
    for (const cell of document.querySelectorAll("table:has(thead) :is(td, th)")) {
      if (!visible(cell) || getComputedStyle(cell).display !== "table-cell") continue;
      if (cell.scrollWidth > cell.clientWidth + 1) faults.push(`"${name(cell)}" is wider than its column: ${cell.scrollWidth} > ${cell.clientWidth}`);
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        if (!visible(texts.currentNode.parentElement)) continue;
        const line = document.createRange();
        line.selectNode(texts.currentNode);
        if (line.getClientRects().length < 2) continue;
        for (const { 0: word, index } of texts.currentNode.data.matchAll(/[^\s-]+/g)) {
          const range = document.createRange();
          range.setStart(texts.currentNode, index);
          range.setEnd(texts.currentNode, index + word.length);
          const lines = [...range.getClientRects()];
          const width = lines.reduce((sum, { width }) => sum + width, 0);
          if (new Set(lines.map(({ top }) => top)).size > 1 && width < 300) faults.push(`"${word}" breaks inside`);
        }
      }
    }
    return faults;
  });
}

/// Checks that no content is cut off or outside the window with text at 200 % (WCAG 1.4.4) and with
/// increased text spacing (1.4.12).
export async function stretched(page) {
  const set = (styles) => page.evaluate((styles) => Object.assign(document.documentElement.style, styles), styles);
  await page.setViewportSize(SIZES.wide);
  await set({ fontSize: "200%" });
  const large = await fitting(page);
  await page.setViewportSize(SIZES.narrow);
  await set({ fontSize: "", letterSpacing: "0.12em", wordSpacing: "0.16em", lineHeight: "1.5" });
  const spaced = await fitting(page);
  await page.evaluate(() => document.documentElement.removeAttribute("style"));
  return [...large.map((fault) => `text at 200 %: ${fault}`), ...spaced.map((fault) => `text spaced out: ${fault}`)];
}

/// Checks that controls have a border with forced colours, and that nothing moves with reduced
/// motion.
export async function considerate(page) {
  await page.emulateMedia({ forcedColors: "active", reducedMotion: "reduce" });
  const faults = await page.evaluate(() => {
    const faults = [];
    for (const element of document.querySelectorAll("button:not(.link), .button, input:not([type=hidden], [type=checkbox], [type=radio])")) {
      if (!element.checkVisibility()) continue;
      const { borderTopStyle, borderTopWidth } = getComputedStyle(element);
      if (borderTopStyle === "none" || parseFloat(borderTopWidth) < 1) faults.push(`forced colours: ${element.id} has no edge`);
    }
    for (const menu of document.querySelectorAll(".menu")) {
      const edge = (element) => getComputedStyle(element).borderBottomColor;
      const current = menu.querySelector("[aria-current]");
      const others = [...menu.querySelectorAll("a:not([aria-current])")];
      if (others.some((other) => edge(other) === edge(current))) faults.push("forced colours: the menu does not show the current page");
    }
    for (const element of document.querySelectorAll("*")) {
      const { animationName, transitionDuration } = getComputedStyle(element);
      if (animationName !== "none" || transitionDuration.split(",").some((time) => parseFloat(time) > 0)) {
        faults.push(`reduced motion: ${element.localName} moves`);
      }
    }
    return faults;
  });
  await page.emulateMedia({ forcedColors: null, reducedMotion: null });
  return faults;
}

/// Checks that Tab reaches every control in reading order and that the focus is visible (WCAG
/// 2.4.3, 2.4.7, 2.4.11).
export async function reachable(page) {
  // The page itself notes the focused element before each Tab, which takes half as long as to ask after each.
  const { wanted, days } = await page.evaluate(`(${watchFocus})(${inspectFocus}, ${JSON.stringify(STOPS)})`);
  const seen = async () => {
    const all = await page.evaluate((stops) => [...seenFocus, inspectFocus(stops)], STOPS);
    // A date field has a tab stop for each of its parts.
    return all.filter(({ index, isDay }, at) => !(isDay && all[at - 1]?.index === index));
  };
  for (let step = 0; step < wanted; step += 1) await page.keyboard.press("Tab");
  let stops = await seen();
  for (let part = 0; part < 4 * days && stops.length < wanted; part += 1) {
    await page.keyboard.press("Tab");
    stops = await seen();
  }
  return Array.from({ length: wanted }).flatMap((_, step) => {
    const { index, name, fault } = stops[step] ?? { index: -1, name: "nothing" };
    return [...index === step ? [] : [`Tab ${step + 1} of ${wanted} reaches ${name}, number ${index + 1}`], ...fault ? [`${name}: ${fault}`] : []];
  });
}

/// Runs in the page: notes the focused element before each Tab. Starts at the top, wherever the page has
/// set the focus. Returns the number of controls and of date fields.
function watchFocus(inspect, stops) {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
  window.inspectFocus = inspect;
  window.seenFocus = [];
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Tab" && document.activeElement !== document.body) window.seenFocus.push(inspect(stops));
  }, true);
  const controls = [...document.querySelectorAll(stops)].filter((element) => element.checkVisibility());
  return { wanted: controls.length, days: controls.filter(({ type }) => type === "date").length };
}

/// Returns the focused element, its index in the document, and an error if the focus is not
/// visible.
export function focus(page) {
  return page.evaluate(inspectFocus, STOPS);
}

function inspectFocus(stops) {
  const element = document.activeElement;
  const index = [...document.querySelectorAll(stops)].filter((one) => one.checkVisibility()).indexOf(element);
  const name = element.id || element.textContent.trim().slice(0, 40) || element.localName;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const { top, bottom, left, right } = element.getBoundingClientRect();
  let fault = null;
  if (outlineStyle === "none" || parseFloat(outlineWidth) < 2) fault = `the focus does not show: ${outlineStyle} ${outlineWidth}`;
  else if (bottom <= 0 || top >= innerHeight || right <= 0 || left >= innerWidth) fault = "the focus is outside of the window";
  else {
    const top_most = document.elementFromPoint((Math.max(left, 0) + Math.min(right, innerWidth)) / 2, (Math.max(top, 0) + Math.min(bottom, innerHeight)) / 2);
    if (top_most && !element.contains(top_most) && !top_most.contains(element)) fault = "something lies over the focus";
  }
  return { index, name, fault, isDay: element.type === "date" };
}
