// The browser, the addresses, the people, and the ways into the program that states and walks share.

import { createServer } from "node:http";
import { chromium } from "playwright-core";

const { ISSUER, BRIEF, APP, AWAY, PASSWORD, CALLBACK_PORT, CHROMIUM } = process.env;
export { ISSUER, BRIEF, APP, AWAY, PASSWORD };
export const CLIENT_SITE = `http://localhost:${CALLBACK_PORT}`;
export const CALLBACK = `${CLIENT_SITE}/callback`;
/// A host that is nobody's.
export const STRANGER = ISSUER.replace("localhost", "stranger.localhost");
const OWN = [ISSUER, BRIEF, APP, AWAY, STRANGER, CLIENT_SITE].map((address) => new URL(address).origin);

export const LOCALES = { en: "en-US", tr: "tr-TR" };
export const SIZES = { narrow: { width: 320, height: 640 }, wide: { width: 1280, height: 800 } };

/// The client's site: a page that a code comes back to.
export async function startClient() {
  const server = createServer((request, response) => {
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end('<!doctype html><html lang="en"><title>client</title><link rel="icon" href="data:,"><h1>Client</h1>');
  });
  await new Promise((done) => server.listen(Number(CALLBACK_PORT), "127.0.0.1", done));
  return server;
}

export function launch() {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
      // Nothing leaves this machine, whatever a page asks for.
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost"],
  });
}

/// The address that a client sends people to. The challenge is that of no verifier: the codes are never redeemed.
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

/// A person of a lane. The first has long details.
export const first = (lane) => `gulsah.karaosmanoglu.${lane}@example.test`;
export const second = (lane) => `isik.${lane}@example.test`;

let addresses = 0;

/// A page in a browser of its own, from an address of its own, which takes down what goes wrong in it.
export async function open(browser, { language = "en", scripts = true, cookies, ...options } = {}) {
  addresses += 1;
  const context = await browser.newContext({
    locale: LOCALES[language],
    javaScriptEnabled: scripts,
    viewport: SIZES.wide,
    storageState: cookies,
    extraHTTPHeaders: { "x-forwarded-for": `192.0.2.${addresses % 254 + 1}` },
    ...options,
  });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const journal = { complaints: [], documents: [], responses: [] };
  page.on("pageerror", (error) => journal.complaints.push(`script error: ${error}`));
  page.on("console", (message) => {
    // A page with an error status is one, and the browser says so; anything else is ours.
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

/// Does something that leads to another page, and waits until the browser has left this one: the next one may look the same.
export function leave(page, act) {
  return Promise.all([page.waitForEvent("framenavigated"), act()]);
}

/// Types a person's address and password, and sends them.
export async function signIn(page, email, password = PASSWORD) {
  await page.fill("#email", email);
  await page.fill("#password", password);
  await page.click("#login-submit");
}

/// The cookies of a browser in which these people have signed in, the last one latest, and have allowed both clients.
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
