// Visits after an upgrade, in Chromium: the session from before still reaches the application, and a browser without a
// session signs in with the password.
//
//   node tests/install/return_visit.mjs STATE ADDRESS APPLICATION TEXT
//
// STATE is the file that first_visit.mjs wrote.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../browser/package.json", import.meta.url))("playwright-core");
const [state, address, application, text] = process.argv.slice(2);
const password = "seven purple tractors dancing";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--host-resolver-rules=MAP * 127.0.0.1"],
});
try {
  const known = await browser.newContext({ ignoreHTTPSErrors: true, storageState: state });
  const page = await known.newPage();
  await page.goto(application);
  assert.match(await page.textContent("body"), new RegExp(text));
  assert.equal(page.url(), application);

  const fresh = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
  await fresh.goto(application);
  await fresh.fill("#email", address);
  await fresh.fill("#password", password);
  await fresh.click("#login-submit");
  await fresh.waitForURL(application);
  assert.match(await fresh.textContent("body"), new RegExp(text));
} finally {
  await browser.close();
}
