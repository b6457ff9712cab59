// Enhancements of all pages for browsers with scripts. Every page works without this file. No library,
// no network.
"use strict";

// Show the password. The button is hidden in the page, which also contains its label.
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
  // Restore the type before sending, so that the browser does not save the password as the value of
  // a text field.
  if (field.form) field.form.addEventListener("submit", () => { field.type = "password"; });
}

// Show a hint when Caps Lock is on while a password is typed. The hint stays when the field loses
// focus. If it disappeared, the button would move away from the pointer that presses it.
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

// Show times in the reader's time zone. The server writes UTC, because it has no information about
// the time zone. The order of a date follows the page's language.
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

// Days of a filter are in the reader's time zone, like the times.
for (const field of document.querySelectorAll("input[data-zone]")) field.value = new Date().getTimezoneOffset();

// Show the current entry of a menu that scrolls.
for (const current of document.querySelectorAll(":is(.menu, .sections) [aria-current]")) {
  const menu = current.closest("ul");
  menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
}

// Copy the content of another element.
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
