// The mail server of the suite. It stores the messages of the program and parses them like a mail
// client.

import assert from "node:assert/strict";
import PostalMime from "postal-mime";
import { SMTPServer } from "smtp-server";
import { accessible, fitting } from "./checks.mjs";
import { ISSUER, PICTURES, SIZES } from "./world.mjs";

const { MAIL_PORT, MAIL_FROM, OPERATOR } = process.env;
const SCREENSHOTS = new URL("screenshots/", import.meta.url).pathname;

/// Messages that no test has requested yet, and tests that wait for a message.
const kept = [];
const waiting = new Set();
let received = 0;

/// Returns the number of received messages.
export const mailsReceived = () => received;

export async function startMailServer() {
  const server = new SMTPServer({
    disabledCommands: ["AUTH", "STARTTLS"],
    async onData(stream, session, done) {
      try {
        const parts = [];
        for await (const part of stream) parts.push(part);
        const mail = await PostalMime.parse(Buffer.concat(parts));
        const { mailFrom, rcptTo } = session.envelope;
        keep({ ...mail, envelope: { from: mailFrom.address, to: rcptTo.map(({ address }) => address) } });
        done();
      } catch (error) {
        done(error);
      }
    },
  });
  await new Promise((ready, failed) => server.on("error", failed).listen(Number(MAIL_PORT), "127.0.0.1", ready));
  return server;
}

function keep(mail) {
  received += 1;
  for (const one of waiting) {
    if (one.wants(mail)) {
      waiting.delete(one);
      one.got(mail);
      return;
    }
  }
  kept.push(mail);
}

/// Returns the next message to this address whose subject contains these words. Each message is
/// returned once.
export function mailTo(address, words) {
  const wants = ({ envelope, subject }) => envelope.to.includes(address) && subject.includes(words);
  const place = kept.findIndex(wants);
  if (place >= 0) return kept.splice(place, 1)[0];
  return new Promise((got, failed) => {
    const one = { wants, got: (mail) => { clearTimeout(late); got(mail); } };
    const late = setTimeout(() => {
      waiting.delete(one);
      const others = kept.filter(({ envelope }) => envelope.to.includes(address)).map(({ subject }) => subject);
      failed(new Error(`no mail "${words}" came to ${address}, but ${JSON.stringify(others)}`));
    }, 30_000);
    waiting.add(one);
  });
}

const linksIn = ({ text }) => [...new Set(text.match(/https?:\/\/\S+/g))];

/// Returns the only link in a message.
export function linkIn(mail) {
  const links = linksIn(mail);
  assert.equal(links.length, 1, `not exactly one link: ${mail.text}`);
  return links[0];
}

/// Returns the verification code in a message, which must contain no link.
export function codeIn(mail) {
  const codes = mail.text.match(/^ *\d{4} \d{4}$/gm);
  assert.equal(codes?.length, 1, `not exactly one code: ${mail.text}`);
  assert.deepEqual(linksIn(mail), []);
  return codes[0].trim();
}

/// Checks a message in a browser: sender, recipient, language, its only link or its code, no
/// external resources, and the layout on a phone. Returns the link or the code. `name`: name of the
/// screenshots. `issuer`: the provider that sent it.
export async function read(enter, mail, { to, language, title, name, hasCode = false, issuer = ISSUER }) {
  assert.deepEqual(mail.envelope, { from: MAIL_FROM, to: [to] });
  assert.deepEqual(mail.from, { name: OPERATOR, address: MAIL_FROM });
  assert.deepEqual(mail.to.map(({ address }) => address), [to]);
  assert.equal(mail.subject, `${title} – ${OPERATOR}`);
  assert.equal(mail.headers.find(({ key }) => key === "auto-submitted")?.value, "auto-generated");
  assert.deepEqual(mail.attachments, []);
  const wanted = hasCode ? codeIn(mail) : linkIn(mail);
  if (!hasCode) assert.ok(wanted.startsWith(`${issuer}/`), wanted);
  assert.doesNotMatch(mail.html, /url\(|@import|<(script|link|img|iframe|object|form|svg)\b|\s(src|srcset|background)=/i);
  // axe-core needs scripts.
  const { page, journal } = await enter({ scripts: true, isSimple: true });
  await page.setViewportSize(SIZES.narrow);
  await page.setContent(mail.html);
  const said = await page.evaluate(() => ({
    language: document.documentElement.lang,
    heading: document.querySelector("h1").textContent,
    code: document.querySelector(".code")?.textContent,
    links: [...document.querySelectorAll("[href]")].map((element) => element.getAttribute("href")),
    words: document.body.innerText,
  }));
  assert.deepEqual([said.language, said.heading], [language, title]);
  assert.deepEqual([said.links, said.code], hasCode ? [[], wanted] : [[wanted], undefined]);
  // Both parts have the same content: each line of the text part, except the separator before the
  // footer, is also in the HTML part.
  const plain = (text) => text.replace(/\s+/g, " ").trim();
  for (const line of mail.text.split("\n").map(plain).filter((line) => line !== "--")) {
    assert.ok(plain(said.words).includes(line) || said.links.includes(line), `only in the text: ${line}`);
  }
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const faults = [...await fitting(page), ...await accessible(page, colorScheme === "light" ? "all" : "colors", ["best-practice"])];
    assert.deepEqual(faults, [], `${name} (${colorScheme})`);
    if (PICTURES) await page.screenshot({ path: `${SCREENSHOTS}mail-${name}.${language}.narrow.${colorScheme}.png`, fullPage: true });
  }
  assert.deepEqual(journal.responses.map((response) => response.url()), []);
  return wanted;
}
