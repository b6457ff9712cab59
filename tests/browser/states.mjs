// A table of all pages, with the signed-in users ("nobody", "first", "second", "both", "third") and
// the steps to reach the page.
//
// `status`: HTTP status of the page, if it is not 200. `factors`: the third user must have second
// factors. `alone`: the next state needs a new browser context. `show(page, lane)` returns once the page
// is shown.

import { codeIn, linkIn, mailTo } from "./mails.mjs";
import {
  APP, AWAY, CALLBACK, ISSUER, STRANGER, authenticator, authorize, earlyTotp, first, fourth, leave, open, second, signIn, third,
} from "./world.mjs";

const at = (address) => (page) => page.goto(address);

/// Submits the page's form with an invalid CSRF token.
async function forged(page) {
  await page.goto(authorize());
  await page.evaluate(() => { document.querySelector("input[name=csrf]").value = "forged"; });
  await signIn(page, "nobody@example.test");
  await page.waitForSelector(".reference");
}

/// Enters wrong passwords until the response has this status. On a busy machine some guesses time
/// out and do not count.
async function wrong(page, status) {
  await page.goto(authorize());
  // Use an account that does not exist, so that each run starts without failed attempts. On a busy
  // machine some attempts time out and do not count.
  const email = `nobody.${crypto.randomUUID()}@example.test`;
  for (let time = 0; time < 60; time += 1) {
    const answered = page.waitForResponse((response) => response.request().method() === "POST");
    await leave(page, () => signIn(page, email, "wrong"));
    await page.waitForSelector("#login-problem");
    if ((await answered).status() === status) return;
  }
}

async function post(page, address, fields, submit) {
  await page.goto(address);
  for (const [field, value] of Object.entries(fields)) await page.fill(field, value);
  await page.click(submit);
  await page.waitForSelector("[role=alert], [role=status].done, section.done, [aria-invalid]");
}

/// Opens a page that requires a recent sign-in of the first user. Uses a separate session, because
/// the sign-in renews the session, and the cookie of the shared session would become invalid for
/// the other states.
async function fresh(page, lane, address) {
  await freshAs(page, first(lane), address);
}

/// Time in which a sign-in is used again. The provider accepts it for five minutes.
const RECENT = 3 * 60_000;
const recent = new Map();
async function freshAs(page, email, address) {
  const { at, cookies } = recent.get(email) ?? { at: 0 };
  const isRecent = Date.now() - at < RECENT;
  if (isRecent) await page.context().addCookies(cookies);
  await page.goto(address);
  if (isRecent && page.url() === address) return;
  await signIn(page, email);
  await page.waitForURL(address);
  recent.set(email, { at: Date.now(), cookies: await page.context().cookies(ISSUER) });
}

/// Opens the form that links the first user's account to one in the directory.
async function linkForm(page, lane) {
  await fresh(page, lane, `${ISSUER}/account/security`);
  await page.click("#link-kurum");
  await page.waitForSelector("#link-submit");
}

/// Opens the second step of the third user's sign-in, with one of its methods.
async function secondStep(page, lane, way) {
  await page.goto(authorize());
  await signIn(page, third(lane));
  await page.click(`#use-${way}`);
  await page.waitForSelector(`#use-${way}[aria-current]`);
}

async function wrongCode(page, lane, way) {
  await secondStep(page, lane, way);
  await page.fill("#code", "no code");
  await page.click("#code-submit");
  await page.waitForSelector("[role=alert]");
}

/// Signs in the fourth user and opens the required enrolment.
async function enrolment(page, lane, way) {
  await page.goto(authorize());
  await signIn(page, fourth(lane));
  await page.waitForSelector("#enrol-totp");
  if (way) await leave(page, () => page.click(way));
}

/// Opens the page for a password reset from the sign-in page.
async function forgotten(page) {
  await page.goto(authorize());
  await page.click("#forgot-password");
  await page.waitForSelector("#reset-submit");
}

async function askForLink(page, email) {
  await forgotten(page);
  await page.fill("#email", email);
  await page.click("#reset-submit");
  await page.waitForSelector("#ask-again");
}

/// Opens the password page with the mailed link of the lane's first user. All states share a link,
/// because the number of messages per hour to a user is limited.
const links = new Map();
async function choosePassword(page, lane) {
  if (!links.has(lane)) {
    await askForLink(page, first(lane));
    links.set(lane, linkIn(await mailTo(first(lane), lane.startsWith("tr") ? "Parolanızı sıfırlayın" : "Reset your password")));
  }
  await page.goto(links.get(lane));
  await page.waitForSelector("#new-password-submit");
}

async function chooseShortPassword(page, lane) {
  await choosePassword(page, lane);
  await page.fill("#new-password", "short");
  await page.click("#new-password-submit");
  await page.waitForSelector("#password-problem");
}

/// Opens the page that asks for the address of a new account, from the sign-in page.
async function createAccount(page) {
  await page.goto(authorize());
  await page.click("#create-account");
  await page.waitForSelector("#register-submit");
}

async function enterAddress(page, email) {
  await createAccount(page);
  await page.fill("#email", email);
  await page.click("#register-submit");
}

async function newAddressCode(page) {
  await enterAddress(page, `yeni.${crypto.randomUUID()}@example.test`);
  await page.waitForSelector("#code-submit");
}

async function wrongNewAddressCode(page) {
  await newAddressCode(page);
  await page.fill("#code", "no code");
  await page.click("#code-submit");
  await page.waitForSelector("[role=alert]");
}

/// Opens the page that creates an account. The address is verified once per lane, because the
/// number of messages per minute to unknown addresses is limited.
const proven = new Map();
async function newAccount(page, lane) {
  const cookies = () => page.context().cookies(ISSUER);
  if (!proven.has(lane)) {
    const email = `yeni.karaosmanoglu.${lane}@example.test`;
    await enterAddress(page, email);
    await page.waitForSelector("#code-submit");
    await page.fill("#code", codeIn(await mailTo(email, lane.startsWith("tr") ? "doğrulayın" : "Confirm your email address")));
    await page.click("#code-submit");
    await page.waitForSelector("#person-name");
    proven.set(lane, (await cookies()).find(({ name }) => name === "sealgate-registration"));
  } else {
    await createAccount(page);
    await page.context().addCookies([proven.get(lane)]);
    await page.goto(page.url().replace("/create-account?", "/create-account/finish?"));
  }
  await page.waitForSelector("#person-name");
}

async function newAccountWrong(page, lane) {
  await newAccount(page, lane);
  await page.fill("#person-name", "Gülşah Karaosmanoğlu");
  await page.fill("#new-password", "short");
  await page.click("#new-password-submit");
  await page.waitForSelector("#password-problem");
}

async function newAccountPasskey(page, lane) {
  await newAccount(page, lane);
  await page.fill("#person-name", "Gülşah Karaosmanoğlu");
  await page.click("#choose-passkey");
  await page.waitForSelector("#choose-password");
}

/// Opens the page that asks for the mailed code of the second user, whose address is not verified.
async function mailedCode(page, lane) {
  await page.goto(`${ISSUER}/account/address`);
  await signIn(page, second(lane));
  await page.click("#verify");
  await page.waitForSelector("#code-submit");
}

async function wrongAddress(page, lane) {
  await fresh(page, lane, `${ISSUER}/account/address/new`);
  await page.fill("#address", "şule@example.test");
  await page.click("#address-submit");
  await page.waitForSelector("#address-problem");
}

/// Registers a client in the console. The form requires a recent sign-in. The resulting page shows the
/// secret once.
async function register(page, lane) {
  await fresh(page, lane, `${ISSUER}/console/clients/new`);
  await page.fill("#name", "Öğrenci İşleri Randevu ve Başvuru Takip Uygulaması");
  await page.fill("#redirect_uris", `${CALLBACK}\nhttps://ogrenci-isleri.universite.example.test/oturum/geri-donus`);
  await page.click("#client-register");
  await page.waitForSelector("#new-secret");
}

/// Registers a client and opens the code examples on its page.
async function readSnippets(page, lane) {
  await register(page, lane);
  await page.click(".sections a[href$='/connect']");
  await page.click("#libraries a[href*='library=spring-boot']");
  await page.waitForSelector("#snippet-springboot");
}

async function setLogo(page, lane) {
  await register(page, lane);
  await page.click(".sections a[href$='/logo']");
  // 32 x 32 pixels of one colour.
  const png = "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKklEQVR42mPgigmmKWIYtWDUglELRi0YtWDUglELRi0YtWDUglELhooFAC765B8Ou8+rAAAAAElFTkSuQmCC";
  await page.setInputFiles("#logo", { name: "logo.png", mimeType: "image/png", buffer: Buffer.from(png, "base64") });
  await page.click("#client-logo-save");
  await page.waitForSelector(".logo-shown");
}

async function turnTestSignInOn(page, lane) {
  await register(page, lane);
  await page.click("a[href*='/console/try/']");
  await page.click("#client-test-on");
  await page.waitForSelector("#client-test-off");
}

async function tryClient(page, lane) {
  await turnTestSignInOn(page, lane);
  await page.click("#client-test-start");
  await page.click("#consent-allow");
  await page.waitForSelector("[role=status].done");
}

/// Opens the page of a user as the auditor, who reads it without forms.
async function readPerson(page, lane) {
  await freshAs(page, `denetci.${lane}@example.test`, `${ISSUER}/console/users`);
  await page.goto(`${ISSUER}/console/users?find=${encodeURIComponent(second(lane))}`);
  await page.click("a.name");
  await page.waitForSelector("#user-groups");
}

/// Opens the page of a managed user as the user manager, who changes only the managed groups.
async function managePerson(page, lane) {
  await freshAs(page, `sorumlu.${lane}@example.test`, `${ISSUER}/console/users`);
  await page.goto(`${ISSUER}/console/users?find=${encodeURIComponent(`ogrenci.${lane}@example.test`)}`);
  await page.click("a.name");
  await page.waitForSelector("#member1");
}

/// Opens the page of a user, or a section of it.
async function person(page, email, section = "") {
  await page.goto(`${ISSUER}/console/users?find=${encodeURIComponent(email)}`);
  await page.click("a.name");
  await page.waitForSelector("#user-save");
  if (section) await page.click(`.sections a[href$='/${section}']`);
  if (section) await page.waitForURL(`**/${section}`);
}

/// Opens the question whether to add two users to a group. It requires a recent sign-in.
async function addToGroup(page, lane) {
  await fresh(page, lane, `${ISSUER}/console/users`);
  await page.goto(`${ISSUER}/console/users?find=${encodeURIComponent(lane)}&sort=address`);
  for (const box of (await page.$$("[name=user]")).slice(0, 3)) await box.check();
  await page.selectOption("#action", "add-to-group");
  await page.fill("#to_group", "zorunlu");
  await page.click("#bulk");
  await page.waitForSelector("#confirm");
}

/// Opens the question whether to rename a group that the configuration names.
async function renameGroup(page, lane) {
  await fresh(page, lane, `${ISSUER}/console/users`);
  await page.goto(`${ISSUER}/console/groups/members?name=zorunlu`);
  await page.fill("#to", "ikinci adım zorunlu");
  await page.click("#group-rename");
  await page.waitForSelector("#confirm");
}

/// Opens the form for a new user, which requires a recent sign-in. Without a lane, the page's session is
/// recent.
async function newUser(page, lane) {
  const address = `${ISSUER}/console/users/new`;
  if (lane) await fresh(page, lane, address);
  else await page.goto(address);
}

async function addPerson(page, lane) {
  await newUser(page, lane);
  await page.fill("#email", `yeni.${crypto.randomUUID()}@example.test`);
  await page.fill("#name", "Çiğdem Yılmazer");
  await page.fill("#groups", "staff");
  await page.click("#user-add");
  await page.waitForSelector("#new-password");
}

/// Invites a user with a long address, and opens the page that the first user sees.
async function inviteInConsole(page, lane, email = `mehmet-cemalettin.karahasanogullari.${crypto.randomUUID().slice(0, 8)}@ogrenci-isleri.universite.example.test`) {
  await newUser(page, lane);
  await page.fill("#email", email);
  await page.fill("#name", "Mehmet Cemalettin Karahasanoğulları");
  await page.selectOption("#app", "legacy");
  await page.click("#user-invite");
  await page.waitForSelector("#user-withdraw-invitation");
}

async function withdrawInConsole(page, lane) {
  await inviteInConsole(page, lane);
  await page.click("#user-withdraw-invitation");
  await page.waitForSelector("#user-withdraw-invitation", { state: "detached" });
}

async function inviteBadly(page, lane) {
  await newUser(page, lane);
  await page.fill("#email", "mehmet..karahasanogullari@example.test");
  await page.click("#user-invite");
  await page.waitForSelector("[role=alert]");
}

/// Opens the page of an invitation. The states of a lane share an invitation, because opening it
/// does not use it up.
const invitations = new Map();
async function invitation(page, lane) {
  if (!invitations.has(lane)) {
    const email = `${crypto.randomUUID()}@ogrenci-isleri.universite.example.test`;
    const inviter = await open(page.context().browser());
    await inviter.page.goto(`${ISSUER}/console/users/new`);
    await signIn(inviter.page, first(lane));
    await inviter.page.waitForSelector("#user-invite");
    await inviteInConsole(inviter.page, undefined, email);
    await inviter.context.close();
    invitations.set(lane, linkIn(await mailTo(email, "You have been invited")));
  }
  await page.goto(invitations.get(lane));
  await page.waitForSelector("#new-password-submit");
}

async function acceptBadly(page, lane) {
  await invitation(page, lane);
  await page.fill("#new-password", "short");
  await page.click("#new-password-submit");
  await page.waitForSelector("#password-problem");
}

async function choosePasskey(page, lane) {
  await invitation(page, lane);
  await page.click("#choose-passkey");
  await page.waitForSelector("#choose-password");
}

/// Opens the page that reverts a change of address. The attacker who changed the address has also
/// added an authenticator app or a passkey, with `adds`.
const undos = new Map();
async function takeBack(page, lane, name, adds) {
  const old = `${name}.${lane}@example.test`;
  if (!undos.has(old)) {
    const entered = await open(page.context().browser(), { language: lane.slice(0, 2) });
    const thief = entered.page;
    await authenticator(entered);
    await thief.goto(`${ISSUER}/account/security`);
    await signIn(thief, old);
    await adds(thief);
    await thief.waitForSelector("[role=status].done");
    await thief.goto(`${ISSUER}/account/address/new`);
    const next = `${name}.yeni-ve-uzun-bir-adres.${lane}@baska-bir-kurulus.example.test`;
    await thief.fill("#address", next);
    await thief.click("#address-submit");
    const words = (en, tr) => lane.startsWith("tr") ? tr : en;
    await thief.fill("#code", codeIn(await mailTo(next, words("Confirm your new email address", "Yeni e-posta adresinizi doğrulayın"))));
    await thief.click("#code-submit");
    await thief.waitForSelector("[role=status].done");
    await entered.context.close();
    undos.set(old, linkIn(await mailTo(old, words("Your email address was changed", "E-posta adresiniz değiştirildi"))));
  }
  await page.goto(undos.get(old));
  await page.waitForSelector("#undo-submit");
}

async function addsApp(page) {
  await page.click("#add-totp");
  await page.fill("#name", "Başkasının telefonundaki doğrulama uygulaması");
  await page.fill("#code", await earlyTotp(await page.textContent("#totp-secret")));
  await page.click("#totp-confirm");
}

async function addsPasskey(page) {
  await page.click("#add-key");
  await page.click("#enrol-passkey");
}

async function takenBack(page, lane, name, adds) {
  await takeBack(page, lane, name, adds);
  await page.click("#undo-submit");
  await page.waitForSelector("#added");
}

/// Opens an application, stores a password for a program and one for an application, and shows the
/// table of all accesses.
async function everyAccess(page) {
  await page.goto(`${APP}/`);
  await post(page, `${ISSUER}/account/app-passwords`, { "#name": "Dizüstündeki git" }, "#app-password-make");
  const fields = { "#app_username": "gulsah.karaosmanoglu@toplanti.example.test", "#app_password": "parola" };
  await post(page, `${ISSUER}/account/app-logins?app=notes`, fields, "#app-login-save");
  await page.goto(`${ISSUER}/account/sessions`);
  await page.click("summary");
}

export const STATES = [
  { name: "login", as: "nobody", show: at(authorize()) },
  { name: "login-hint", as: "nobody", show: (page, lane) => page.goto(authorize({ login_hint: first(lane) })) },
  { name: "login-own", as: "nobody", show: at(`${ISSUER}/account`) },
  { name: "login-gate", as: "nobody", show: at(`${APP}/report`) },
  { name: "login-wrong", as: "nobody", show: (page) => wrong(page, 200) },
  { name: "login-throttled", as: "nobody", status: 429, show: (page) => wrong(page, 429) },
  { name: "login-again", as: "first", show: at(authorize({ prompt: "login" })) },
  { name: "login-max-age", as: "first", show: at(authorize({ max_age: "0" })) },
  { name: "forgot-password", as: "nobody", show: forgotten },
  {
    name: "forgot-password-asked", as: "nobody",
    show: (page) => askForLink(page, `nobody.${crypto.randomUUID()}@example.test`),
  },
  { name: "reset", as: "nobody", show: choosePassword },
  { name: "reset-wrong", as: "nobody", show: chooseShortPassword },
  { name: "reset-done", as: "nobody", show: at(`${ISSUER}/oauth/reset/done`) },
  { name: "invitation", as: "nobody", show: invitation },
  { name: "invitation-wrong", as: "nobody", show: acceptBadly },
  { name: "invitation-passkey", as: "nobody", show: choosePasskey },
  { name: "invitation-shared", as: "second", show: invitation },
  { name: "undo", as: "nobody", show: (page, lane) => takeBack(page, lane, "geri", addsApp) },
  { name: "undo-done", as: "nobody", show: (page, lane) => takenBack(page, lane, "geri", addsApp) },
  { name: "undo-closed", as: "nobody", show: (page, lane) => takenBack(page, lane, "kapanan", addsPasskey) },
  { name: "create-account", as: "nobody", show: createAccount },
  {
    name: "create-account-wrong", as: "nobody",
    show: async (page) => {
      await enterAddress(page, "şule@example.test");
      await page.waitForSelector("#register-problem");
    },
  },
  { name: "create-account-code", as: "nobody", show: newAddressCode },
  { name: "create-account-code-wrong", as: "nobody", show: wrongNewAddressCode },
  { name: "create-account-finish", as: "nobody", show: newAccount },
  { name: "create-account-finish-wrong", as: "nobody", show: newAccountWrong },
  { name: "create-account-finish-passkey", as: "nobody", show: newAccountPasskey },
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
      { "#current": "x", "#new": "one two three four", "#again": "four three two one" }, "#password-submit"),
  },
  { name: "account-address", as: "first", show: at(`${ISSUER}/account/address`) },
  { name: "account-address-unverified", as: "second", show: at(`${ISSUER}/account/address`) },
  { name: "account-address-code", as: "nobody", show: mailedCode },
  { name: "account-address-new", as: "nobody", show: (page, lane) => fresh(page, lane, `${ISSUER}/account/address/new`) },
  { name: "account-address-new-wrong", as: "nobody", show: wrongAddress },
  { name: "factor-app", as: "nobody", factors: true, show: (page, lane) => secondStep(page, lane, "totp") },
  { name: "factor-app-wrong", as: "nobody", factors: true, show: (page, lane) => wrongCode(page, lane, "totp") },
  { name: "factor-key", as: "nobody", factors: true, show: (page, lane) => secondStep(page, lane, "key") },
  { name: "factor-recovery", as: "nobody", factors: true, show: (page, lane) => secondStep(page, lane, "recovery") },
  { name: "factor-recovery-wrong", as: "nobody", factors: true, show: (page, lane) => wrongCode(page, lane, "recovery") },
  { name: "enrol", as: "nobody", show: (page, lane) => enrolment(page, lane) },
  { name: "enrol-app", as: "nobody", show: (page, lane) => enrolment(page, lane, "#enrol-totp") },
  { name: "enrol-key", as: "nobody", show: (page, lane) => enrolment(page, lane, "#enrol-key") },
  { name: "account-security-factors", as: "third", show: at(`${ISSUER}/account/security`) },
  { name: "account-security", as: "first", show: at(`${ISSUER}/account/security`) },
  { name: "account-security-app", as: "nobody", show: (page, lane) => fresh(page, lane, `${ISSUER}/account/security/app`) },
  {
    name: "account-security-app-wrong", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/account/security/app`);
      await page.fill("#code", "123");
      await page.click("#totp-confirm");
      await page.waitForSelector("[role=alert]");
    },
  },
  { name: "account-security-key", as: "nobody", show: (page, lane) => fresh(page, lane, `${ISSUER}/account/security/key`) },
  { name: "account-link", as: "nobody", show: linkForm },
  {
    name: "account-link-away", as: "nobody", status: 503,
    async show(page, lane) {
      await linkForm(page, lane);
      await page.fill("#account", "isik.agaoglu");
      await page.fill("#password", "parola");
      await leave(page, () => page.click("#link-submit"));
      await page.waitForSelector("#link-problem");
    },
  },
  { name: "account-sessions", as: "first", show: everyAccess },
  { name: "account-applications", as: "first", show: at(`${ISSUER}/account/applications`) },
  { name: "account-app-passwords", as: "first", show: at(`${ISSUER}/account/app-passwords`) },
  {
    name: "account-app-password-made", as: "first",
    show: (page) => post(page, `${ISSUER}/account/app-passwords`, { "#name": "Dizüstündeki git" }, "#app-password-make"),
  },
  {
    name: "account-app-password-header", as: "first",
    async show(page) {
      await page.goto(`${ISSUER}/account/app-passwords`);
      await page.selectOption("#app", "photos");
      await page.fill("#name", "Telefondaki fotoğraf uygulaması");
      await page.click("#app-password-make");
      await page.waitForSelector("#app-password-use code");
    },
  },
  {
    name: "account-app-password-wrong", as: "first",
    show: (page) => post(page, `${ISSUER}/account/app-passwords`, {}, "#app-password-make"),
  },
  { name: "account-app-logins", as: "first", show: at(`${ISSUER}/account/app-logins`) },
  { name: "account-app-login-form", as: "first", show: at(`${ISSUER}/account/app-logins?app=notes`) },
  {
    name: "account-app-login-wrong", as: "first",
    show: (page) => post(page, `${ISSUER}/account/app-logins?app=notes`, { "#app_username": "gulsah" }, "#app-login-save"),
  },
  {
    name: "account-app-login-saved", as: "first",
    async show(page) {
      const fields = { "#app_username": "gulsah.karaosmanoglu@toplanti.example.test", "#app_password": "parola" };
      await post(page, `${ISSUER}/account/app-logins?app=notes`, fields, "#app-login-save");
      await page.waitForSelector("#app-login-open");
    },
  },
  { name: "home", as: "first", show: at(`${ISSUER}/`) },
  {
    name: "home-passkey-offer", as: "first", alone: true,
    async show(page, lane) {
      await authenticator({ page, context: page.context() });
      await page.goto(`${ISSUER}/`);
      if (lane.endsWith("script")) await page.waitForSelector("#passkey-offer:not([hidden])");
    },
  },
  { name: "account-activity", as: "first", show: at(`${ISSUER}/account/activity`) },
  {
    name: "console-overview", as: "first",
    // The figures are counted when the first administrator opens the page.
    async show(page) {
      await page.goto(`${ISSUER}/console`);
      for (let tries = 0; tries < 50 && (await page.locator("#overview-counting").count()) > 0; tries += 1) await page.reload();
      await page.waitForSelector("#overview-users");
    },
  },
  { name: "console-clients", as: "first", show: at(`${ISSUER}/console/clients`) },
  { name: "console-client-new", as: "nobody", show: (page, lane) => fresh(page, lane, `${ISSUER}/console/clients/new`) },
  {
    name: "console-client-wrong", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/clients/new`);
      await post(page, `${ISSUER}/console/clients/new`,
        { "#redirect_uris": "https://*.example.test/", "#post_logout_redirect_uris": "http://example.test/" }, "#client-register");
    },
  },
  { name: "console-client", as: "first", show: at(`${ISSUER}/console/clients/reports`) },
  { name: "console-client-connect", as: "first", show: at(`${ISSUER}/console/clients/reports/connect`) },
  {
    name: "console-client-secrets", as: "nobody",
    async show(page, lane) {
      await register(page, lane);
      await page.click(".sections a[href$='/secrets']");
      await page.waitForSelector(".sections a[href$='/secrets'][aria-current=page]");
    },
  },
  { name: "console-client-rules", as: "first", show: at(`${ISSUER}/console/clients/reports/rules`) },
  { name: "console-client-grants", as: "first", show: at(`${ISSUER}/console/clients/reports/grants`) },
  { name: "console-client-danger", as: "first", show: at(`${ISSUER}/console/clients/reports/danger`) },
  { name: "console-client-secret", as: "nobody", show: register },
  { name: "console-client-snippets", as: "nobody", show: readSnippets },
  { name: "console-client-logo", as: "nobody", show: setLogo },
  { name: "console-try", as: "first", show: at(`${ISSUER}/console/try/reports`) },
  { name: "console-try-on", as: "nobody", show: turnTestSignInOn },
  { name: "console-try-done", as: "nobody", show: tryClient },
  { name: "console-users", as: "first", show: at(`${ISSUER}/console/users`) },
  { name: "console-users-filtered", as: "first", show: at(`${ISSUER}/console/users?find=example&role=admin&sort=created&reversed=yes`) },
  { name: "console-users-none", as: "first", show: at(`${ISSUER}/console/users?find=nobody@example.test`) },
  { name: "console-user-new", as: "nobody", show: newUser },
  {
    name: "console-user-wrong", as: "nobody",
    show: async (page, lane) => {
      await newUser(page, lane);
      await post(page, `${ISSUER}/console/users/new`, { "#email": first(lane), "#groups": "a b\u0007" }, "#user-add");
    },
  },
  { name: "console-user-invited", as: "nobody", show: (page, lane) => inviteInConsole(page, lane) },
  { name: "console-user-invitation-wrong", as: "nobody", show: inviteBadly },
  { name: "console-user-invitation-withdrawn", as: "nobody", show: withdrawInConsole },
  {
    name: "console-users-invite", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users/invite`);
      await page.fill("#users", `Çiğdem Yılmazer, cigdem..yilmazer@example.test\n${first(lane)}`);
      await page.fill("#groups", "staff,öğrenciler");
      await page.click("#invite-preview");
      await page.waitForSelector("#invite-faults");
    },
  },
  {
    name: "console-users-invite-confirm", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users/invite`);
      await page.fill("#users", "Mehmet Cemalettin Karahasanoğulları, mehmet-cemalettin.karahasanogullari@ogrenci-isleri.universite.example.test\nÇiğdem Yılmazer <cigdem.yilmazer@example.test>");
      await page.fill("#groups", "staff");
      await page.click("#invite-preview");
      await page.waitForSelector("#invite-users");
    },
  },
  {
    name: "console-users-invite-manager", as: "nobody",
    async show(page, lane) {
      await freshAs(page, `sorumlu.${lane}@example.test`, `${ISSUER}/console/users/invite`);
      await page.fill("#users", "Çiğdem Yılmazer <cigdem.yilmazer@example.test>");
      await page.click("#invite-preview");
      await page.waitForSelector("#invite-faults");
    },
  },
  {
    name: "console-users-import", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users/import`);
      await page.fill("#csv", `email,name,groups,state\n${first(lane)},Birinci,,\nx,Çiğdem Yılmazer,staff,off\n`);
      await page.click("#import-preview");
      await page.waitForSelector("#import-faults");
    },
  },
  {
    name: "console-users-import-confirm", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users/import`);
      const list = "email,name,groups,state\nmehmet-cemalettin.karahasanogullari@ogrenci-isleri.universite.example.test,Mehmet Cemalettin Karahasanoğulları,staff,\ncigdem.yilmazer@example.test,Çiğdem Yılmazer,,disabled\n";
      await page.setInputFiles("#file", { name: "users.csv", mimeType: "text/csv", buffer: Buffer.from(list) });
      await page.click("#import-preview");
      await page.waitForSelector("#import-users");
    },
  },
  {
    name: "console-user-promotion", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users`);
      await person(page, `ogrenci.${lane}@example.test`);
      await page.check("#role_auditor");
      await page.click("#user-save");
      await page.waitForSelector("#promotion");
    },
  },
  {
    name: "console-user-disabled-manager", as: "nobody",
    async show(page, lane) {
      await freshAs(page, `sorumlu.${lane}@example.test`, `${ISSUER}/console/users`);
      await page.goto(`${ISSUER}/console/users?find=${encodeURIComponent(`kapali.${lane}@example.test`)}`);
      await page.click("a.name");
      await page.click(".sections a[href$='/danger']");
      await page.waitForSelector("#user-disabled-by-administrator");
    },
  },
  { name: "console-users-invited", as: "first", show: at(`${ISSUER}/console/users?find=mehmet`) },
  { name: "console-user-added", as: "nobody", show: addPerson },
  { name: "console-user-auditor", as: "nobody", show: readPerson },
  { name: "console-user-manager", as: "nobody", show: managePerson },
  { name: "console-user", as: "first", show: (page, lane) => person(page, second(lane)) },
  { name: "console-user-sessions", as: "first", show: (page, lane) => person(page, second(lane), "sessions") },
  { name: "console-user-applications", as: "first", show: (page, lane) => person(page, first(lane), "applications") },
  { name: "console-user-security", as: "first", show: (page, lane) => person(page, second(lane), "security") },
  { name: "console-user-danger", as: "first", show: (page, lane) => person(page, second(lane), "danger") },
  {
    name: "console-user-confirm", as: "nobody",
    // The page requires a sign-in of the last five minutes.
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users`);
      await person(page, second(lane), "security");
      await page.click("#user-reset-password");
      await page.waitForSelector("#confirm");
    },
  },
  {
    name: "console-user-profile-wrong", as: "first",
    async show(page, lane) {
      await person(page, second(lane));
      await page.fill("#email", first(lane));
      await page.fill("#phone_number", "5551112233");
      await page.click("#user-save-profile");
      await page.waitForSelector("#phone-wrong");
    },
  },
  {
    name: "console-user-groups-confirm", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users`);
      await person(page, second(lane));
      await page.fill("#groups", "staff\nÖğrenci İşleri Daire Başkanlığı");
      await page.click("#user-save");
      await page.waitForSelector("#confirm");
    },
  },
  { name: "console-bulk", as: "nobody", show: addToGroup },
  {
    name: "console-bulk-result", as: "nobody",
    // A user of the question was deleted in the meantime.
    async show(page, lane) {
      await addToGroup(page, lane);
      await page.evaluate(() => {
        const users = document.querySelectorAll("#content input[name=user]");
        for (const user of users) user.value = crypto.randomUUID();
      });
      await page.click("#confirm");
      await page.waitForSelector("#bulk-skipped");
    },
  },
  {
    name: "console-bulk-none", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/users`);
      await page.click("#bulk");
      await page.waitForSelector("#bulk-back");
    },
  },
  { name: "console-groups", as: "first", show: at(`${ISSUER}/console/groups`) },
  { name: "console-group", as: "first", show: at(`${ISSUER}/console/groups/members?name=zorunlu`) },
  { name: "console-group-empty", as: "first", show: at(`${ISSUER}/console/groups/members?name=staff`) },
  { name: "console-group-confirm", as: "nobody", show: renameGroup },
  { name: "console-user-own", as: "first", show: (page, lane) => person(page, first(lane)) },
  { name: "console-keys", as: "first", show: at(`${ISSUER}/console/keys`) },
  { name: "console-settings", as: "first", show: at(`${ISSUER}/console/settings`) },
  { name: "console-settings-section", as: "first", show: at(`${ISSUER}/console/settings?section=pages`) },
  { name: "console-settings-list", as: "first", show: at(`${ISSUER}/console/settings?section=app`) },
  { name: "console-settings-found", as: "first", show: at(`${ISSUER}/console/settings?find=seconds`) },
  {
    name: "console-settings-reload", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/settings`);
      await page.click("#reload");
      await page.waitForSelector("#confirm");
    },
  },
  { name: "console-apps", as: "first", show: at(`${ISSUER}/console/apps`) },
  { name: "console-app", as: "first", show: at(`${ISSUER}/console/apps/legacy`) },
  { name: "console-app-sessions", as: "first", show: at(`${ISSUER}/console/apps/legacy/sessions`) },
  { name: "console-app-edit", as: "first", show: at(`${ISSUER}/console/apps/takim/edit`) },
  { name: "console-app-rule", as: "first", show: at(`${ISSUER}/console/apps/takim/rule?at=1`) },
  {
    name: "console-app-change", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/apps`);
      await page.goto(`${ISSUER}/console/apps/takim/rule?at=1`);
      await page.fill("#groups", "yönetim\nÖğrenci İşleri Daire Başkanlığı");
      await page.click("#rule-save");
      await page.waitForSelector("#difference");
    },
  },
  { name: "console-app-refusals", as: "first", show: at(`${ISSUER}/console/apps/legacy/refusals`) },
  {
    name: "console-check-find", as: "first",
    async show(page, lane) {
      await page.goto(`${ISSUER}/console/check`);
      await page.fill("#user", second(lane).split("@")[0]);
      await page.click("#check-find");
      await page.waitForSelector("#check-found");
    },
  },
  {
    name: "console-check-find-client", as: "first",
    async show(page) {
      await page.goto(`${ISSUER}/console/check?client=rep`);
      await page.click("#check-find-client");
      await page.waitForSelector("#check-found-clients");
    },
  },
  {
    name: "console-check", as: "first",
    async show(page, lane) {
      await page.goto(`${ISSUER}/console/check?user=${encodeURIComponent(second(lane))}`);
      await page.fill("#url", `${APP}/staff/`);
      await page.click("#check-submit");
      await page.waitForSelector("#check-outcome");
    },
  },
  {
    name: "console-new-app", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/new-app`);
      const fields = { "#host": "sohbet.example.test", "#upstream": "http://127.0.0.1:8082", "#title": "Sohbet", "#groups": "personel" };
      for (const [field, value] of Object.entries(fields)) await page.fill(field, value);
      await page.click("#app-new-check");
      await page.waitForSelector("#difference");
    },
  },
  { name: "console-api-tokens", as: "first", show: at(`${ISSUER}/console/api-tokens`) },
  { name: "console-registration-tokens", as: "first", show: at(`${ISSUER}/console/registration-tokens`) },
  {
    name: "console-registration-token-new", as: "nobody",
    async show(page, lane) {
      await fresh(page, lane, `${ISSUER}/console/registration-tokens`);
      await page.fill("#name", "Sürekli tümleştirme");
      await page.selectOption("#registrations", "5");
      await page.click("#token-create");
      await page.click("#confirm");
      await page.waitForSelector("#new-token");
    },
  },
  { name: "console-mail", as: "first", show: at(`${ISSUER}/console/mail`) },
  { name: "console-audit", as: "first", show: at(`${ISSUER}/console/audit`) },
  {
    name: "console-audit-details", as: "first",
    async show(page) {
      await page.goto(`${ISSUER}/console/audit`);
      await page.click(".event summary >> nth=0");
    },
  },
  { name: "console-audit-live", as: "first", show: at(`${ISSUER}/console/audit?kind=signed_in&live=0`) },
  { name: "console-audit-wrong", as: "first", show: at(`${ISSUER}/console/audit?person=nobody&from=x`) },
  { name: "console-forbidden", as: "second", status: 403, show: at(`${ISSUER}/console`) },
  { name: "error-unknown-client", as: "nobody", status: 400, show: at(authorize({ client_id: "stranger" })) },
  { name: "error-redirect-uri", as: "nobody", status: 400, show: at(authorize({ redirect_uri: "https://evil.example/" })) },
  {
    name: "error-logout-redirect-uri", as: "nobody", status: 400,
    show: at(`${ISSUER}/oauth/logout?client_id=reports&post_logout_redirect_uri=https%3A%2F%2Fevil.example%2F`),
  },
  { name: "error-cookie-missing", as: "nobody", status: 400, show: at(`${ISSUER}/oauth/login?interaction=x`) },
  { name: "error-reset-link", as: "nobody", status: 400, show: at(`${ISSUER}/oauth/reset?token=x`) },
  { name: "error-invitation-link", as: "nobody", status: 400, show: at(`${ISSUER}/oauth/invitation?token=x`) },
  { name: "error-undo-link", as: "nobody", status: 400, show: at(`${ISSUER}/oauth/undo?token=x`) },
  { name: "error-nothing-to-do", as: "first", status: 400, show: at(`${ISSUER}/oauth/login?interaction=x`) },
  { name: "error-expired-form", as: "nobody", status: 400, show: forged },
  { name: "error-not-found", as: "nobody", status: 404, show: at(`${ISSUER}/nowhere`) },
  { name: "error-for-programs", as: "nobody", status: 405, show: at(`${ISSUER}/oauth/token`) },
  { name: "error-unknown-host", as: "nobody", status: 421, show: at(`${STRANGER}/`) },
  { name: "gate-not-found", as: "nobody", status: 404, show: at(`${APP}/.sealgate/nothing`) },
  { name: "gate-forbidden", as: "first", status: 403, show: at(`${APP}/staff/`) },
  { name: "gate-upstream-away", as: "nobody", status: 502, show: at(`${AWAY}/`) },
];
