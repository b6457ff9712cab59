// Comfort for those who have scripts: every page does all its work without this file. No library, no network.
"use strict";

// Show the password. The button is in the page, hidden, so that its words are the page's.
for (const button of document.querySelectorAll("button[data-reveals]")) {
  const field = document.getElementById(button.dataset.reveals);
  if (!field) continue;
  button.hidden = false;
  button.addEventListener("click", () => {
    const shown = field.type === "password";
    field.type = shown ? "text" : "password";
    button.setAttribute("aria-pressed", String(shown));
    field.focus();
  });
  // A browser that remembers what text fields held must not remember this.
  if (field.form) field.form.addEventListener("submit", () => { field.type = "password"; });
}

// Say when Caps Lock is on, while a password is typed. The words stay when the field is left: were they to go, the button would
// move away from under the pointer that presses it.
for (const hint of document.querySelectorAll("[data-caps-of]")) {
  const field = document.getElementById(hint.dataset.capsOf);
  if (!field) continue;
  const tell = (event) => {
    if (!event.getModifierState) return;
    const words = event.getModifierState("CapsLock") ? hint.dataset.words : "";
    if (hint.textContent !== words) hint.textContent = words;
  };
  field.addEventListener("keydown", tell);
  field.addEventListener("keyup", tell);
}

// Times in the reader's own zone. The server writes them in UTC, since it knows no other.
// The order of a date is that of the page's language.
const language = document.documentElement.lang;
for (const element of document.querySelectorAll("time[datetime]")) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) continue;
  element.title = element.textContent;
  const month = language === "tr" ? "2-digit" : "short";
  const second = "seconds" in element.dataset ? "2-digit" : undefined;
  element.textContent = at.toLocaleString(language === "tr" ? "tr" : "en-GB",
    { day: language === "tr" ? "2-digit" : "numeric", month, year: "numeric", hour: "2-digit", minute: "2-digit", second });
}

// Days that are asked for are the reader's own, like the times.
for (const field of document.querySelectorAll("input[data-zone]")) field.value = new Date().getTimezoneOffset();

// Copy what stands in another element.
for (const button of document.querySelectorAll("button[data-copies]")) {
  const source = document.getElementById(button.dataset.copies);
  if (!source || !navigator.clipboard) continue;
  button.hidden = false;
  const words = button.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = button.dataset.done;
    setTimeout(() => { button.textContent = words; }, 2000);
  });
}

// Redirect URIs, one a line, by the rules that the server checks again. The first fault is told, with its line.
const URI_RULES = [
  ["long", (uri) => uri.length <= 2000],
  // eslint-disable-next-line no-control-regex
  ["characters", (uri) => !/[\u0000-\u0020\u007f-\uffff\\"<>]/.test(uri)],
  ["absolute", (uri) => URL.canParse(uri)],
  ["wildcard", (uri) => !uri.includes("*")],
  ["fragment", (uri) => !uri.includes("#")],
  ["user", (uri) => { const url = new URL(uri); return !url.username && !url.password; }],
  ["scheme", (uri) => /^https:\/\//.test(uri) || /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d*)?([/?]|$)/.test(uri)],
  ["host", (uri) => /^http:/.test(uri) || /^https:\/\/([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d*)?([/?]|$)/.test(uri)],
];
for (const field of document.querySelectorAll("textarea[data-uris]")) {
  const message = document.getElementById(field.dataset.uris);
  if (!message) continue;
  const check = () => {
    const lines = field.value.split("\n").map((line) => line.trim());
    const at = lines.findIndex((line) => line && URI_RULES.some(([, sound]) => !sound(line)));
    const fault = at < 0 ? null : URI_RULES.find(([, sound]) => !sound(lines[at]))[0];
    const words = fault ? message.dataset[fault].replace("#", String(at + 1)) : "";
    if (message.textContent !== words) message.textContent = words;
    if (fault) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  };
  // Nobody is told of a fault in the middle of a word; once they were, they see at once that it is gone. Not when the field
  // is left: the words would push the button from under the pointer that has just pressed it.
  let pause;
  field.addEventListener("input", () => {
    clearTimeout(pause);
    if (message.textContent) check();
    else pause = setTimeout(check, 700);
  });
}

// Go on with a form that waits for nobody. Its button is for those without scripts.
for (const form of document.querySelectorAll("form[data-sends-itself]")) form.submit();
