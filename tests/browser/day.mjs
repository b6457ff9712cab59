// A day of an administrator: every task in the console, none on the command line.

import assert from "node:assert/strict";
import { linkIn, mailTo } from "./mails.mjs";
import { done, press, signInByKeys, type } from "./walks.mjs";
import { ISSUER, TURKISH, earlyTotp, first, teamOf } from "./world.mjs";

const PASSWORD = "ekipte herkesin kendi seçtiği parola";

/// Opens the page of a user in the console, at a section.
async function openUser(page, issuer, user, section) {
  await page.goto(`${issuer}/console/users?find=${encodeURIComponent(user)}`);
  await press(page, "a.name");
  await page.waitForSelector(".sections");
  await press(page, `.sections a[href$="/${section}"]`);
  await page.waitForSelector(`.sections a[href$="/${section}"][aria-current=page]`);
}

/// Signs in at an application with the password, and returns once the page of the application or of
/// the second factor is there.
async function openApp(page, address, user) {
  await page.goto(address);
  await page.waitForSelector("#login-submit");
  await signInByKeys(page, user, PASSWORD);
}

export const dayOf = (lane) => [
  {
    name: "spend a day as an administrator",
    async go(enter, { scripts, words }) {
      const issuer = words({ en: ISSUER, tr: TURKISH });
      const [mode, area] = [scripts ? "script" : "plain", `${teamOf(issuer)}/ekip/`];
      const group = `ekip ${mode}`;
      const team = [..."abcdefghij"].map((letter) => `ekip.${letter}.${mode}@example.test`);
      const { page } = await enter();

      // Invite ten people into a group.
      await page.goto(`${issuer}/console/users/invite`);
      await signInByKeys(page, first(lane));
      await type(page, "#users", team.map((address, at) => `Üye ${at + 1}, ${address}`).join("\n"));
      await type(page, "#groups", group);
      await press(page, "#invite-preview");
      await page.waitForSelector("#invite-users");
      assert.equal(await page.locator("#invite-users li").count(), 10);
      await press(page, "#confirm");
      await done(page);
      await page.goto(`${issuer}/console/groups/members?name=${encodeURIComponent(group)}`);
      assert.equal(await page.locator("#members li").count(), 10);

      // One of them accepts, and gets 403 at a part of the application.
      const [member] = team;
      const theirs = await enter();
      await theirs.page.goto(linkIn(await mailTo(member, words({ en: "You have been invited", tr: "Davet edildiniz" }))));
      await type(theirs.page, "#new-password", PASSWORD);
      await theirs.page.keyboard.press("Enter");
      await theirs.page.waitForSelector("#login-submit");
      await openApp(theirs.page, area, member);
      await theirs.page.waitForURL(area);
      const status = async () => (await theirs.page.goto(area)).status();
      assert.equal(await status(), 403);

      // Find out why.
      await page.goto(`${issuer}/console/check`);
      await type(page, "#url", area);
      await type(page, "#user", member);
      await press(page, "#check-submit");
      await page.waitForSelector("#check-decision");
      assert.match(await page.textContent("#check-outcome"), /HTTP 403[^]*grup|HTTP 403[^]*group/);
      assert.match(await page.textContent("#check-rule"), /\/ekip\/ signed_in, groups/);

      // Open this part of the application for the group.
      await page.goto(`${issuer}/console/apps/takim/edit`);
      await press(page, "#edit-rules li:last-child a");
      await type(page, "#groups", `yönetim\n${group}`);
      await press(page, "#rule-save");
      await page.waitForSelector("#difference");
      assert.match(await page.textContent("#difference"), new RegExp(group));
      await press(page, "#confirm");
      await done(page);
      assert.equal(await status(), 200);

      // The member adds an authenticator app, loses the phone, and cannot sign in.
      await theirs.page.goto(`${issuer}/account/security`);
      await press(theirs.page, "#add-totp");
      await type(theirs.page, "#code", await earlyTotp(await theirs.page.textContent("#totp-secret")));
      await press(theirs.page, "#totp-confirm");
      await done(theirs.page);
      const other = await enter();
      await openApp(other.page, area, member);
      await other.page.waitForSelector("#code-submit");
      await openUser(page, issuer, member, "security");
      await press(page, "#user-reset-factors");
      await press(page, "#confirm");
      // The link permits the member to add another factor, and works once.
      await page.waitForSelector("#enrolment-link");
      await other.page.goto(await page.textContent("#enrolment-link"));
      await signInByKeys(other.page, member, PASSWORD);
      await press(other.page, "#enrol-totp");
      await type(other.page, "#code", await earlyTotp(await other.page.textContent("#totp-secret")));
      await press(other.page, "#totp-confirm");
      await press(other.page, "#codes-kept");
      await other.page.waitForURL(`${issuer}/account/security`);
      assert.equal((await other.page.goto(area)).status(), 200);

      // Rotate the signing key.
      await page.goto(`${issuer}/console/keys`);
      await press(page, "[id^=keys-rotate-]");
      await page.waitForSelector("#confirm-effect");
      await press(page, "#confirm");
      await done(page);
      await page.waitForSelector("[id^=keys-rotating-]");

      // Read who signed in from where, and export it.
      await page.goto(`${issuer}/console/audit?kind=signed_in&person=${encodeURIComponent(member)}`);
      const signIns = await page.textContent(".events tbody");
      assert.match(signIns, /ekip\.a\.[^]*192\.0\.2\.\d+/);
      const download = page.waitForEvent("download");
      await press(page, "a[href*='/audit/export'][href*='ndjson']");
      const parts = [];
      for await (const part of await (await download).createReadStream()) parts.push(part);
      const events = Buffer.concat(parts).toString().trim().split("\n").map((line) => JSON.parse(line));
      assert.ok(events.length >= 2 && events.every(({ kind, address }) => kind === "signed_in" && address.startsWith("192.0.2.")), JSON.stringify(events[0]));
    },
  },
];
