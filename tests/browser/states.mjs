// Every page, a row each: who is signed in ("nobody", "first", "both"), and how to get there. `status`: of the page, where it
// is not 200. `show(page, lane)` ends when the page is there.

import { APP, ISSUER, authorize, first, signIn } from "./world.mjs";

const at = (address) => (page) => page.goto(address);

/// Sends the page's form with a token that is not its own.
async function forged(page) {
  await page.goto(authorize());
  await page.evaluate(() => { document.querySelector("input[name=csrf]").value = "forged"; });
  await signIn(page, "nobody@example.test");
  await page.waitForSelector(".reference");
}

async function wrong(page, times) {
  await page.goto(authorize());
  // An account that there is not: as many guesses as the next run wants.
  const email = `nobody.${crypto.randomUUID()}@example.test`;
  for (let time = 0; time < times; time += 1) {
    await signIn(page, email, "wrong");
    await page.waitForSelector("#login-problem");
  }
}

async function post(page, address, fields, submit) {
  await page.goto(address);
  for (const [field, value] of Object.entries(fields)) await page.fill(field, value);
  await page.click(submit);
  await page.waitForSelector("[role=alert], [role=status].done");
}

export const STATES = [
  { name: "login", as: "nobody", show: at(authorize()) },
  { name: "login-hint", as: "nobody", show: (page, lane) => page.goto(authorize({ login_hint: first(lane) })) },
  { name: "login-own", as: "nobody", show: at(`${ISSUER}/account`) },
  { name: "login-gate", as: "nobody", show: at(`${APP}/report`) },
  { name: "login-wrong", as: "nobody", show: (page) => wrong(page, 1) },
  { name: "login-throttled", as: "nobody", status: 429, show: (page) => wrong(page, 5) },
  { name: "login-again", as: "first", show: at(authorize({ prompt: "login" })) },
  { name: "login-max-age", as: "first", show: at(authorize({ max_age: "0" })) },
  { name: "consent", as: "first", show: at(authorize({ prompt: "consent" })) },
  { name: "consent-little", as: "first", show: at(authorize({ prompt: "consent", scope: "openid" })) },
  { name: "chooser", as: "both", show: at(authorize({ prompt: "select_account" })) },
  { name: "logout", as: "first", show: at(`${ISSUER}/oauth/logout?client_id=reports`) },
  { name: "signed-out", as: "nobody", show: at(`${ISSUER}/oauth/signed-out`) },
  { name: "account", as: "first", show: at(`${ISSUER}/account`) },
  {
    name: "account-wrong", as: "first",
    show: (page) => post(page, `${ISSUER}/account`, { "#name": "", "#phone_number": "12", "#picture": "x" }, "#profile-save"),
  },
  {
    name: "account-saved", as: "first",
    show: (page) => post(page, `${ISSUER}/account`, { "#phone_number": "+90 555 111 22 33" }, "#profile-save"),
  },
  { name: "account-password", as: "first", show: at(`${ISSUER}/account/password`) },
  {
    name: "account-password-wrong", as: "first",
    show: (page) => post(page, `${ISSUER}/account/password`,
      { "#current": "x", "#new": "one two three", "#again": "three two one" }, "#password-submit"),
  },
  { name: "account-sessions", as: "first", show: at(`${ISSUER}/account/sessions`) },
  { name: "account-applications", as: "first", show: at(`${ISSUER}/account/applications`) },
  { name: "error-unknown-client", as: "nobody", status: 400, show: at(authorize({ client_id: "stranger" })) },
  { name: "error-redirect-uri", as: "nobody", status: 400, show: at(authorize({ redirect_uri: "https://evil.example/" })) },
  {
    name: "error-logout-redirect-uri", as: "nobody", status: 400,
    show: at(`${ISSUER}/oauth/logout?client_id=reports&post_logout_redirect_uri=https%3A%2F%2Fevil.example%2F`),
  },
  { name: "error-cookie-missing", as: "nobody", status: 400, show: at(`${ISSUER}/oauth/login?interaction=x`) },
  { name: "error-nothing-to-do", as: "first", status: 400, show: at(`${ISSUER}/oauth/login?interaction=x`) },
  { name: "error-expired-form", as: "nobody", status: 400, show: forged },
  { name: "error-not-found", as: "nobody", status: 404, show: at(`${ISSUER}/nowhere`) },
  { name: "gate-forbidden", as: "first", status: 403, show: at(`${APP}/staff/`) },
];
