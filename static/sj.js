// The UI's own script: keyboard, dialogs, the live switch, fresh relative times. Pages work without it.
"use strict";
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const live = one("#live"), dialog = one("#dialog"), help = one("#help");

  // What needs a script is hidden until there is one.
  for (const element of all(".js[hidden]")) element.hidden = false;

  // Where the navigation scrolls, the current page is in sight.
  const here = one(".nav [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 16;

  // The browser's own zone is offered first.
  const zones = one("#zones");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zones && zone && !all("option", zones).some((option) => option.value === zone)) zones.prepend(new Option(zone, zone));

  // Relative times: the same words as the server's.
  const rough = (seconds) =>
    seconds < 60 ? `${Math.floor(seconds)} s` :
    seconds < 3600 ? `${Math.floor(seconds / 60)} min` :
    seconds < 172800 ? `${Math.floor(seconds / 3600)} h` :
    `${Math.floor(seconds / 86400).toLocaleString("en")} d`;
  const freshen = () => {
    if (document.hidden) return;
    for (const element of all("time[data-rel], time[data-age]:not([data-fixed])")) {
      const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
      const text = element.hasAttribute("data-age") ? rough(Math.max(0, seconds)) :
        Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `${rough(seconds)} ago` : `in ${rough(-seconds)}`;
      if (element.textContent !== text) element.textContent = text;
    }
  };
  setInterval(freshen, 1000);

  // Polling waits while nobody looks, or while a swap would be in the way.
  const busy = () =>
    document.hidden || one("dialog[open]") || one("#live tbody [type=checkbox]:checked") || one("#live details.pop[open]") ||
    (document.activeElement?.matches("input, select, textarea") && live?.contains(document.activeElement));
  document.addEventListener("htmx:config:request", (event) => {
    const context = event.detail?.ctx;
    if (context?.sourceEvent?.type !== "every") return;
    if (document.hidden || (event.target === live && busy())) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) window.htmx?.trigger?.("#live", "sj:refresh"); });

  // Dialogs: a page that asks, shown where one is.
  let opener = null;
  document.addEventListener("htmx:before:request", (event) => {
    if (event.target.closest?.("[hx-target='#dialog']")) opener = event.target;
  });
  document.addEventListener("htmx:after:swap", (event) => {
    if (event.detail?.ctx?.target === dialog || event.detail?.ctx?.target === "#dialog") {
      if (!dialog.open) dialog.showModal();
      (one("input:not([type=hidden]), button", dialog) ?? dialog).focus();
      return;
    }
    if (dialog?.open && event.detail?.ctx?.request?.method !== "GET") dialog.close();
    count();
    freshen();
  });
  dialog?.addEventListener("close", () => { if (opener?.isConnected) opener.focus(); opener = null; });
  document.addEventListener("click", (event) => {
    if (event.target.closest("dialog [data-close]")) { event.preventDefault(); dialog.close(); }
    if (event.target.closest("[data-help]")) help.showModal();
    if (event.target === dialog || event.target === help) event.target.close();
    for (const open of all("details.pop[open]")) if (!open.contains(event.target)) open.open = false;
  });

  // The bulk bar says how many.
  const count = () => {
    const said = one("[data-selected]");
    if (said) said.textContent = `${all("#live tbody [type=checkbox]:checked").length} selected`;
  };
  document.addEventListener("change", count);
  document.addEventListener("reset", () => setTimeout(count));

  // Keyboard.
  const rows = () => all("#live [data-row]");
  const link = (row) => one("tbody th a, th a", row);
  const current = () => rows().findIndex((row) => row.contains(document.activeElement));
  const move = (step) => {
    const list = rows();
    if (!list.length) return;
    const at = current();
    const next = list[Math.min(list.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : list.length - 1) : at + step))];
    link(next)?.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const typing = (target) => target.matches?.("input:not([type=checkbox]), select, textarea, [contenteditable]");
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      for (const open of all("details.pop[open]")) { open.open = false; one("summary", open)?.focus(); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || one("dialog[open]")) return;
    if (going && Date.now() - going < 1500) {
      going = 0;
      const target = one(`.nav [data-key="${CSS.escape(event.key)}"]`);
      if (target) { event.preventDefault(); target.click(); }
      return;
    }
    going = 0;
    const keys = {
      "/": () => one(".find input")?.focus(),
      "?": () => help?.showModal(),
      g: () => { going = Date.now(); },
      j: () => move(1),
      k: () => move(-1),
      x: () => one("[name=id]", rows()[current()] ?? document.createElement("i"))?.click(),
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
})();
