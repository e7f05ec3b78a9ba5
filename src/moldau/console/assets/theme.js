// Before the first paint: the theme that was chosen in this browser, if one was.
"use strict";
try {
  const theme = localStorage.getItem("moldau-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* a browser that keeps nothing follows the system */ }
