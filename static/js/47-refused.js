// A value that was refused in place gets the focus.
(() => {
  document.addEventListener("htmx:after:swap", () => sj.one("#live [aria-invalid=true]")?.focus());
})();
