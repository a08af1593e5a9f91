// What every page has: parts that need a script, the navigation, the zone, fresh relative times.
"use strict";
const sj = {
  one: (selector, root = document) => root.querySelector(selector),
  all: (selector, root = document) => [...root.querySelectorAll(selector)],
};

(() => {
  const { one, all } = sj;

  // What needs a script is hidden until there is one.
  for (const element of all(".js[hidden]")) element.hidden = false;

  // Where the navigation or the tabs scroll, the current one is in sight.
  for (const here of all(".nav [aria-current], .tabs [aria-current]")) {
    here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 16;
  }

  // What has the focus in a part that scrolls sideways is in sight as a whole.
  document.addEventListener("focusin", (event) => {
    if (event.target.closest(".nav, .tabs")) event.target.scrollIntoView({ block: "nearest", inline: "nearest" });
  });

  // The browser's own zone is offered first.
  const zones = one("#zones");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zones && zone && !all("option", zones).some((option) => option.value === zone)) {
    zones.prepend(new Option(zone, zone));
  }

  // Relative times: the same words as the server's.
  const rough = (seconds) => {
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400).toLocaleString("en")} d`;
  };
  sj.rough = rough;
  const relative = (seconds) => {
    if (Math.abs(seconds) < 1) return seconds >= 0 ? "just now" : "now";
    return seconds > 0 ? `${rough(seconds)} ago` : `in ${rough(-seconds)}`;
  };
  sj.freshen = () => {
    if (document.hidden) return;
    for (const element of all("time[data-rel], time[data-age]:not([data-fixed])")) {
      const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
      const text = element.hasAttribute("data-age") ? rough(Math.max(0, seconds)) : relative(seconds);
      if (element.textContent !== text) element.textContent = text;
    }
    // Bars of the time that is left; what ran out is empty.
    for (const bar of all("rect[data-until]")) {
      const left = (bar.dataset.until - Date.now() / 1000) / bar.dataset.seconds;
      bar.setAttribute("width", (100 * Math.min(1, Math.max(0, left))).toFixed(1));
    }
  };
  setInterval(sj.freshen, 1000);
})();
