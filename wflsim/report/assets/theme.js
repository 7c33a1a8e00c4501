// Before the first paint, so that a dark page does not flash white.
(() => {
  let kept = null;
  try { kept = localStorage.getItem("wflsim-theme"); } catch (error) { /* a file opened with storage off */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (dark) => { document.documentElement.dataset.theme = dark ? "dark" : "light"; };
  set(kept ? kept === "dark" : dark.matches);
  dark.addEventListener("change", (event) => {
    if (kept) return;
    set(event.matches);
    document.dispatchEvent(new Event("theme"));
  });
})();
