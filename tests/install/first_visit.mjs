// The first visit after `sealgate init`, in Chromium: opens the administrator's link, chooses a password, signs in, and
// reaches the application. Fails if the application's page is not shown in time.
//
//   node tests/install/first_visit.mjs LINK ADDRESS APPLICATION TEXT MILLISECONDS [STATE]
//
// STATE is a file to which the browser's cookies are written.
// The caller runs it in the network name space of the machine; every host is resolved to 127.0.0.1 there.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../browser/package.json", import.meta.url))("playwright-core");
const [link, address, application, text, milliseconds, state] = process.argv.slice(2);
const password = "seven purple tractors dancing";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--host-resolver-rules=MAP * 127.0.0.1"],
});
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  context.setDefaultTimeout(Number(milliseconds));
  const page = await context.newPage();
  await page.goto(link);
  await page.fill("#new-password", password);
  await page.click("#new-password-submit");
  await page.waitForSelector("#login-submit");
  await page.fill("#email", address);
  await page.fill("#password", password);
  await page.click("#login-submit");
  await page.waitForURL((url) => !url.pathname.startsWith("/oauth/"));
  await page.goto(application);
  assert.match(await page.textContent("body"), new RegExp(text));
  if (state) await context.storageState({ path: state });
} finally {
  await browser.close();
}
