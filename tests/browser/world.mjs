// The browser, addresses, users, and helpers that states and walks share.

import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { chromium } from "playwright-core";

const { ISSUER, BRIEF, TURKISH, APP, AWAY, PASSWORD, CALLBACK_PORT } = process.env;
export { ISSUER, BRIEF, TURKISH, APP, AWAY, PASSWORD };
export const CLIENT_SITE = `http://localhost:${CALLBACK_PORT}`;
export const CALLBACK = `${CLIENT_SITE}/callback`;
/// A host that no provider or application uses.
export const STRANGER = ISSUER.replace("localhost", "stranger.localhost");
/// Returns the application behind a provider.
export const appOf = (issuer) => issuer.replace("localhost", "app.localhost");
/// Returns the application that administrators change in the console.
export const teamOf = (issuer) => issuer.replace("localhost", "takim.localhost");
/// The issuer that moves to another host: before and after.
const { MOVING_PORT, MOVING_ADMIN, MOVING_WORK, MOVING_SPKI } = process.env;
const MOVING_HOSTS = process.env.MOVING_HOSTS.split(" ");
export const [EARLIER, MOVED] = MOVING_HOSTS.map((host) => `https://${host}`);
const OWN = [ISSUER, BRIEF, TURKISH, EARLIER, MOVED, APP, appOf(TURKISH), teamOf(ISSUER), teamOf(TURKISH), AWAY, STRANGER, CLIENT_SITE].map((address) => new URL(address).origin);

/// Whether to write a picture of each state in each size and colour. It takes a third of the time.
export const PICTURES = process.argv.length > 2 || Boolean(process.env.SCREENSHOTS);

export const LOCALES = { en: "en-US", tr: "tr-TR" };
/// Windows in which pages are checked: 320 px is the narrowest that WCAG 1.4.10 requires.
export const SIZES = {
  narrow: { width: 320, height: 640 },
  phone: { width: 390, height: 844 },
  medium: { width: 768, height: 1024 },
  wide: { width: 1280, height: 800 },
};

/// Starts the client's site, which serves the redirect URI.
export async function startClient() {
  const server = createServer((request, response) => {
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end('<!doctype html><html lang="en"><title>client</title><link rel="icon" href="data:,"><h1>Client</h1>');
  });
  await new Promise((done) => server.listen(Number(CALLBACK_PORT), "127.0.0.1", done));
  return server;
}

/// Features of Chromium that start renderer processes that the tests do not use: one in reserve, and
/// two for the address bar of each window. Without them the tests need half the processor time.
const UNUSED_FEATURES = ["SpareRendererForSitePerProcess", "WebUIOmniboxPopup", "WebUIOmniboxAimPopup"];

export function launch(executablePath) {
  // Chromium reads only the last `--disable-features`, so repeat those that Playwright disables.
  const require = createRequire(import.meta.url);
  const playwright = dirname(require.resolve("playwright-core/package.json"));
  const { chromiumSwitches } = require(join(playwright, "lib/server/chromium/chromiumSwitches.js"));
  const disabled = chromiumSwitches().find((given) => given.startsWith("--disable-features="));
  return chromium.launch({
    executablePath,
    args: [`${disabled},${UNUSED_FEATURES}`, "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
      `--ignore-certificate-errors-spki-list=${MOVING_SPKI}`,
      // Block connections to other machines.
      `--host-resolver-rules=${MOVING_HOSTS.map((host) => `MAP ${host} 127.0.0.1:${MOVING_PORT}`).join()}, ` +
        "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost"],
  });
}

/// Runs `use` while the moving provider serves one of its hosts.
export async function whileServing(issuer, use) {
  const config = `${MOVING_WORK}/${issuer === MOVED ? "moved" : "sealgate"}.toml`;
  const provider = spawn("target/debug/sealgate", ["serve", "--config", config], {
    env: { ...process.env, SOFTHSM2_CONF: `${MOVING_WORK}/hsm/softhsm2.conf` }, stdio: "ignore",
  });
  const ended = once(provider, "close");
  try {
    const ready = () => fetch(`http://127.0.0.1:${MOVING_ADMIN}/readyz`).then(({ ok }) => ok, () => false);
    for (let time = 0; time < 300 && provider.exitCode === null && !(await ready()); time += 1) {
      await new Promise((done) => setTimeout(done, 100));
    }
    await use();
  } finally {
    provider.kill();
    await ended;
  }
}

/// Returns an authorization URL. No verifier matches the code challenge, because the tests never
/// redeem the codes.
export function authorize(parameters = {}, client = "reports") {
  const query = new URLSearchParams({
    client_id: client,
    redirect_uri: CALLBACK,
    response_type: "code",
    scope: "openid profile email phone offline_access",
    state: "kept",
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256",
    ...parameters,
  });
  return `${ISSUER}/oauth/authorize?${query}`;
}

/// Users of a lane. The first has long values, the third has second factors, and the fourth must
/// add one.
export const first = (lane) => `gulsah.karaosmanoglu.${lane}@example.test`;
export const second = (lane) => `isik.${lane}@example.test`;
export const third = (lane) => `ikiadim.${lane}@example.test`;
export const fourth = (lane) => `zorunlu.${lane}@example.test`;

/// A user without second factors for one walk, with or without scripts.
export const walker = (number, scripts) => `adim.${number}.${scripts ? "script" : "plain"}@example.test`;

/// A user with a verified address who has forgotten the password.
export const forgetful = (scripts) => `unutkan.${scripts ? "script" : "plain"}@example.test`;

/// Returns the TOTP code (RFC 6238) for a secret in base32 groups, `steps` time steps from now.
export function totp(secret, steps = 0) {
  const bits = [...secret.replaceAll(" ", "")].map((char) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(char).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const tag = createHmac("sha1", key).update(counter).digest();
  const number = tag.readUInt32BE(tag[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

/// Returns the code of the previous time step, which leaves two steps for later sign-ins, because
/// each code is valid once. Waits near the end of a step, when the code might expire before it is
/// sent. The loop is necessary because a timer may end a millisecond early.
export async function earlyTotp(secret) {
  const left = () => 30_000 - Date.now() % 30_000;
  while (left() < 12_000) await new Promise((done) => setTimeout(done, left()));
  return totp(secret, -1);
}

/// Adds a virtual authenticator to the page. By default it is a phone or computer with a screen
/// lock.
export async function authenticator({ page, context }, options = {}) {
  const cdp = await context.newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true,
      automaticPresenceSimulation: true, ...options,
    },
  });
  const send = (command, more = {}) => cdp.send(`WebAuthn.${command}`, { authenticatorId, ...more });
  return {
    credentials: async () => (await send("getCredentials")).credentials,
    add: (credential) => send("addCredential", { credential }),
    touches: (enabled) => send("setAutomaticPresenceSimulation", { enabled }),
    verifies: (isUserVerified) => send("setUserVerified", { isUserVerified }),
    remove: () => send("removeVirtualAuthenticator"),
  };
}

/// A connected security key without a PIN.
export const SECURITY_KEY = { transport: "usb", hasResidentKey: false, hasUserVerification: false, isUserVerified: false };

let addresses = 0;

/// Returns the header with the client address of another machine, which has its own rate limits.
function anotherAddress() {
  addresses += 1;
  return { "x-forwarded-for": `192.0.2.${addresses % 254 + 1}` };
}

/// Opens a page in a new browser context with its own client address. Its journal records errors.
export async function open(browser, { language = "en", scripts = true, cookies, ...options } = {}) {
  const context = await browser.newContext({
    locale: LOCALES[language],
    javaScriptEnabled: scripts,
    viewport: SIZES.wide,
    storageState: cookies,
    extraHTTPHeaders: anotherAddress(),
    ...options,
  });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const journal = { complaints: [], documents: [], responses: [] };
  page.on("pageerror", (error) => journal.complaints.push(`script error: ${error}`));
  page.on("console", (message) => {
    // The browser reports a page with an error status; that is expected. Any other message is an
    // error.
    const expected = /the server responded with a status of/.test(message.text()) && message.location().url === page.url();
    if (["error", "warning"].includes(message.type()) && !expected) journal.complaints.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && !OWN.includes(url.origin)) journal.complaints.push(`external request: ${url}`);
    if (request.isNavigationRequest()) {
      journal.documents.push(`${request.method()} ${url.origin === new URL(CLIENT_SITE).origin ? "client " : ""}${url.pathname}`);
    }
  });
  page.on("response", (response) => {
    if (response.request().isNavigationRequest()) journal.responses = [];
    if (!response.url().startsWith("data:")) journal.responses.push(response);
  });
  return { page, context, journal };
}

/// Prepares an opened page for other cookies, with another client address and an empty journal. A new
/// context would take three times as long.
export async function reuse({ page, context, journal }, cookies) {
  await page.setViewportSize(SIZES.wide);
  await context.clearCookies();
  if (cookies) await context.addCookies(cookies.cookies);
  await context.setExtraHTTPHeaders(anotherAddress());
  Object.assign(journal, { complaints: [], documents: [], responses: [] });
}

/// Performs an action that leads to another page, and waits for the navigation, because the next
/// page may look the same.
export function leave(page, act) {
  return Promise.all([page.waitForEvent("framenavigated"), act()]);
}

/// Enters a user's address and password, and submits them.
export async function signIn(page, email, password = PASSWORD) {
  await page.fill("#email", email);
  await page.fill("#password", password);
  await page.click("#login-submit");
}

/// Returns the cookies of a browser in which these users have signed in, in this order, and have
/// consented to both clients.
export async function cookiesOf(browser, lane, people) {
  const { page, context } = await open(browser);
  for (const person of people) {
    await page.goto(authorize({ prompt: "login" }));
    await signIn(page, person(lane));
    await page.waitForURL(/\/oauth\/consent|\/callback/);
    if (await page.$("#consent-allow")) await page.click("#consent-allow");
    await page.waitForURL(`${CALLBACK}?**`);
  }
  await page.goto(authorize({ scope: "openid email" }, "calendar"));
  if (await page.$("#consent-allow")) await page.click("#consent-allow");
  await page.waitForURL(`${CALLBACK}?**`);
  const cookies = await context.storageState();
  await context.close();
  return cookies;
}

/// Returns the cookies of a browser in which a user has added an app, a security key and recovery
/// codes.
export async function cookiesOfFactors(browser, person) {
  const entered = await open(browser);
  const { page, context } = entered;
  await authenticator(entered, SECURITY_KEY);
  const security = `${ISSUER}/account/security`;
  await page.goto(security);
  await signIn(page, person);
  await page.waitForURL(security);
  await page.click("#add-key");
  await page.fill("#name", "Anahtarlıktaki güvenlik anahtarı");
  await page.click("#enrol-security-key");
  await page.waitForSelector("[role=status].done");
  await page.click("#codes-later");
  await page.click("#add-totp");
  await page.fill("#code", await earlyTotp(await page.textContent("#totp-secret")));
  await page.click("#totp-confirm");
  await page.waitForSelector("[role=status].done");
  await page.click("#codes-make");
  await page.waitForSelector(".recovery-code");
  const cookies = await context.storageState();
  await context.close();
  return cookies;
}
