// Enhancements of some pages: security keys and passkeys, recovery codes, the fragment of the requested
// URL, and the redirect URIs of clients. Pages of the console load it only for clients.
"use strict";

// The fragment of the requested URL does not reach the server. Browsers keep the fragment across
// redirects, but not across forms and links. This code adds it to these.
if (location.hash) {
  for (const [selector, name] of [["form[action]", "action"], ["button[formaction]", "formaction"], ["a[hreflang], a[href*='interaction=']", "href"]]) {
    for (const element of document.querySelectorAll(selector)) {
      element.setAttribute(name, element.getAttribute(name).split("#")[0] + location.hash);
    }
  }
}

// Download or print the content of another element.
for (const button of document.querySelectorAll("button[data-downloads]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const lines = document.getElementById(button.dataset.downloads).innerText.replace(/\n+/g, "\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines}\r\n`], { type: "text/plain" }));
    link.download = `${button.dataset.downloads}.txt`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
}
for (const button of document.querySelectorAll("button[data-prints]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}

// Security keys and passkeys. The page contains the options as JSON, and a form returns the
// credential.
const said = document.getElementById("ceremony");
const say = (word) => { if (said) said.textContent = word ? said.dataset[word] : ""; };
const keys = window.PublicKeyCredential;
const hasKeys = Boolean(keys && keys.parseRequestOptionsFromJSON && keys.prototype.toJSON);
const KEY_WORDS = { InvalidStateError: "known", SecurityError: "security", NotSupportedError: "unsupported", ConstraintError: "unsupported" };

// Browsers allow one request at a time, so a new request starts after the previous request has
// ended.
let control, ended;
function ask(button, waits) {
  if (control) control.abort();
  control = new AbortController();
  return ended = Promise.all([ended]).then(() => request(button, waits, control.signal));
}

// If `waits` is true, the request is pending until the user selects a passkey in a field
// (conditional mediation), and shows no message.
async function request(button, waits, signal) {
  const { form, dataset: { gets, creates, kind } } = button;
  const mediation = waits ? "conditional" : undefined;
  const since = Date.now();
  let timeout = Infinity;
  try {
    const options = JSON.parse(creates || gets);
    timeout = options.timeout;
    if (!waits) say("waiting");
    const credential = await (creates
      ? navigator.credentials.create({ publicKey: keys.parseCreationOptionsFromJSON(options), signal })
      : navigator.credentials.get({ publicKey: keys.parseRequestOptionsFromJSON(options), mediation, signal }));
    if (signal.aborted) return;
    form.elements.credential.value = JSON.stringify(credential);
    if (kind) form.elements.kind.value = kind;
    if (button.hasAttribute("formaction")) form.action = button.formAction;
    form.submit();
  } catch (error) {
    if (waits || signal.aborted) return;
    const late = Date.now() - since >= timeout;
    say(error.name === "NotAllowedError" ? (late ? "late" : "cancelled") : KEY_WORDS[error.name] || "failed");
    offer(button);
  }
}

// A challenge expires with its sign-in. An expired page is reloaded unless the user has started
// typing.
async function offer(button) {
  const { seconds } = button.dataset;
  if (!seconds || !keys.isConditionalMediationAvailable || !await keys.isConditionalMediationAvailable()) return;
  ask(button, true);
}
function renew(button) {
  const typed = [...document.querySelectorAll("input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);
  if (typed) control?.abort();
  else if (document.hidden) document.addEventListener("visibilitychange", () => renew(button), { once: true });
  else location.reload();
}

for (const button of document.querySelectorAll("button[data-gets], button[data-creates]")) {
  if (!hasKeys) { if (!button.dataset.seconds) say("unsupported"); continue; }
  button.hidden = false;
  button.addEventListener("click", () => ask(button, false));
  // Do not offer a passkey after a refusal. An authenticator that answers without interaction would
  // cause an endless loop.
  if (!("refused" in button.dataset)) offer(button);
  if (button.dataset.seconds) setTimeout(() => renew(button), button.dataset.seconds * 1000);
}
for (const element of document.querySelectorAll("[data-without-scripts]")) element.hidden = true;

// Offer a passkey on the home page if this device can store one, until the user declines.
const passkeyOffer = document.getElementById("passkey-offer");
if (passkeyOffer && hasKeys && !localStorage.getItem("passkey-offer-declined")) {
  keys.isUserVerifyingPlatformAuthenticatorAvailable().then((available) => { passkeyOffer.hidden = !available; }, () => {});
  document.getElementById("passkey-later").addEventListener("click", () => {
    localStorage.setItem("passkey-offer-declined", "1");
    passkeyOffer.hidden = true;
    document.getElementById("content").focus();
  });
}

// Inform the browser's passkey store about the user's passkeys and details. Never report an unknown
// passkey, because that would delete it.
for (const { dataset } of document.querySelectorAll("[data-details]")) {
  for (const [signal, json] of [["signalAllAcceptedCredentials", dataset.accepted], ["signalCurrentUserDetails", dataset.details]]) {
    if (json && keys && keys[signal]) keys[signal](JSON.parse(json)).catch(() => {});
  }
}

// Validate redirect URIs, one per line, by the rules that the server checks again. The first error
// is shown with its line.
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
  // Delay the first error until typing pauses. Update a visible error at once. Do not validate when
  // the field loses focus: the message would move the button away from the pointer that presses it.
  let pause;
  field.addEventListener("input", () => {
    clearTimeout(pause);
    if (message.textContent) check();
    else pause = setTimeout(check, 700);
  });
}
