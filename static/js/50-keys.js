// The keyboard: move in a list, select, open, go to a page.
(() => {
  const { one, all } = sj;
  const TOGETHER_MS = 1500;
  const rows = () => all("#live [data-row]");
  const link = (row) => one("tbody th a, th a", row);
  const current = () => rows().findIndex((row) => row.contains(document.activeElement));
  const TYPED = "input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]";
  const typing = (target) => target.matches?.(TYPED);
  let going = 0;

  const move = (step) => {
    const list = rows();
    if (!list.length) return;
    const at = current();
    const start = step > 0 ? 0 : list.length - 1;
    const next = list[Math.min(list.length - 1, Math.max(0, at < 0 ? start : at + step))];
    link(next)?.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    "/": () => one(".find input")?.focus(),
    "?": () => one("#help")?.showModal(),
    g: () => { going = Date.now(); },
    j: () => move(1),
    k: () => move(-1),
    x: () => one("[name=id]", rows()[current()] ?? document.createElement("i"))?.click(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      for (const open of all("details.pop[open]")) {
        open.open = false;
        one("summary", open)?.focus();
      }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || one("dialog[open]")) return;
    if (going && Date.now() - going < TOGETHER_MS) {
      going = 0;
      const target = one(`.nav [data-key="${CSS.escape(event.key)}"]`);
      if (target) {
        event.preventDefault();
        target.click();
      }
      return;
    }
    going = 0;
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
})();
