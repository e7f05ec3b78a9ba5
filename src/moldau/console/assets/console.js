// What makes the pages comfortable; every page can be read without it.
"use strict";
(() => {
  const REFRESH_MS = 5000;
  const SHADES = ["system", "light", "dark"];
  let paused = false;
  let refreshedAt = Date.now();

  const main = () => document.getElementById("content");
  const isBusy = () => {
    // Nothing moves under somebody who is typing, choosing or reading a opened part.
    const at = document.activeElement;
    return at && main() && main().contains(at) && at.matches("input, select, textarea");
  };

  function keep(name, value) {
    try { localStorage.setItem(name, value); } catch { /* only for this page, then */ }
  }

  function showTheme(button) {
    button.textContent = "Theme: " + (document.documentElement.dataset.theme || "system");
  }

  function nextTheme(button) {
    const now = document.documentElement.dataset.theme || "system";
    const next = SHADES[(SHADES.indexOf(now) + 1) % SHADES.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    keep("moldau-theme", next);
    showTheme(button);
  }

  function togglePause(button) {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Go on refreshing" : "Pause refreshing";
  }

  function localTimes(root) {
    for (const each of root.querySelectorAll("time[data-ms]")) {
      const ms = Number(each.dataset.ms);
      if (each.dataset.ms === "" || !(ms >= 0)) continue;
      const at = new Date(ms);
      each.title = each.getAttribute("datetime");
      each.textContent = at.toLocaleString(undefined, {
        year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
        second: "2-digit", timeZoneName: "short",
      });
    }
  }

  function tick() {
    const content = main();
    const told = document.querySelector("[data-role=refreshed]");
    if (told) {
      const seconds = Math.round((Date.now() - refreshedAt) / 1000);
      told.textContent = seconds < 2 ? "just now" : seconds + " s ago";
    }
    if (!content || !content.hasAttribute("hx-get") || paused || document.hidden || isBusy()) return;
    if (Date.now() - refreshedAt >= REFRESH_MS && window.htmx) {
      refreshedAt = Date.now();
      window.htmx.trigger(content, "refresh");
    }
  }

  const ACTIONS = { theme: nextTheme, pause: togglePause };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-action]");
    const action = button && ACTIONS[button.dataset.action];
    if (action) action(button);
    const copied = event.target.closest("[data-copy]");
    if (copied && navigator.clipboard) {
      navigator.clipboard.writeText(new URL(copied.dataset.copy, location.href).href);
      copied.textContent = "Copied";
    }
  });

  document.addEventListener("htmx:afterSwap", () => localTimes(document));
  for (const each of document.querySelectorAll(".needs-script")) each.hidden = false;
  const theme = document.querySelector("[data-action=theme]");
  if (theme) showTheme(theme);
  localTimes(document);
  // On a narrow screen the menu is one line: the page that is shown must not be beyond its edge.
  const here = document.querySelector("nav [aria-current]");
  if (here && here.closest("nav").scrollWidth > here.closest("nav").clientWidth) {
    const nav = here.closest("nav");
    nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
  }
  setInterval(tick, 1000);
})();
