// User tasks from the first page to the last, with the keyboard only: Tab, Enter and Space, no
// clicks. Each runs with and without scripts. `enter` opens a new browser.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import * as acorn from "acorn";
import * as oidc from "openid-client";
import { STOPS, focus } from "./checks.mjs";
import { codeIn, linkIn, mailTo, read } from "./mails.mjs";
import {
  APP, AWAY, BRIEF, CALLBACK, CLIENT_SITE, EARLIER, ISSUER, MOVED, PASSWORD, SECURITY_KEY, STRANGER, TURKISH, appOf, authenticator, authorize, cookiesOf,
  earlyTotp, first, forgetful, fourth, leave, second, totp, walker, whileServing,
} from "./world.mjs";

/// Presses Tab until this element has the focus, and checks that the focus is visible.
export async function reach(page, selector) {
  await page.waitForSelector(selector);
  // Ask for the focus only at the element: asking at each stop takes twice as long.
  const before = await page.evaluate(({ selector, stops }) => {
    const all = [...document.querySelectorAll(stops)].filter((element) => element.checkVisibility());
    return all.findIndex((element) => element.matches(selector)) - all.indexOf(document.activeElement) - 1;
  }, { selector, stops: STOPS });
  for (let step = 0; step < before; step += 1) await page.keyboard.press("Tab");
  for (let step = 0; step < 100; step += 1) {
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) {
      const { name, fault } = await focus(page);
      assert.equal(fault, null, `${name}: ${fault}`);
      return;
    }
    await page.keyboard.press("Tab");
  }
  assert.fail(`Tab never reaches ${selector}`);
}

/// Checks that the page itself sets the focus here once it is painted.
export async function awaits(page, selector) {
  const there = () => page.evaluate((selector) => document.activeElement.matches(selector), selector);
  for (let time = 0; time < 50 && !(await there()); time += 1) await page.waitForTimeout(100);
  assert.ok(await there(), `the focus does not wait at ${selector}`);
}

/// Presses a key on this element. Marks the document, so that `done` can tell the next page from
/// this one.
export async function press(page, selector, key = "Enter") {
  await reach(page, selector);
  await page.evaluate(() => document.documentElement.setAttribute("data-pressed", ""));
  await page.keyboard.press(key);
}

/// Waits until the page after the pressed key reports success. The page before it may show an
/// earlier report.
export async function done(page) {
  await page.waitForSelector("html:not([data-pressed]) [role=status].done");
}

export async function type(page, selector, text) {
  await reach(page, selector);
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(text);
}

export async function signInByKeys(page, email, password = PASSWORD) {
  await type(page, "#email", email);
  await type(page, "#password", password);
  await page.keyboard.press("Enter");
}

/// Waits for the authorization response and returns the query of the redirect URI.
async function answer(page) {
  await page.waitForURL(`${CALLBACK}?**`);
  const query = new URL(page.url()).searchParams;
  assert.equal(query.get("state"), "kept");
  assert.equal(query.get("iss"), ISSUER);
  return query;
}

/// Runs the console's unmodified code example for openid-client. `send` opens an address in the
/// browser and returns the redirect URI with the response.
async function runSnippet(text, secret, send) {
  const [begin, end] = text.replace(/^import .*$/m, "").split(/^\/\/ .*$/m);
  const Program = (async () => {}).constructor;
  const program = new Program("oidc", "process", "send", `${begin}const request = { url: await send(address.href) };${end}return tokens;`);
  return program(oidc, { env: { CLIENT_SECRET: secret } }, send);
}

/// Runs the console's unmodified shell example. `send` opens an address in the browser and returns
/// the code.
async function runShell(text, secret, send) {
  const shell = spawn("bash", ["-euc", text], { env: { ...process.env, CLIENT_SECRET: secret }, stdio: ["pipe", "pipe", "inherit"] });
  let said = "";
  shell.stdout.setEncoding("utf8").on("data", (more) => { said += more; });
  const ended = once(shell, "close");
  await once(shell.stdout, "data");
  const address = said.trim();
  shell.stdin.end(`${await send(address)}\n`);
  await ended;
  return JSON.parse(said.slice(said.indexOf("\n")));
}

const SECURITY = `${ISSUER}/account/security`;

/// Signs in on the way to an account page.
async function enterAccount(page, email, address) {
  await page.goto(address);
  await signInByKeys(page, email);
  await page.waitForURL(address);
}

/// Waits until a factor was added, and returns to the page "Security". The page that makes recovery
/// codes comes first if the user has none.
async function added(page) {
  await done(page);
  if (await page.$("#codes-later")) await press(page, "#codes-later");
  await page.waitForSelector(".factor");
}

/// Adds an authenticator app on the page "Security". Uses the code of the previous time step, so
/// that two more steps remain for sign-ins.
async function addApp(page, name = "") {
  await page.goto(SECURITY);
  await press(page, "#add-totp");
  const secret = await page.textContent("#totp-secret");
  if (name) await type(page, "#name", name);
  // Enter the code last, because its time step may end before a slow machine sends it.
  await type(page, "#code", await earlyTotp(secret));
  await press(page, "#totp-confirm");
  await added(page);
  return secret;
}

/// Adds a passkey or a security key on the page "Security".
async function addKey(page, button, name = "") {
  await page.goto(SECURITY);
  await press(page, "#add-key");
  if (name) await type(page, "#name", name);
  await press(page, button);
  await added(page);
}

/// Returns the name of the message that the page shows once the browser has answered.
async function saysOfKey(page) {
  await page.waitForFunction(() => {
    const { textContent, dataset } = document.getElementById("ceremony");
    return textContent && textContent !== dataset.waiting;
  });
  const { text, words } = await page.evaluate(() => {
    const { textContent, dataset } = document.getElementById("ceremony");
    return { text: textContent, words: { ...dataset } };
  });
  return Object.keys(words).find((word) => words[word] === text);
}

/// Presses a button while the key is not touched, so that the page waits, and again with the key
/// touched. Chromium's virtual authenticator reads this setting only when a request arrives.
async function pressUntouched(page, key, selector) {
  await press(page, selector, "Space");
  await page.waitForFunction(() => {
    const { textContent, dataset } = document.getElementById("ceremony");
    return textContent === dataset.waiting;
  });
  await key.touches(true);
  await press(page, selector);
}

const factorNames = (page) => page.locator(".factor .name bdi").allTextContents();

const heading = (page) => page.textContent("h1");

/// Invites a user in the console as the lane's first user, and waits for the page of the invited user.
async function invite(page, lane, issuer, email, name, app = "") {
  const form = `${issuer}/console/users/new`;
  await page.goto(form);
  if (await page.$("#login-submit")) await signInByKeys(page, first(lane));
  await page.waitForURL(form);
  await type(page, "#email", email);
  await type(page, "#name", name);
  if (app) {
    await reach(page, "#app");
    for (let step = 0; step < 5 && await page.inputValue("#app") !== app; step += 1) await page.keyboard.press("ArrowDown");
    assert.equal(await page.inputValue("#app"), app);
  }
  await press(page, "#user-invite");
  await done(page);
}

const stateOfInvitation = (page) => page.textContent("#invitation-state");

/// Checks the invitation message and returns its link.
async function readInvitation(enter, issuer, to, language, name) {
  const title = { en: "You have been invited", tr: "Davet edildiniz" }[language];
  const mail = await mailTo(to, title);
  assert.ok(mail.text.includes("Gülşah İpek Karaosmanoğlu"), mail.text);
  const link = await read(enter, mail, { to, language, title, name, issuer });
  assert.match(link, /\/oauth\/invitation\?token=[\w-]+$/);
  return link;
}

/// Waits until the page has this address, even if earlier navigations were aborted.
async function expectAddress(page, address) {
  const end = Date.now() + 20_000;
  while (page.url() !== address) {
    assert.ok(Date.now() < end, `the page is ${page.url()}`);
    await new Promise((done) => setTimeout(done, 50));
  }
  await page.waitForLoadState();
}

const NO_INVITATION = { en: "This invitation no longer works", tr: "Bu davet artık geçerli değil" };

/// Returns the walks of a lane, which has its own users.
export const walksOf = (lane) => [
  {
    name: "sign in, allow, and come back",
    async go(enter) {
      const { page } = await enter();
      await page.goto(authorize({ prompt: "consent" }));
      // The first field has the focus.
      await awaits(page, "#email");
      await signInByKeys(page, first(lane));
      await press(page, "#consent-allow");
      assert.ok((await answer(page)).get("code"));
    },
  },
  {
    name: "stay signed in after the browser is closed",
    async go(enter, { words }) {
      for (const keeps of [false, true]) {
        const { page, context } = await enter();
        await page.goto(authorize({ prompt: "consent" }));
        await page.waitForSelector("#keep");
        assert.equal(await page.isChecked("#keep"), false);
        if (keeps) await press(page, "#keep", "Space");
        await signInByKeys(page, first(lane));
        await page.waitForSelector("#consent-allow");
        // A browser that is closed keeps only cookies with an end.
        const state = await context.storageState();
        state.cookies = state.cookies.filter(({ expires }) => expires > 0);
        const { page: again } = await enter({ cookies: state });
        await again.goto(`${ISSUER}/account/sessions`);
        await again.waitForSelector(keeps ? "button[name=end]" : "#login-submit");
        if (!keeps) continue;
        const until = words({ en: "Stays signed in until", tr: "Oturumun sona ereceği tarih" });
        assert.match(await again.textContent("table"), new RegExp(until));
        // The application opens without a question too.
        await again.goto(`${APP}/`);
        await again.waitForURL(`${APP}/`);
        assert.equal(await again.locator("#login-submit").count(), 0);
      }
    },
  },
  {
    name: "come back in three requests from the first page where consent is remembered",
    async go(enter, { browser }) {
      // Consent once, in another browser.
      await cookiesOf(browser, lane, [first]);
      const { page, journal } = await enter();
      await page.goto(authorize());
      await page.waitForSelector("#login-submit");
      journal.documents.length = 0;
      await signInByKeys(page, first(lane));
      await answer(page);
      const requests = ["POST /oauth/login", "GET /oauth/resume", "GET client /callback"];
      assert.deepEqual(journal.documents, requests);
    },
  },
  {
    name: "come back in a form that sends itself",
    async go(enter, { scripts }) {
      const { page } = await enter();
      const sent = page.waitForRequest((request) => request.url() === CALLBACK && request.method() === "POST");
      // If the walk fails earlier, report that failure instead.
      sent.catch(() => {});
      await page.goto(authorize({ prompt: "consent", response_mode: "form_post" }));
      await signInByKeys(page, first(lane));
      await press(page, "#consent-allow");
      // Without scripts the page has a button.
      if (!scripts) await press(page, "#return-submit");
      const fields = new URLSearchParams((await sent).postData());
      assert.ok(fields.get("code"));
      assert.deepEqual([fields.get("state"), fields.get("iss")], ["kept", ISSUER]);
      // HtmlUnit and embedded browsers support ES5 only.
      const script = await (await fetch(`${ISSUER}/oauth/return.js`)).text();
      assert.equal(acorn.parse(script, { ecmaVersion: 5, sourceType: "script" }).type, "Program");
      // The address contains no response parameters, and the client's page is shown.
      await page.waitForURL(CALLBACK);
      assert.equal(await heading(page), "Client");
    },
  },
  {
    name: "go on with a sign-in page that was left open past its time",
    async go(enter) {
      const { page } = await enter();
      const shown = () => page.getAttribute("form", "action");
      await page.goto(authorize({ prompt: "consent" }).replace(ISSUER, BRIEF));
      await type(page, "#email", first(lane));
      await type(page, "#password", PASSWORD);
      const old = await shown();
      // Sign-ins of this provider expire after five seconds.
      await page.waitForTimeout(6000);
      await page.keyboard.press("Enter");
      await page.waitForSelector("#consent-allow");
      assert.notEqual(await shown(), old);
      await press(page, "#consent-allow");
      await page.waitForURL(`${CALLBACK}?**`);
      const query = new URL(page.url()).searchParams;
      assert.ok(query.get("code"));
      assert.deepEqual([query.get("state"), query.get("iss")], ["kept", BRIEF]);
    },
  },
  {
    name: "come back to a sign-in page on which nobody typed",
    async go(enter, { scripts }) {
      if (!scripts) return;
      const { page } = await enter();
      await page.goto(authorize().replace(ISSUER, BRIEF));
      const old = await page.getAttribute("form", "action");
      // The request for a passkey expires with the sign-in, so the page reloads: here after five
      // seconds.
      await page.waitForFunction((old) => {
        const form = document.querySelector("form");
        return form && form.getAttribute("action") !== old;
      }, old);
      // The page does not reload once the user types.
      await type(page, "#email", first(lane));
      const typed = await page.getAttribute("form", "action");
      await page.waitForTimeout(6000);
      assert.equal(await page.getAttribute("form", "action"), typed);
      assert.equal(await page.inputValue("#email"), first(lane));
    },
  },
  {
    name: "put a wrong password right",
    async go(enter, { words }) {
      const { page } = await enter();
      await page.goto(authorize({ prompt: "consent" }));
      await signInByKeys(page, second(lane), "wrong");
      await page.waitForSelector("#login-problem");
      assert.match(await page.title(), words({ en: /^Error: /, tr: /^Hata: / }));
      // The page keeps the address, clears the password, and sets the focus to the password.
      assert.equal(await page.inputValue("#email"), second(lane));
      assert.equal(await page.inputValue("#password"), "");
      await awaits(page, "#password");
      assert.equal(await page.getAttribute("#password", "aria-describedby"), "login-problem");
      await type(page, "#password", PASSWORD);
      await press(page, "#login-submit", "Space");
      await page.waitForSelector("#consent-allow");
    },
  },
  {
    name: "see the password while it is typed",
    async go(enter, { scripts }) {
      const { page } = await enter();
      await page.goto(authorize());
      const button = page.locator("button[data-reveals]");
      // The button needs scripts, so it is hidden without them.
      assert.equal(await button.isVisible(), scripts);
      if (!scripts) return;
      await type(page, "#password", "seen");
      await press(page, "button[data-reveals]", "Space");
      assert.equal(await page.getAttribute("#password", "type"), "text");
      assert.equal(await button.getAttribute("aria-pressed"), "true");
      await press(page, "button[data-reveals]", "Enter");
      assert.equal(await page.getAttribute("#password", "type"), "password");
      // The page reports Caps Lock, and the button does not move away from the pointer.
      await page.fill("#email", `nobody.${crypto.randomUUID()}@example.test`);
      await page.focus("#password");
      await page.evaluate(() => {
        const pressed = new KeyboardEvent("keydown", { key: "A", modifierCapsLock: true, bubbles: true });
        document.getElementById("password").dispatchEvent(pressed);
      });
      assert.equal(await page.textContent("[data-caps-of=password]"), "Caps Lock is on.");
      const { x, y, width, height } = await page.locator("#login-submit").boundingBox();
      await page.mouse.move(x + width / 2, y + height - 4);
      await leave(page, async () => { await page.mouse.down(); await page.mouse.up(); });
      await page.waitForSelector("#login-problem");
    },
  },
  {
    name: "deny",
    async go(enter, { browser }) {
      const { page } = await enter({ cookies: await cookiesOf(browser, lane, [first]) });
      await page.goto(authorize({ prompt: "consent" }));
      await press(page, "#consent-deny", "Space");
      const query = await answer(page);
      assert.equal(query.get("error"), "access_denied");
      assert.equal(query.get("code"), null);
    },
  },
  {
    name: "allow without access while away",
    async go(enter, { browser }) {
      const { page } = await enter({ cookies: await cookiesOf(browser, lane, [second]) });
      await page.goto(authorize({ prompt: "consent" }));
      await press(page, "#offline_access", "Space");
      assert.equal(await page.isChecked("#offline_access"), false);
      await press(page, "#consent-allow");
      await answer(page);
      // The scope that the user did not grant was not remembered. The page asks for it again, but
      // not for the others.
      await page.goto(authorize());
      await page.waitForSelector("#offline_access");
      await page.goto(authorize({ scope: "openid profile email phone" }));
      await answer(page);
    },
  },
  {
    name: "choose an account",
    async go(enter, { browser }) {
      const { page } = await enter({ cookies: await cookiesOf(browser, lane, [second, first]) });
      await page.goto(authorize({ prompt: "select_account consent" }));
      const number = (await page.locator(".account").allTextContents()).findIndex((text) => text.includes(second(lane)));
      assert.ok(number >= 0);
      await press(page, `#account-${number + 1}`);
      await page.waitForSelector("#consent-allow");
      assert.match(await page.textContent(".lead"), new RegExp(second(lane)));
      await page.goto(authorize({ prompt: "select_account" }));
      await press(page, "#account-other", "Space");
      await page.waitForSelector("#login-submit");
    },
  },
  {
    name: "type the password again when the client asks for it",
    async go(enter, { browser }) {
      const { page } = await enter({ cookies: await cookiesOf(browser, lane, [first]) });
      for (const wish of [{ prompt: "login" }, { max_age: "0" }]) {
        await page.goto(authorize(wish));
        await signInByKeys(page, first(lane));
        assert.ok((await answer(page)).get("code"));
      }
      await page.goto(authorize({ max_age: "3600" }));
      assert.ok((await answer(page)).get("code"));
    },
  },
  {
    name: "sign out",
    async go(enter, { browser, words }) {
      const { page } = await enter({ cookies: await cookiesOf(browser, lane, [first]) });
      const back = new URLSearchParams({ client_id: "reports", post_logout_redirect_uri: `${CLIENT_SITE}/` });
      await page.goto(`${ISSUER}/oauth/logout?${back}`);
      await press(page, "#logout-confirm");
      await page.waitForURL(`${CLIENT_SITE}/`);
      await page.goto(authorize());
      await page.waitForSelector("#login-submit");
      await page.goto(`${ISSUER}/oauth/logout`);
      assert.equal(await heading(page), words({ en: "You are signed out", tr: "Oturumunuz kapatıldı" }));
    },
  },
  {
    name: "go on after signing out",
    async go(enter, { browser }) {
      const { page } = await enter({ cookies: await cookiesOf(browser, lane, [first]) });
      await page.goto(`${ISSUER}/oauth/logout`);
      await press(page, "#logout-stay");
      await page.waitForURL(`${ISSUER}/account`);
      await page.goto(`${ISSUER}/oauth/logout`);
      await press(page, "#logout-confirm");
      await press(page, "#sign-in");
      await signInByKeys(page, first(lane));
      await page.waitForURL(`${ISSUER}/account`);
    },
  },
  {
    name: "go Back after signing out at an application",
    async go(enter) {
      const { page } = await enter();
      // A page that the browser may cache.
      const report = `${APP}/kept/report`;
      await page.goto(report);
      await signInByKeys(page, first(lane));
      await page.waitForURL(report);
      await page.goto(`${APP}/.sealgate/logout`);
      await press(page, "#logout-confirm");
      await page.waitForSelector("#sign-in");
      await page.goBack();
      await page.goBack();
      await page.waitForSelector("#login-submit");
    },
  },
  {
    name: "stay signed in while the browser looks ahead, and sign out by the link",
    async go(enter, { scripts }) {
      if (!scripts) return;
      const { page, context, journal } = await enter();
      const link = `${APP}/.sealgate/logout`;
      await page.goto(`${APP}/report`);
      await signInByKeys(page, first(lane));
      await page.waitForURL(`${APP}/report`);
      // Request the link as an image, as a frame, and as a prefetch with speculation rules.
      await page.evaluate((link) => new Promise((done) => {
        const image = new Image();
        image.onerror = done;
        image.src = link;
      }), link);
      await page.evaluate((link) => new Promise((done) => {
        const frame = document.createElement("iframe");
        frame.onload = done;
        frame.src = link;
        document.body.append(frame);
      }), link);
      // The browser reports that the page must not be framed.
      journal.complaints = journal.complaints.filter((complaint) => !/frame-ancestors|X-Frame-Options|Refused to (display|frame)/i.test(complaint));
      const cdp = await context.newCDPSession(page);
      await cdp.send("Preload.enable");
      const ended = new Promise((done) => {
        cdp.on("Preload.prefetchStatusUpdated", ({ status }) => ["Failure", "Ready", "Success"].includes(status) && done(status));
      });
      await page.evaluate((link) => {
        const rules = document.createElement("script");
        rules.type = "speculationrules";
        rules.textContent = JSON.stringify({ prefetch: [{ urls: [link], eagerness: "immediate" }] });
        document.head.append(rules);
      }, link);
      assert.equal(await ended, "Failure", "the browser discards what it was refused");
      assert.equal(await page.evaluate(async () => (await fetch("/json")).status), 200, "the session stands");
      await page.evaluate((link) => { document.body.innerHTML = `<a id="out" href="${link}">Sign out</a>`; }, link);
      await page.click("#out");
      await page.waitForSelector("#logout-confirm");
      assert.ok(!(await context.cookies(APP)).some(({ name, domain }) => name === "sealgate" && domain === new URL(APP).hostname));
    },
  },
  {
    name: "come to the part of the page that was wanted, behind a wrong password too",
    async go(enter, { scripts }) {
      if (!scripts) return;
      const { page } = await enter();
      await page.goto(`${APP}/report#figures`);
      await signInByKeys(page, first(lane), "falsch");
      await page.waitForSelector("#login-problem");
      await signInByKeys(page, first(lane));
      await page.waitForURL(`${APP}/report#figures`);
    },
  },
  {
    name: "keep the part of the page on the account chooser and the consent page",
    async go(enter, { scripts }) {
      if (!scripts) return;
      const { page } = await enter();
      await page.goto(`${APP}/report`);
      await signInByKeys(page, first(lane));
      await expectAddress(page, `${APP}/report`);
      await page.goto(`${APP}/.sealgate/switch-account?then=%2Freport#figures`);
      await press(page, "#account-1");
      await expectAddress(page, `${APP}/report#figures`);
      await page.goto(`${authorize({ prompt: "consent" })}#figures`);
      await press(page, "#consent-allow");
      await page.waitForURL((url) => url.href.startsWith(CLIENT_SITE) && url.hash === "#figures");
    },
  },
  {
    name: "come to the page that was wanted after a double click",
    async go(enter) {
      const { page } = await enter();
      await page.goto(`${APP}/report`);
      await type(page, "#email", first(lane));
      await type(page, "#password", PASSWORD);
      await page.dblclick("#login-submit");
      // The second click aborts the first navigation, which ends `waitForURL` with an error.
      await expectAddress(page, `${APP}/report`);
    },
  },
  {
    name: "go Back after signing in",
    async go(enter) {
      const { page } = await enter();
      await page.goto(`${APP}/report`);
      await signInByKeys(page, first(lane));
      await page.waitForURL(`${APP}/report`);
      await page.goBack();
      await expectAddress(page, `${APP}/report`);
      assert.match(await page.textContent("body"), new RegExp(first(lane)));
    },
  },
  {
    name: "send a sign-in page whose request has given way to others",
    async go(enter, { words }) {
      const { page, context } = await enter();
      await page.goto(authorize());
      await page.waitForSelector("#login-submit");
      for (let tab = 0; tab < 8; tab += 1) {
        const other = await context.newPage();
        await other.goto(authorize());
        await other.close();
      }
      await signInByKeys(page, first(lane));
      await page.waitForSelector(".reference");
      assert.equal(await heading(page), words({ en: "Start from the application", tr: "Uygulamadan başlayın" }));
      await press(page, "#way");
      await page.waitForURL(`${CLIENT_SITE}/`);
    },
  },
  {
    name: "find the way on from pages that go wrong",
    async go(enter) {
      const { page } = await enter();
      for (const [address, end] of [
        [authorize({ client_id: "stranger" }), `${ISSUER}/oauth/login?**`],
        [authorize({ redirect_uri: "https://evil.example/" }), `${CLIENT_SITE}/`],
        [`${ISSUER}/oauth/nothing`, `${ISSUER}/oauth/login?**`],
        [`${ISSUER}/oauth/reset?token=x`, `${ISSUER}/oauth/login?**`],
        [`${ISSUER}/oauth/token`, `${ISSUER}/oauth/login?**`],
        [`${APP}/.sealgate/nothing`, `${ISSUER}/oauth/login?**`],
        [`${AWAY}/`, `${AWAY}/`],
        [`${STRANGER}/`, `${ISSUER}/oauth/login?**`],
      ]) {
        await page.goto(address);
        await leave(page, () => press(page, "#way"));
        await page.waitForURL(end);
      }
    },
  },
  {
    name: "change the language",
    async go(enter) {
      const { page } = await enter({ language: "en" });
      await page.goto(authorize());
      assert.equal(await heading(page), "Sign in");
      await press(page, ".languages a[lang=tr]");
      await page.waitForSelector("html[lang=tr]");
      assert.equal(await heading(page), "Oturum açın");
      // The language is remembered, and the sign-in continues.
      await page.reload();
      assert.equal(await page.getAttribute("html", "lang"), "tr");
      await page.waitForSelector("#login-submit");
      await page.goto(`${ISSUER}/nowhere`);
      assert.equal(await heading(page), "Sayfa bulunamadı");
      // The client's `ui_locales` take precedence.
      await page.goto(authorize({ ui_locales: "en" }));
      assert.equal(await heading(page), "Sign in");
    },
  },
  {
    name: "go through the gate, and change the account where it does not let one in",
    async go(enter, { words }) {
      const { page } = await enter();
      await page.goto(`${APP}/report?month=11`);
      await signInByKeys(page, first(lane));
      await page.waitForURL(`${APP}/report?month=11`);
      assert.match(await page.textContent("body"), new RegExp(first(lane)));
      await page.goto(`${APP}/staff/`);
      assert.equal(await heading(page), words({ en: "You do not have access", tr: "Erişim yetkiniz yok" }));
      await press(page, "a.button");
      await page.waitForSelector("#login-submit, .account");
    },
  },
  {
    name: "keep the profile up to date",
    async go(enter) {
      const { page } = await enter();
      await page.goto(`${ISSUER}/account`);
      await signInByKeys(page, first(lane));
      await page.waitForURL(`${ISSUER}/account`);
      await type(page, "#phone_number", "12");
      await press(page, "#profile-save");
      await page.waitForSelector("#phone-wrong");
      await awaits(page, "#phone_number");
      await type(page, "#phone_number", "+90 555 111 22 44");
      await press(page, "#profile-save");
      await done(page);
      // The result has the focus, so that a screen reader reads it first.
      await awaits(page, ".done");
      assert.equal(await page.inputValue("#phone_number"), "+90 555 111 22 44");
    },
  },
  {
    name: "change the password",
    async go(enter) {
      const { page } = await enter();
      await page.goto(`${ISSUER}/account/password`);
      await signInByKeys(page, second(lane));
      await page.waitForSelector("#current");
      for (const [from, to] of [[PASSWORD, "bambaşka bir parola"], ["bambaşka bir parola", PASSWORD]]) {
        await page.goto(`${ISSUER}/account/password`);
        await type(page, "#current", from);
        await type(page, "#new", to);
        await type(page, "#again", to);
        await press(page, "#password-submit");
        await done(page);
      }
    },
  },
  {
    name: "end accesses of every kind and withdraw one of a client",
    async go(enter, { browser }) {
      await cookiesOf(browser, lane, [first]);
      const { page } = await enter({ cookies: await cookiesOf(browser, lane, [first]) });
      await page.goto(`${ISSUER}/account/sessions`);
      // A browser's own row is the first one. The next browser is ended by its button.
      const rows = (kind) => `#accesses button[value^="${kind}:"]`;
      const before = await page.locator(rows("session")).count();
      await press(page, "#accesses tbody tr:not(:first-child) button[value^='session:']");
      await done(page);
      assert.equal(await page.locator(rows("session")).count(), before - 1);
      // An open application, an application password and sign-in data are ended from the same table.
      await page.goto(`${APP}/`);
      await page.goto(`${ISSUER}/account/app-passwords`);
      await type(page, "#name", "Takvim");
      await press(page, "#app-password-make");
      await page.waitForSelector("#new-app-password");
      await page.goto(`${ISSUER}/account/app-logins?app=notes`);
      await type(page, "#app_username", "gulsah");
      await type(page, "#app_password", "parola");
      await press(page, "#app-login-save");
      await page.waitForSelector("#app-login-open");
      for (const kind of ["app_session", "app_password", "app_login"]) {
        await page.goto(`${ISSUER}/account/sessions`);
        const shown = await page.locator(rows(kind)).count();
        assert.ok(shown > 0, kind);
        await press(page, rows(kind));
        await done(page);
        await awaits(page, ".done");
        assert.equal(await page.locator(rows(kind)).count(), shown - 1, kind);
      }
      await press(page, "#sessions-end-others", "Space");
      await done(page);
      await page.goto(`${ISSUER}/account/applications`);
      await press(page, "button[name=client][value=reports]");
      await done(page);
      await page.goto(authorize());
      await page.waitForSelector("#consent-allow");
      await page.goto(`${ISSUER}/account`);
      await page.keyboard.press("Tab");
      await awaits(page, ".skip");
      await page.keyboard.press("Enter");
      await awaits(page, "#content");
    },
  },
  {
    name: "register a client and see its secret once",
    async go(enter) {
      const { page } = await enter();
      await page.goto(`${ISSUER}/console/clients`);
      await signInByKeys(page, first(lane));
      await press(page, "#client-new");
      // The page shows the error at its field and keeps the entered values.
      await type(page, "#name", "Danışma Masası");
      await type(page, "#redirect_uris", "https://*.example.test/");
      await press(page, "#client-register");
      await page.waitForSelector("[role=alert]");
      await awaits(page, "#redirect_uris");
      assert.equal(await page.inputValue("#name"), "Danışma Masası");
      await type(page, "#redirect_uris", CALLBACK);
      await press(page, "#client-register", "Space");
      await page.waitForSelector("#new-secret");
      assert.match(await page.textContent("#new-secret"), /^[\w-]{32,}$/);
      const [client, secret] = [await page.textContent("#client-id"), await page.textContent("#new-secret")];
      // The unmodified code example works.
      await press(page, ".sections a[href$='/connect']");
      const snippet = await page.textContent("#snippet-openidclient");
      await press(page, "#libraries a[href*='library=curl']");
      await page.waitForSelector("#snippet-curl");
      const script = await page.textContent("#snippet-curl");
      const tokens = await runSnippet(snippet, secret, async (address) => {
        await page.goto(address);
        await press(page, "#consent-allow");
        await page.waitForURL(`${CALLBACK}?**`);
        return page.url();
      });
      assert.equal(tokens.claims().email, first(lane));
      const shell = await runShell(script, secret, async (address) => {
        await page.goto(address);
        await page.waitForURL(`${CALLBACK}?**`);
        return new URL(page.url()).searchParams.get("code");
      });
      assert.equal(shell.token_type, "Bearer");
      // The client still works, and the page no longer shows the secret.
      await page.goto(`${ISSUER}/console/clients/${client}`);
      await page.waitForSelector("#client-save");
      assert.equal(await page.locator("#new-secret").count(), 0);
      await page.goto(authorize({}, client).replaceAll("+phone+offline_access", ""));
      assert.ok((await answer(page)).get("code"));
      await page.goto(`${ISSUER}/console/clients/${client}/danger`);
      await press(page, "#client-delete");
      await press(page, "#confirm");
      await page.waitForURL(`${ISSUER}/console/clients?**`);
      await done(page);
      assert.equal(await page.locator(`a[href$="/${client}"]`).count(), 0);
    },
  },
  {
    name: "put redirect URIs right while they are typed",
    async go(enter, { scripts }) {
      const { page } = await enter({ timezoneId: "Europe/Istanbul" });
      await page.goto(`${ISSUER}/console/clients/new`);
      await signInByKeys(page, first(lane));
      await type(page, "#name", "Danışma Masası");
      const told = () => page.textContent("#redirect-wrong");
      for (const wrong of ["https://*.example.test/", "callback", "http://example.test/", "https://example.test/#x",
        "https://someone@example.test/", "https://example.test/ş", "https://exa$mple.test/", `https://example.test/${"x".repeat(2000)}`]) {
        await type(page, "#redirect_uris", `${CALLBACK}\n${wrong}`);
        // The script reports the same error as the server once the user pauses.
        if (scripts) await page.waitForFunction(() => document.getElementById("redirect-wrong").textContent.includes("2"));
        const typed = await told();
        await leave(page, () => press(page, "#client-register"));
        await page.waitForSelector("[role=alert]");
        assert.match(await told(), /2/, wrong);
        if (scripts) assert.equal(await told(), typed, wrong);
        assert.equal(await page.getAttribute("#redirect_uris", "aria-invalid"), "true");
      }
      await type(page, "#redirect_uris", CALLBACK);
      assert.equal(await told() === "", scripts);
      await press(page, "#client-register");
      await page.waitForSelector("#new-secret");
      const [client, old] = [await page.textContent("#client-id"), await page.textContent("#new-secret")];
      // Deletion asks for confirmation.
      await press(page, ".sections a[href$='/danger']");
      await press(page, "#client-delete");
      await press(page, "#confirm-cancel");
      await page.waitForURL("**/danger");
      // Add a second secret while the first one stays valid.
      await press(page, ".sections a[href$='/secrets']");
      await press(page, "#client-rotate");
      await press(page, "#confirm");
      await page.waitForSelector("#new-secret");
      assert.notEqual(await page.textContent("#new-secret"), old);
      await press(page, ".sections a[href$='/danger']");
      await press(page, "#client-disable", "Space");
      await press(page, "#confirm", "Space");
      await page.waitForSelector("#client-enable");
      await page.goto(authorize({}, client));
      await page.waitForSelector(".reference");
      await page.goto(`${ISSUER}/console/clients/${client}/danger`);
      await press(page, "#client-enable");
      await press(page, "#confirm");
      await page.waitForSelector("#client-disable");
      // Try the client in the console.
      await press(page, "a[href*='/console/try/']");
      await press(page, "#client-test-on");
      await press(page, "#client-test-start", "Space");
      await press(page, "#consent-allow");
      await done(page);
      assert.match(await page.textContent("pre"), new RegExp(first(lane)));
      // The audit log contains all these actions, with the name of the user.
      await page.goto(`${ISSUER}/console/clients/${client}`);
      await press(page, "a[href*='/console/audit?client=']");
      await page.waitForSelector(".event");
      const events = () => page.locator(".event").count();
      // The events are: registration, new secret, disabled, enabled, test sign-in on, consent. They
      // appear within two seconds.
      const all = 6;
      for (let time = 0; time < 20 && await events() < all; time += 1) {
        await page.waitForTimeout(250);
        await page.reload();
      }
      assert.equal(await events(), all);
      assert.match(await page.textContent(".event"), new RegExp(first(lane)));
      const today = new Date().toISOString().slice(0, 10);
      const from = new URL(page.url());
      from.searchParams.set("from", "2001-01-01");
      from.searchParams.set("to", "2001-01-02");
      await page.goto(from.href);
      assert.equal(await events(), 0);
      await page.goto(`${ISSUER}/console/audit?client=${client}&from=${today}&to=${today}`);
      assert.equal(await events(), all);
      // The filter uses days of the user's time zone with scripts, and UTC without them.
      await press(page, "#audit-show");
      await page.waitForURL(/zone=/);
      assert.equal(new URL(page.url()).searchParams.get("zone"), scripts ? "-180" : "0");
    },
  },
  {
    name: "find out why a user is refused",
    async go(enter) {
      const refused = await enter();
      await refused.page.goto(`${APP}/staff/`);
      await signInByKeys(refused.page, second(lane));
      await refused.page.waitForURL(`${APP}/staff/`);
      const { page } = await enter();
      await page.goto(`${ISSUER}/console/apps/legacy/refusals`);
      await signInByKeys(page, first(lane));
      await page.waitForSelector("#app-refusals");
      const refusals = page.locator("#app-refusals tbody tr", { hasText: second(lane) });
      assert.match(await refusals.first().textContent(), /GET \/staff\/[^]*group/);
      await page.goto(`${ISSUER}/console/apps/legacy`);
      await type(page, "#url", `${APP}/staff/`);
      // Find the user by a part of the address, and choose from the list.
      await type(page, "#user", second(lane).split("@")[0]);
      await press(page, "#check-find");
      await page.waitForSelector("#check-found");
      await press(page, `#check-found button[value='${second(lane)}']`);
      await page.waitForSelector("#check-found", { state: "detached" });
      assert.equal(await page.inputValue("#user"), second(lane));
      await press(page, "#check-submit");
      await page.waitForSelector("#check-decision");
      await awaits(page, "#check-decision");
      assert.match(await page.textContent("#check-outcome"), /HTTP 403[^]*group/);
      assert.match(await page.textContent("#check-rule"), /\/staff\/ signed_in, groups staff/);
      // The rule of the whole application admits the same user.
      await type(page, "#url", `${APP}/`);
      await press(page, "#check-submit", "Space");
      await page.waitForSelector("#check-headers");
      assert.match(await page.textContent("#check-headers"), new RegExp(second(lane)));
    },
  },
  {
    name: "change a setting in the file and reload it",
    async go(enter, { words }) {
      const issuer = words({ en: ISSUER, tr: TURKISH });
      const file = words({ en: process.env.ISSUER_FILE, tr: process.env.TURKISH_FILE });
      const { page } = await enter();
      await page.goto(`${issuer}/console/settings`);
      await signInByKeys(page, first(lane));
      await page.waitForSelector("#file-same");
      const shown = async () => {
        await page.goto(`${issuer}/console/settings?section=rate_limits`);
        return page.locator("li.row", { hasText: "rate_limits.api" }).first().textContent();
      };
      assert.doesNotMatch(await shown(), /4321/);
      await writeFile(file, `${await readFile(file, "utf8")}[rate_limits]\napi = 4321\n`);
      await page.goto(`${issuer}/console/settings`);
      await page.waitForSelector("#file-changed");
      assert.equal((await page.textContent("#reloadable")).trim(), "rate_limits.api");
      // The preview changes nothing.
      await press(page, "#reload");
      await page.waitForSelector("#reload-changes");
      assert.match(await page.textContent("#reload-changes"), /rate_limits\.api[^]*4321/);
      await press(page, "#confirm-cancel");
      await page.waitForSelector("#file-changed");
      assert.doesNotMatch(await shown(), /4321/);
      await page.goto(`${issuer}/console/settings`);
      await press(page, "#reload");
      await press(page, "#confirm", "Space");
      await page.waitForSelector("#reload-changed");
      assert.match(await page.textContent("#reload-changed"), /rate_limits\.api/);
      await page.waitForSelector("#file-same");
      assert.match(await shown(), /4321/);
    },
  },
  {
    name: "disable a person and let them in again",
    async go(enter) {
      const leaver = `leaver.${lane}@example.test`;
      const { page } = await enter();
      await page.goto(`${ISSUER}/console/users`);
      await signInByKeys(page, first(lane));
      await type(page, "#find", leaver.split("@")[0]);
      await page.keyboard.press("Enter");
      await page.waitForURL(/find=leaver/);
      await press(page, "a.name");
      await press(page, ".sections a[href$='/danger']");
      await press(page, "#user-disable");
      await press(page, "#confirm");
      await done(page);
      await page.waitForSelector("#user-enable");
      const theirs = await enter();
      await theirs.page.goto(authorize());
      await signInByKeys(theirs.page, leaver);
      await theirs.page.waitForSelector("#login-problem");
      await press(page, "#user-enable", "Space");
      await press(page, "#confirm");
      await page.waitForSelector("#user-disable");
      await type(theirs.page, "#password", PASSWORD);
      await theirs.page.keyboard.press("Enter");
      await theirs.page.waitForURL(/\/oauth\/consent|\/callback/);
      // A user without access to the console can choose another account.
      await theirs.page.goto(`${ISSUER}/console`);
      await press(theirs.page, "a.button");
      await theirs.page.waitForSelector("#login-submit, .account");
      // Administrators cannot disable themselves.
      await page.goto(`${ISSUER}/console/users?find=${encodeURIComponent(first(lane))}`);
      await press(page, "a.name");
      await page.waitForSelector("#user-save");
      await press(page, ".sections a[href$='/danger']");
      await page.waitForSelector("#user-revoke");
      assert.equal(await page.locator("#user-disable").count(), 0);
    },
  },
  {
    name: "create a group, rename it, and delete a user",
    async go(enter) {
      const { page } = await enter();
      const [group, gone] = [`ekip-${lane}`, `silinen.${lane}@example.test`];
      await page.goto(`${ISSUER}/console/users/new`);
      await signInByKeys(page, first(lane));
      await type(page, "#email", gone);
      await type(page, "#name", "Silinen Kişi");
      await press(page, "#user-add");
      await page.waitForSelector("#new-password");
      // Select two users in the list and create a group of them.
      await page.goto(`${ISSUER}/console/users?find=${lane}&sort=address`);
      for (const box of ["tbody tr:nth-child(1) .pick input", "tbody tr:nth-child(2) .pick input"]) await press(page, box, "Space");
      await reach(page, "#action");
      assert.equal(await page.inputValue("#action"), "add-to-group");
      await type(page, "#to_group", group);
      await press(page, "#bulk");
      await page.waitForSelector("#bulk-users");
      assert.equal(await page.locator("#bulk-users li").count(), 2);
      await press(page, "#confirm");
      await done(page);
      assert.equal(new URL(page.url()).searchParams.get("find"), lane);
      // Add the new user by address, and rename the group.
      await page.goto(`${ISSUER}/console/groups?find=${group}`);
      await press(page, "a.name");
      await page.waitForSelector("#who");
      await type(page, "#who", gone);
      await press(page, "#members-add");
      await press(page, "#confirm");
      await done(page);
      assert.equal(await page.locator("#members li").count(), 3);
      await type(page, "#to", `${group} 2`);
      await press(page, "#group-rename");
      await press(page, "#confirm");
      await done(page);
      assert.equal(await page.locator("#members li").count(), 3);
      // Delete the user. The group has one member fewer.
      await page.goto(`${ISSUER}/console/users?find=${encodeURIComponent(gone)}`);
      await press(page, "a.name");
      await press(page, ".sections a[href$='/danger']");
      await press(page, "#user-delete");
      await press(page, "#confirm");
      await done(page);
      await page.goto(`${ISSUER}/console/groups/members?name=${encodeURIComponent(`${group} 2`)}`);
      assert.equal(await page.locator("#members li").count(), 2);
      await press(page, "#group-delete");
      await press(page, "#confirm");
      await done(page);
      assert.equal(new URL(page.url()).pathname, "/console/groups");
    },
  },
  {
    name: "add an authenticator app, name it, make recovery codes, and remove it",
    async go(enter, { scripts, words }) {
      const { page } = await enter();
      await enterAccount(page, walker(1, scripts), `${ISSUER}/account`);
      await press(page, ".menu a[href$='/account/security']");
      await press(page, "#add-totp");
      const secret = await page.textContent("#totp-secret");
      assert.match(secret, /^([A-Z2-7]{4} ){7}[A-Z2-7]{4}$/);
      assert.equal(await page.locator(".qr svg").count(), 1);
      assert.ok((await page.getAttribute("a[href^='otpauth:']", "href")).includes(`secret=${secret.replaceAll(" ", "")}&`));
      // Enter the code of another secret.
      await type(page, "#code", totp("AAAA AAAA AAAA AAAA AAAA AAAA AAAA AAAA"));
      await press(page, "#totp-confirm");
      await page.waitForSelector("[role=alert]");
      await awaits(page, "#code");
      assert.match(await page.title(), words({ en: /^Error: /, tr: /^Hata: / }));
      assert.equal(await page.textContent("#totp-secret"), secret);
      await type(page, "#code", totp(secret));
      await type(page, "#name", "Çağrının telefonu");
      await page.keyboard.press("Enter");
      await done(page);
      await awaits(page, ".done");
      // The next page makes recovery codes, and shows them once.
      await press(page, "#codes-make");
      await page.waitForSelector(".recovery-code");
      const codes = await page.locator(".recovery-code").allTextContents();
      assert.equal(new Set(codes).size, 10);
      assert.ok(codes.every((code) => /^([0-9A-HJKMNP-TV-Z]{4}-){3}[0-9A-HJKMNP-TV-Z]{4}$/.test(code)), codes.join());
      assert.equal(await page.isVisible("#codes-download"), scripts);
      if (scripts) {
        const coming = page.waitForEvent("download");
        await press(page, "#codes-download");
        const file = await readFile(await (await coming).path(), "utf8");
        assert.deepEqual(file.match(/^[0-9A-Z]{4}-\S+/gm), codes);
        assert.match(file, new RegExp(walker(1, true)));
      }
      await press(page, "#codes-kept");
      assert.match(await page.textContent("#recovery-left"), /10/);
      assert.deepEqual(await factorNames(page), ["Çağrının telefonu"]);
      await press(page, ".factor a.button");
      await type(page, "#name", "İş telefonu");
      await press(page, "#factor-save");
      await done(page);
      assert.deepEqual(await factorNames(page), ["İş telefonu"]);
      await press(page, ".factor a.button");
      await press(page, "#factor-remove", "Space");
      await done(page);
      assert.deepEqual(await factorNames(page), []);
      assert.equal(await page.locator("#make-codes").count(), 0);
      // The activity page shows the change.
      const told = async () => { await page.goto(`${ISSUER}/account/activity`); return page.textContent("main"); };
      for (let time = 0; time < 20 && !(await told()).includes("İş telefonu"); time += 1) await page.waitForTimeout(250);
      assert.ok((await told()).includes("İş telefonu"));
    },
  },
  {
    name: "add keys, and hear why one was not added",
    async go(enter, { scripts }) {
      const entered = await enter();
      const { page } = entered;
      await enterAccount(page, walker(2, scripts), SECURITY);
      await press(page, "#add-key");
      await page.waitForSelector("#name");
      // Without scripts the page hides the button and explains that it needs scripts.
      assert.equal(await page.isVisible("[data-without-scripts]"), !scripts);
      assert.equal(await page.isVisible("#enrol-passkey"), scripts);
      if (!scripts) return;
      // A passkey requires user verification. The screen lock of this device stays locked.
      const phone = await authenticator(entered, { isUserVerified: false });
      await press(page, "#enrol-passkey");
      assert.equal(await saysOfKey(page), "cancelled");
      await phone.verifies(true);
      await type(page, "#name", "Telefon");
      await press(page, "#enrol-passkey");
      await added(page);
      // Adding the same passkey again fails.
      await press(page, "#add-key");
      await press(page, "#enrol-passkey");
      assert.equal(await saysOfKey(page), "known");
      // The user does not touch the key. Pressing the button again starts a new request and cancels
      // the first one.
      await phone.remove();
      const key = await authenticator(entered, { ...SECURITY_KEY, automaticPresenceSimulation: false });
      await pressUntouched(page, key, "#enrol-security-key");
      await added(page);
      assert.equal((await factorNames(page)).length, 2);
      assert.equal((await factorNames(page))[0], "Telefon");
      // A key without a PIN cannot store a passkey.
      await press(page, "#add-key");
      await press(page, "#enrol-passkey");
      assert.equal(await saysOfKey(page), "cancelled");
    },
  },
  {
    name: "remove a passkey, and the browser offers it no more",
    async go(enter, { scripts }) {
      if (!scripts) return;
      const entered = await enter();
      const { page } = entered;
      const phone = await authenticator(entered);
      await enterAccount(page, walker(3, scripts), SECURITY);
      await addKey(page, "#enrol-passkey");
      assert.equal((await phone.credentials()).length, 1);
      await press(page, ".factor a.button");
      await press(page, "#factor-remove");
      await done(page);
      for (let time = 0; time < 50 && (await phone.credentials()).length > 0; time += 1) await page.waitForTimeout(100);
      assert.deepEqual(await phone.credentials(), []);
    },
  },
  {
    name: "add the passkey that the home page offers, or decline the offer",
    async go(enter, { scripts }) {
      const home = `${ISSUER}/`;
      const entered = await enter();
      const { page } = entered;
      const phone = scripts && await authenticator(entered);
      await enterAccount(page, walker(8, scripts), home);
      // Passkeys need scripts, so the offer does too.
      if (!scripts) {
        assert.equal(await page.isVisible("#passkey-offer"), false);
        return;
      }
      await press(page, "#passkey-later");
      assert.equal(await page.isVisible("#passkey-offer"), false);
      // The browser remembers the refusal. Another device offers it again.
      await page.reload();
      await page.waitForFunction(() => document.readyState === "complete");
      assert.equal(await page.isVisible("#passkey-offer"), false);
      await page.evaluate(() => localStorage.clear());
      await page.reload();
      await press(page, "#passkey-add");
      await press(page, "#enrol-passkey");
      await done(page);
      assert.equal((await phone.credentials()).length, 1);
      await page.evaluate(() => localStorage.clear());
      await page.goto(home);
      assert.equal(await page.locator("#passkey-offer").count(), 0);
      // A device without a screen lock cannot store a passkey.
      await press(page, ".menu a[href$='/account/security']");
      await press(page, ".factor a.button");
      await press(page, "#factor-remove");
      await done(page);
      await phone.remove();
      await authenticator(entered, SECURITY_KEY);
      await page.goto(home);
      await page.waitForSelector("#passkey-offer", { state: "attached" });
      assert.equal(await page.isVisible("#passkey-offer"), false);
    },
  },
  {
    name: "sign in with the code of an app, and with a recovery code",
    async go(enter, { scripts, words }) {
      const person = walker(4, scripts);
      const own = await enter();
      await enterAccount(own.page, person, SECURITY);
      const secret = await addApp(own.page, "Telefon");
      await press(own.page, "#make-codes");
      await press(own.page, "#codes-make");
      await own.page.waitForSelector(".recovery-code");
      const [code] = await own.page.locator(".recovery-code").allTextContents();
      // In another browser, the password alone is not sufficient.
      const { page } = await enter();
      await page.goto(authorize({ prompt: "consent" }));
      await signInByKeys(page, person);
      await page.waitForSelector("#code-submit");
      assert.equal(await heading(page), words({ en: "Verify it’s you", tr: "Siz olduğunuzu doğrulayın" }));
      await awaits(page, "#code");
      const asked = page.url();
      await page.goto(`${ISSUER}/account`);
      await page.waitForSelector("#login-submit");
      await page.goto(asked);
      await type(page, "#code", "123 456 7");
      await press(page, "#code-submit");
      await page.waitForSelector("[role=alert]");
      await awaits(page, "#code");
      assert.match(await page.title(), words({ en: /^Error: /, tr: /^Hata: / }));
      // Enter the code in groups, as some apps show it.
      const right = totp(secret);
      await type(page, "#code", `${right.slice(0, 3)} ${right.slice(3)}`);
      await page.keyboard.press("Enter");
      await press(page, "#consent-allow");
      assert.ok((await answer(page)).get("code"));
      // The same code is not accepted twice. A recovery code is accepted, in lower case too.
      await page.goto(authorize({ prompt: "login" }));
      await signInByKeys(page, person);
      await type(page, "#code", right);
      await press(page, "#code-submit");
      await page.waitForSelector("[role=alert]");
      await press(page, "#use-recovery");
      await page.waitForSelector("#use-recovery[aria-current]");
      await type(page, "#code", code.toLowerCase().replaceAll("-", " "));
      await press(page, "#code-submit");
      await page.waitForSelector("#recovery-used-continue");
      assert.match(await page.textContent("main"), /9/);
      await press(page, "#recovery-used-continue");
      assert.ok((await answer(page)).get("code"));
      await page.goto(SECURITY);
      assert.match(await page.textContent("#recovery-left"), /9/);
      // The list of sessions shows the sign-in methods.
      await page.goto(`${ISSUER}/account/sessions`);
      assert.match(await page.textContent("main"), words({ en: /Password, Authenticator app/, tr: /Parola, Doğrulama uygulaması/ }));
      // A client that requires a key leads to a page with links to add one and to return to the
      // client.
      await page.goto(authorize({}, "vault"));
      assert.equal(await heading(page), words({ en: "A stronger sign-in is needed", tr: "Daha güçlü bir doğrulama gerekiyor" }));
      await press(page, "#unmet-back");
      assert.equal((await answer(page)).get("error"), "unmet_authentication_requirements");
      await page.goto(authorize({}, "vault"));
      await press(page, "#unmet-security");
      await page.waitForURL(SECURITY);
    },
  },
  {
    name: "sign in with a security key, and with nobody else’s",
    async go(enter, { scripts }) {
      if (!scripts) return;
      // Eve has her own key.
      const eve = await enter();
      await authenticator(eve, SECURITY_KEY);
      await enterAccount(eve.page, walker(6, scripts), SECURITY);
      await addKey(eve.page, "#enrol-security-key");
      await eve.page.goto(authorize({ prompt: "login" }));
      await signInByKeys(eve.page, walker(6, scripts));
      const hers = await eve.page.getAttribute("#key-start", "data-gets");
      const bob = await enter();
      const key = await authenticator(bob, SECURITY_KEY);
      await enterAccount(bob.page, walker(5, scripts), SECURITY);
      await addKey(bob.page, "#enrol-security-key", "Anahtarlık");
      await bob.page.goto(authorize({ prompt: "login consent" }));
      await signInByKeys(bob.page, walker(5, scripts));
      await press(bob.page, "#key-start");
      await press(bob.page, "#consent-allow");
      assert.ok((await answer(bob.page)).get("code"));
      // Eve knows Bob's password. Her browser has no credential for his account.
      await eve.page.goto(authorize({ prompt: "login" }));
      await signInByKeys(eve.page, walker(5, scripts));
      await press(eve.page, "#key-start");
      assert.equal(await saysOfKey(eve.page), "cancelled");
      // A modified page that requests her own credential does not help.
      await eve.page.evaluate((hers) => {
        const { dataset } = document.getElementById("key-start");
        dataset.gets = JSON.stringify({ ...JSON.parse(hers), challenge: JSON.parse(dataset.gets).challenge });
      }, hers);
      await press(eve.page, "#key-start");
      await eve.page.waitForSelector("[role=alert]");
      await eve.page.goto(SECURITY);
      assert.deepEqual(await factorNames(eve.page), ["Security key"]);
      // The server detects a copy of Bob's key by its signature counter.
      const copy = await enter();
      const clone = await authenticator(copy, SECURITY_KEY);
      const [credential] = await key.credentials();
      await clone.add({ ...credential, signCount: 1 });
      await copy.page.goto(authorize({ prompt: "login" }));
      await signInByKeys(copy.page, walker(5, scripts));
      await press(copy.page, "#key-start");
      await copy.page.waitForSelector("[role=alert]");
      assert.match(await copy.page.textContent("[role=alert]"), /copied/);
    },
  },
  {
    name: "sign in with a passkey, from the button and from autofill",
    async go(enter, { scripts }) {
      const entered = await enter();
      const { page, context } = entered;
      await page.goto(authorize());
      await page.waitForSelector("#login-submit");
      assert.equal(await page.isVisible("#passkey-login"), scripts);
      if (!scripts) return;
      await enterAccount(page, walker(7, scripts), SECURITY);
      const phone = await authenticator(entered);
      await addKey(page, "#enrol-passkey");
      // Use the button while the autofill request is pending, and stay signed in.
      await phone.touches(false);
      await context.clearCookies();
      await page.goto(authorize({ prompt: "login" }));
      await press(page, "#keep", "Space");
      await pressUntouched(page, phone, "#passkey-login");
      await page.waitForURL("**/oauth/consent?**");
      await press(page, "#consent-allow");
      assert.ok((await answer(page)).get("code"));
      const kept = async () => (await context.cookies(ISSUER)).find(({ name }) => name === "sealgate").expires > 0;
      assert.equal(await kept(), true);
      await phone.touches(true);
      await context.clearCookies();
      // Use autofill: this authenticator selects the first offered passkey. It may do so before the
      // page is loaded, which would end a navigation that waits for that.
      await page.goto(authorize({ prompt: "consent" }), { waitUntil: "commit" });
      await page.waitForURL("**/oauth/consent?**");
      await press(page, "#consent-allow");
      assert.ok((await answer(page)).get("code"));
      await page.goto(SECURITY);
      assert.equal((await factorNames(page)).length, 1);
      assert.equal(await kept(), false);
      // Use the button while the autofill request is pending.
      await phone.touches(false);
      await context.clearCookies();
      await page.goto(authorize({ prompt: "login" }));
      await pressUntouched(page, phone, "#passkey-login");
      assert.ok((await answer(page)).get("code"));
      // A locked screen prevents the sign-in; the user can still enter the password.
      await context.clearCookies();
      await phone.verifies(false);
      await page.goto(authorize({ prompt: "login" }));
      await press(page, "#passkey-login");
      assert.equal(await saysOfKey(page), "cancelled");
      // The page offers autofill again. Without a touch it stays pending, so that it does not sign in
      // during the next navigation.
      await phone.touches(false);
      await phone.verifies(true);
      // A removed passkey is refused with the same message as any unknown one.
      await page.goto(SECURITY);
      await pressUntouched(page, phone, "#passkey-login");
      await page.waitForURL(SECURITY);
      const [credential] = await phone.credentials();
      await press(page, ".factor a.button");
      await press(page, "#factor-remove");
      await done(page);
      for (let time = 0; time < 50 && (await phone.credentials()).length > 0; time += 1) await page.waitForTimeout(100);
      await phone.touches(false);
      await phone.add(credential);
      await context.clearCookies();
      await page.goto(authorize());
      await pressUntouched(page, phone, "#passkey-login");
      await page.waitForSelector("#login-problem");
      await awaits(page, "#email");
    },
  },
  {
    name: "use a passkey after the issuer has moved to another host",
    async go(enter, { scripts }) {
      if (!scripts) return;
      const entered = await enter();
      const { page, context } = entered;
      const phone = await authenticator(entered);
      await whileServing(EARLIER, async () => {
        await enterAccount(page, first(lane), `${EARLIER}/account/security`);
        await press(page, "#add-key");
        await press(page, "#enrol-passkey");
        await added(page);
      });
      const bound = async () => (await phone.credentials()).map(({ rpId }) => rpId);
      assert.deepEqual(await bound(), [new URL(EARLIER).host]);
      await whileServing(MOVED, async () => {
        // Use autofill: the browser permits the new host, because the earlier host names it.
        const security = `${MOVED}/account/security`;
        await page.goto(security, { waitUntil: "commit" });
        await page.waitForURL(security);
        assert.equal((await factorNames(page)).length, 1);
        // Keys that are added at the new host are bound to the earlier host too.
        await press(page, "#add-key");
        await press(page, "#enrol-passkey");
        assert.equal(await saysOfKey(page), "known");
        await page.goto(security);
        await press(page, ".factor a.button");
        await press(page, "#factor-remove");
        await done(page);
        for (let time = 0; time < 50 && (await phone.credentials()).length > 0; time += 1) await page.waitForTimeout(100);
        assert.deepEqual(await bound(), []);
        await press(page, "#add-key");
        await press(page, "#enrol-passkey");
        await added(page);
        assert.deepEqual(await bound(), [new URL(EARLIER).host]);
        // Use the button, in a browser without autofill for passkeys: with autofill this authenticator
        // would sign in before the button is pressed. `pressUntouched` does not help here, because the
        // browser fetches the list of hosts before it asks the authenticator.
        await page.addInitScript(() => {
          PublicKeyCredential.isConditionalMediationAvailable = async () => false;
        });
        await context.clearCookies();
        await page.goto(security);
        await press(page, "#passkey-login");
        await page.waitForSelector("#add-key");
      });
    },
  },
  {
    name: "add the second step that is demanded, within the sign-in",
    async go(enter, { scripts, words }) {
      const { page } = await enter();
      await page.goto(authorize({ prompt: "consent" }));
      await signInByKeys(page, fourth(scripts ? "script" : "plain"));
      await page.waitForSelector("#enrol-totp");
      assert.equal(await heading(page), words({ en: "Set up two-factor authentication", tr: "İki adımlı doğrulamayı ayarlayın" }));
      // Postpone the enrolment, which is optional until the deadline.
      await press(page, "#later", "Space");
      await press(page, "#consent-allow");
      assert.ok((await answer(page)).get("code"));
      await page.goto(authorize({ prompt: "login" }));
      await signInByKeys(page, fourth(scripts ? "script" : "plain"));
      await press(page, "#enrol-totp");
      const secret = await page.textContent("#totp-secret");
      await type(page, "#code", "000000");
      await press(page, "#totp-confirm");
      await page.waitForSelector("[role=alert]");
      await type(page, "#code", await earlyTotp(secret));
      await press(page, "#totp-confirm");
      await page.waitForSelector(".recovery-code");
      assert.equal(await page.locator(".recovery-code").count(), 10);
      await press(page, "#codes-kept");
      assert.ok((await answer(page)).get("code"));
      // Later sign-ins ask for the second factor.
      await page.goto(authorize({ prompt: "login" }));
      await signInByKeys(page, fourth(scripts ? "script" : "plain"));
      await type(page, "#code", totp(secret));
      await page.keyboard.press("Enter");
      assert.ok((await answer(page)).get("code"));
    },
  },
  {
    name: "reset a forgotten password by a mailed link, and pass the second step",
    async go(enter, { scripts, language, words }) {
      const person = forgetful(scripts);
      const password = "unutulmayacak bambaşka bir parola";
      // Sign in with a second factor in another browser.
      const own = await enter();
      await enterAccount(own.page, person, SECURITY);
      const secret = await addApp(own.page, "Telefon");
      // Enter a wrong password on the way to the application.
      const { page } = await enter();
      await page.goto(`${APP}/report?month=11`);
      await signInByKeys(page, person, "unuttum");
      await page.waitForSelector("#login-problem");
      await press(page, "#forgot-password");
      await page.waitForSelector("#reset-submit");
      await awaits(page, "#email");
      assert.equal(await heading(page), words({ en: "Forgot your password?", tr: "Parolanızı mı unuttunuz?" }));
      await type(page, "#email", person);
      await press(page, "#reset-submit");
      await page.waitForSelector("#ask-again");
      assert.equal(await heading(page), words({ en: "Check your email", tr: "E-postanıza bakın" }));
      await awaits(page, ".lead");
      const title = words({ en: "Reset your password", tr: "Parolanızı sıfırlayın" });
      const link = await read(enter, await mailTo(person, title), { to: person, language, title, name: "reset" });
      assert.match(link, /\/oauth\/reset\?token=[\w-]+$/);
      // A link scanner that opens the link first does not use it up.
      for (const method of ["HEAD", "GET"]) assert.equal((await fetch(link, { method, redirect: "manual" })).status, 303, method);
      await page.goto(link);
      // The address no longer contains the token.
      assert.equal(page.url(), `${ISSUER}/oauth/reset`);
      assert.equal(await heading(page), words({ en: "Choose a new password", tr: "Yeni parola seçin" }));
      await awaits(page, "#new-password");
      const whose = await page.textContent(".lead");
      assert.ok(whose.includes("@example.test") && !whose.includes(person), whose);
      await type(page, "#new-password", "kısa");
      await press(page, "#new-password-submit");
      await page.waitForSelector("#password-problem");
      await awaits(page, "#new-password");
      await type(page, "#new-password", password);
      await press(page, "#new-password-submit", "Space");
      await page.waitForURL(`${ISSUER}/oauth/reset/done`);
      await awaits(page, ".lead");
      // The reset did not sign the user in, and it ended the session of the other browser.
      for (const browser of [page, own.page]) {
        await browser.goto(SECURITY);
        await browser.waitForSelector("#login-submit");
      }
      await page.goto(`${ISSUER}/oauth/reset/done`);
      // The old password is no longer valid, and the new one still requires the second factor.
      await press(page, "#sign-in");
      await signInByKeys(page, person);
      await page.waitForSelector("#login-problem");
      await signInByKeys(page, person, password);
      await page.waitForSelector("#code-submit");
      await type(page, "#code", totp(secret));
      await page.keyboard.press("Enter");
      await page.waitForURL(`${APP}/report?month=11`);
      assert.match(await page.textContent("body"), new RegExp(person));
      // The user receives a notification, and the link is no longer valid.
      const told = words({ en: "Your password was reset", tr: "Parolanız sıfırlandı" });
      await read(enter, await mailTo(person, told), { to: person, language, title: told, name: "password-reset" });
      await page.goto(link);
      assert.equal(await heading(page), words({ en: "This link no longer works", tr: "Bu bağlantı artık geçerli değil" }));
    },
  },
  {
    name: "prove the address by a mailed code, change it, and take the change back",
    async go(enter, { scripts, language, words }) {
      const mode = scripts ? "script" : "plain";
      const [old, next] = [`adres.${mode}@example.test`, `yeni.adres.${mode}@example.test`];
      const titles = {
        code: words({ en: "Confirm your email address", tr: "E-posta adresinizi doğrulayın" }),
        newCode: words({ en: "Confirm your new email address", tr: "Yeni e-posta adresinizi doğrulayın" }),
        changed: words({ en: "Your email address was changed", tr: "E-posta adresiniz değiştirildi" }),
        reset: words({ en: "Reset your password", tr: "Parolanızı sıfırlayın" }),
      };
      const { page } = await enter();
      await enterAccount(page, old, `${ISSUER}/account`);
      await press(page, "#address");
      await press(page, "#verify");
      await page.waitForSelector("#code-submit");
      const code = await read(enter, await mailTo(old, titles.code), { to: old, language, title: titles.code, name: "code", hasCode: true });
      await type(page, "#code", code === "0000 0000" ? "11111111" : "00000000");
      await press(page, "#code-submit");
      await page.waitForSelector("#address-problem");
      await type(page, "#code", code);
      await page.keyboard.press("Enter");
      await done(page);
      assert.equal(await page.textContent("#address-state"), words({ en: "Verified", tr: "Doğrulandı" }));
      // Change the address. The new address receives its own code.
      await press(page, "#change-address");
      await page.waitForSelector("#address-submit");
      await awaits(page, "#address");
      await type(page, "#address", next);
      await press(page, "#address-submit");
      await page.waitForSelector("#code-submit");
      const newCode = await read(enter, await mailTo(next, titles.newCode),
        { to: next, language, title: titles.newCode, name: "new-code", hasCode: true });
      await type(page, "#code", newCode.replace(" ", ""));
      await press(page, "#code-submit");
      await done(page);
      assert.ok((await page.textContent(".facts")).includes(next));
      // Both addresses receive a notification. The one to the old address contains a link to undo
      // the change.
      await read(enter, await mailTo(next, titles.changed), { to: next, language, title: titles.changed, name: "address-new" });
      const undo = await read(enter, await mailTo(old, titles.changed), { to: old, language, title: titles.changed, name: "address-old" });
      const owner = await enter();
      await owner.page.goto(undo);
      assert.equal(owner.page.url(), `${ISSUER}/oauth/undo`);
      assert.equal(await heading(owner.page), words({ en: "Undo the change of address?", tr: "Adres değişikliği geri alınsın mı?" }));
      await press(owner.page, "#undo-submit");
      await owner.page.waitForSelector("#sign-in");
      assert.equal(await heading(owner.page), words({ en: "The account is safe", tr: "Hesap güvende" }));
      // The session that changed the address has ended. The owner chooses a new password and signs
      // in with the old address.
      await page.goto(SECURITY);
      await page.waitForSelector("#login-submit");
      await owner.page.goto(linkIn(await mailTo(old, titles.reset)));
      await type(owner.page, "#new-password", "yalnızca benim bildiğim parola");
      await press(owner.page, "#new-password-submit");
      await owner.page.waitForURL(`${ISSUER}/oauth/reset/done`);
      await owner.page.goto(SECURITY);
      await signInByKeys(owner.page, old, "yalnızca benim bildiğim parola");
      await owner.page.waitForURL(SECURITY);
    },
  },
  {
    name: "invite somebody, who chooses a password and goes on to the application",
    async go(enter, { scripts, language, words }) {
      // Each provider writes to users without a known language in its default language.
      const issuer = words({ en: ISSUER, tr: TURKISH });
      const invited = `davetli.${scripts ? "script" : "plain"}@example.test`;
      const password = "kimsenin benim yerime seçmediği parola";
      const { page } = await enter();
      await invite(page, lane, issuer, invited, "Davetli Öğrenci", "legacy");
      assert.match(await stateOfInvitation(page), words({ en: /^Sent on .* Valid until /, tr: /^Gönderildi: .* Geçerlilik sonu: / }));
      const stale = await readInvitation(enter, issuer, invited, language, "invitation");
      // The message was lost. The new link replaces the previous one.
      await press(page, "#user-resend-invitation", "Space");
      await done(page);
      const link = linkIn(await mailTo(invited, words({ en: "You have been invited", tr: "Davet edildiniz" })));
      assert.notEqual(link, stale);
      await page.goto(`${issuer}/console/users?find=davetli`);
      assert.ok((await page.textContent("table")).includes(words({ en: "Invited", tr: "Davet edildi" })));
      const theirs = await enter();
      await theirs.page.goto(stale);
      assert.equal(await heading(theirs.page), words(NO_INVITATION));
      // A link scanner that opens the link first does not use it up.
      for (const method of ["HEAD", "GET"]) assert.equal((await fetch(link, { method, redirect: "manual" })).status, 303, method);
      await theirs.page.goto(link);
      // The address no longer contains the token.
      assert.equal(theirs.page.url(), `${issuer}/oauth/invitation`);
      assert.equal(await heading(theirs.page), words({ en: "Accept the invitation", tr: "Daveti kabul edin" }));
      await awaits(theirs.page, "#new-password");
      const whose = await theirs.page.textContent(".lead");
      assert.ok(whose.includes("@example.test") && !whose.includes(invited) && whose.includes("Gülşah İpek Karaosmanoğlu"), whose);
      await type(theirs.page, "#new-password", "kısa");
      await press(theirs.page, "#new-password-submit");
      await theirs.page.waitForSelector("#password-problem");
      await awaits(theirs.page, "#new-password");
      await type(theirs.page, "#new-password", password);
      await theirs.page.keyboard.press("Enter");
      // The user is not signed in yet. They sign in with the new password and reach the
      // application.
      await theirs.page.waitForSelector("#login-submit");
      await signInByKeys(theirs.page, invited, password);
      await theirs.page.waitForURL(`${appOf(issuer)}/`);
      assert.match(await theirs.page.textContent("body"), new RegExp(invited));
      await theirs.page.goto(`${issuer}/account`);
      assert.ok((await theirs.page.textContent(".facts")).includes(words({ en: "Verified", tr: "Doğrulandı" })));
      // The link is valid once, and the administrator sees that it was used.
      await theirs.page.goto(link);
      assert.equal(await heading(theirs.page), words(NO_INVITATION));
      await press(page, "a.name");
      assert.match(await stateOfInvitation(page), words({ en: /^Accepted on /, tr: /^Kabul edildi: / }));
      assert.equal(await page.locator("#user-resend-invitation, #user-withdraw-invitation").count(), 0);
    },
  },
  {
    name: "invite somebody, who chooses a passkey, and somebody whose invitation is withdrawn",
    async go(enter, { scripts, language, words }) {
      const issuer = words({ en: ISSUER, tr: TURKISH });
      const mode = scripts ? "script" : "plain";
      const invited = `gecis.${mode}@example.test`;
      const { page } = await enter();
      await invite(page, lane, issuer, invited, "Geçiş Anahtarlı");
      const link = await readInvitation(enter, issuer, invited, language, "invitation-passkey");
      const entered = await enter();
      const theirs = entered.page;
      const phone = await authenticator(entered);
      await theirs.goto(link);
      await press(theirs, "#choose-passkey");
      await theirs.waitForSelector("#choose-password");
      // Without scripts the page hides the passkey button and explains that it needs scripts.
      assert.equal(await theirs.isVisible("[data-without-scripts]"), !scripts);
      assert.equal(await theirs.isVisible("#enrol-passkey"), scripts);
      if (scripts) {
        await type(theirs, "#name", "Telefonum");
        await press(theirs, "#enrol-passkey");
        // On the sign-in page, this authenticator selects the first offered passkey.
        await theirs.waitForURL(`${issuer}/`);
        assert.equal((await phone.credentials()).length, 1);
        await theirs.goto(`${issuer}/account/security`);
        assert.deepEqual(await factorNames(theirs), ["Telefonum"]);
      } else {
        await press(theirs, "#choose-password");
        await type(theirs, "#new-password", "bu tarayıcıda betik çalışmıyor");
        await press(theirs, "#new-password-submit");
        await theirs.waitForSelector("#login-submit");
        assert.equal(await theirs.inputValue("#email"), invited);
        await type(theirs, "#password", "bu tarayıcıda betik çalışmıyor");
        await theirs.keyboard.press("Enter");
        await theirs.waitForURL(`${issuer}/`);
      }
      await theirs.goto(link);
      assert.equal(await heading(theirs), words(NO_INVITATION));
      // The wrong user was invited. After the withdrawal the mailed link is no longer valid.
      const wrong = `yanlis.${mode}@example.test`;
      await invite(page, lane, issuer, wrong, "Yanlış Kişi");
      const lost = linkIn(await mailTo(wrong, words({ en: "You have been invited", tr: "Davet edildiniz" })));
      await press(page, "#user-withdraw-invitation");
      await page.waitForSelector("#user-withdraw-invitation", { state: "detached" });
      await done(page);
      assert.match(await stateOfInvitation(page), words({ en: /no valid invitation/, tr: /geçerli bir daveti yok/ }));
      await theirs.goto(lost);
      assert.equal(await heading(theirs), words(NO_INVITATION));
    },
  },
  {
    name: "make an account of one's own with a mailed code, and go on to the application",
    async go(enter, { scripts, language, words }) {
      const mode = scripts ? "script" : "plain";
      const person = `kendi.${mode}@example.test`;
      const password = "kimsenin bilmediği uzun bir parola";
      const titles = {
        code: words({ en: "Confirm your email address", tr: "E-posta adresinizi doğrulayın" }),
        exists: words({ en: "You already have an account", tr: "Zaten bir hesabınız var" }),
      };
      const entered = await enter();
      const { page } = entered;
      const begin = async (email) => {
        await page.goto(`${APP}/report?month=12`);
        await press(page, "#create-account");
        await page.waitForSelector("#register-submit");
        await awaits(page, "#email");
        await type(page, "#email", email);
        await press(page, "#register-submit");
      };
      await begin("kendi.example.test");
      await page.waitForSelector("#register-problem");
      await awaits(page, "#email");
      await begin(person);
      await page.waitForSelector("#code-submit");
      await awaits(page, "#code");
      assert.equal(await heading(page), words({ en: "Enter the verification code", tr: "Doğrulama kodunu girin" }));
      const code = await read(enter, await mailTo(person, titles.code),
        { to: person, language, title: titles.code, name: "code-registration", hasCode: true });
      await type(page, "#code", code === "0000 0000" ? "11111111" : "00000000");
      await page.keyboard.press("Enter");
      await page.waitForSelector("#address-problem");
      // The page is bound to this browser.
      const other = await enter();
      await other.page.goto(page.url());
      await other.page.waitForSelector(".reference");
      await type(page, "#code", code);
      await press(page, "#code-submit");
      await page.waitForSelector("#person-name");
      await awaits(page, "#person-name");
      assert.equal(await heading(page), words({ en: "Set up your account", tr: "Hesabınızı hazırlayın" }));
      assert.ok((await page.textContent(".lead")).includes(person));
      await type(page, "#person-name", "Kendi Açan");
      await type(page, "#new-password", "kısa");
      await press(page, "#new-password-submit");
      await page.waitForSelector("#password-problem");
      await awaits(page, "#new-password");
      assert.equal(await page.inputValue("#person-name"), "Kendi Açan");
      await type(page, "#new-password", password);
      await press(page, "#new-password-submit", "Space");
      // The user is signed in and reaches the requested page.
      await page.waitForURL(`${APP}/report?month=12`);
      assert.match(await page.textContent("body"), new RegExp(person));
      // The same address again: the page is the same, and the message says that an account exists.
      const again = await enter();
      await again.page.goto(authorize());
      await press(again.page, "#create-account");
      await type(again.page, "#email", person.toUpperCase());
      await press(again.page, "#register-submit");
      await again.page.waitForSelector("#code-submit");
      const link = await read(enter, await mailTo(person, titles.exists),
        { to: person, language, title: titles.exists, name: "account-exists" });
      assert.equal(link, `${ISSUER}/account`);
      if (!scripts) return;
      // Create an account with a passkey and without a password.
      const keeper = await enter();
      await authenticator(keeper);
      const own = "anahtar.script@example.test";
      await keeper.page.goto(authorize());
      await press(keeper.page, "#create-account");
      await type(keeper.page, "#email", own);
      await press(keeper.page, "#register-submit");
      await keeper.page.waitForSelector("#code-submit");
      await type(keeper.page, "#code", codeIn(await mailTo(own, titles.code)));
      await keeper.page.keyboard.press("Enter");
      await type(keeper.page, "#person-name", "Anahtar Sahibi");
      await press(keeper.page, "#choose-passkey");
      await press(keeper.page, "#enrol-passkey");
      await press(keeper.page, "#consent-allow");
      assert.ok((await answer(keeper.page)).get("code"));
    },
  },
];
