// Keeps a page up to date, counts leases down, and adds a few keys. Pages work without it.
"use strict";

const INTERVAL = 5000;
const PAUSED = "rowlease-paused";
const main = document.querySelector("main");
const status = document.getElementById("live-status");
const button = document.getElementById("live-button");
let loadedAt = Date.now();

// Whether the visitor is in the middle of something that a new page would destroy.
function isBusy() {
  const active = document.activeElement;
  const selection = document.getSelection();
  return document.hidden
    || main.querySelector("input:checked, details[open]") !== null
    || (active !== null && active.matches("input, textarea, select"))
    || (selection !== null && !selection.isCollapsed);
}

function isPaused() {
  return sessionStorage.getItem(PAUSED) === "yes";
}

function say(text) {
  status.textContent = text;
}

// Replaces each part of the page that is marked as live by the same part of a new page.
async function refresh() {
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    if (response.redirected) { location.reload(); return; }
    if (!response.ok) { say(`not updated: ${response.status}`); return; }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (isBusy() || isPaused()) return;
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.querySelector(`[data-live="${part.dataset.live}"]`);
      if (fresh !== null && fresh.innerHTML !== part.innerHTML) {
        const focused = part.contains(document.activeElement)
          ? document.activeElement.getAttribute("href") : null;
        part.replaceWith(fresh);
        if (focused) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
      }
    }
    loadedAt = Date.now();
    say("live");
  } catch {
    say("not updated: the dashboard does not answer");
  }
}

function countDown() {
  const passed = (Date.now() - loadedAt) / 1000;
  for (const cell of document.querySelectorAll("[data-seconds]")) {
    const left = Math.round(Number(cell.dataset.seconds) - passed);
    cell.querySelector("output").textContent = left >= 0 ? `${left} s` : `${-left} s over`;
    const meter = cell.querySelector("meter");
    if (meter !== null) meter.value = Math.max(0, left);
  }
}

function showPaused() {
  const paused = isPaused();
  button.setAttribute("aria-pressed", String(paused));
  say(paused ? "paused" : "live");
}

if (button !== null) {
  button.hidden = false;
  showPaused();
  button.addEventListener("click", () => {
    sessionStorage.setItem(PAUSED, isPaused() ? "no" : "yes");
    showPaused();
  });
  setInterval(() => { if (!isBusy() && !isPaused()) refresh(); }, INTERVAL);
  setInterval(countDown, 1000);
}

for (const all of document.querySelectorAll("input[data-all]")) {
  all.closest("th").hidden = false;
  all.addEventListener("change", () => {
    for (const one of document.querySelectorAll("input[name=id]")) one.checked = all.checked;
  });
}

// "/" goes to the filter. Keys for pages are links with an access key; see the page.
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const filter = document.querySelector("input[type=search]");
    if (filter !== null) { event.preventDefault(); filter.focus(); filter.select(); }
  }
});
