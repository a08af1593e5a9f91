// Live updates: when the page asks for what is new, and which answers it takes.
(() => {
  const { one, all } = sj;
  const region = one("#live");
  const TIMEOUT_MS = 15000;
  const CONTROLS = "input:not([type=checkbox], [type=radio], [type=submit], [type=button]), select, textarea";

  const polls = (context) => Boolean(region) && context?.sourceElement === region;
  const background = (context) => polls(context) || context?.sourceElement?.id === "counts";

  const live = {
    region,
    polls,
    on: Boolean(region?.hasAttribute("hx-get")),
    wish: null,
    // The last good answer, and since when none has come.
    goodAt: Date.now(),
    askingSince: null,
    trouble: null,
  };
  sj.live = live;
  let tag = region?.getAttribute("hx-ptag") ?? "";
  let broken = Boolean(region?.hasAttribute("data-broken"));

  // Why an update would be in the way, in words; null where it would not.
  const textIsSelected = () => {
    const selection = document.getSelection();
    return Boolean(selection?.rangeCount) && !selection.isCollapsed && selection.getRangeAt(0).intersectsNode(region);
  };
  live.held = () => {
    const focused = document.activeElement;
    const rows = all("#live tbody [type=checkbox]:checked").length;
    if (document.hidden) return "tab hidden";
    if (one("dialog[open]")) return "dialog open";
    if (rows) return `${rows} selected`;
    // What was refused in place stays, with its message, until the form is sent again.
    if (one("#live [aria-invalid=true]")) return "value refused";
    if (one("#live details.pop[open]")) return "menu open";
    if (focused?.matches(CONTROLS) && region.contains(focused)) return "typing";
    return textIsSelected() ? "text selected" : null;
  };

  const isHeld = (context) => !context.wish && live.held() !== null;

  // Asks now. What the viewer asked for is not held: "asked"; nor do rows stay in their places: "renew".
  live.ask = (wish = null) => {
    live.wish = wish;
    if (live.on) window.htmx?.trigger(region, "sj:refresh", {}, false);
  };

  // A request that finds nobody, or whose answer breaks off, becomes an answer without a status: that is told on the
  // page, not in the console.
  const fetched = async (url, options) => {
    try {
      const response = await fetch(url, options);
      const text = await response.text();
      return Object.defineProperties(response, { text: { value: async () => text }, body: { value: null } });
    } catch {
      return Response.error();
    }
  };

  document.addEventListener("htmx:config:request", (event) => {
    const context = event.detail.ctx;
    context.fetch = fetched;
    context.wasOnline = navigator.onLine;
    if (!background(context)) return;
    if (polls(context)) {
      context.wish = live.wish;
      live.wish = null;
    }
    const asksForLogin = context.sourceEvent?.type === "every" && live.trouble === "out";
    if (document.hidden || asksForLogin || (polls(context) && !live.trouble && isHeld(context))) {
      event.preventDefault();
      return;
    }
    // Nothing of ours redirects a script: whoever does wants a login.
    context.request.redirect = "manual";
    context.request.timeout = TIMEOUT_MS;
    if (polls(context)) {
      live.askingSince ??= Date.now();
      if (context.wish !== "renew") context.request.headers["HX-PTag"] = tag;
    }
  });

  // Whose answer it is: ours; "out" for a login; "offline" or "silent" for none; "failing" for an error on the way.
  sj.judge = (response) => {
    if (response.status === 304 || (response.headers.has("SJ-Page") && response.status !== 401)) return "ours";
    if (response.type === "opaqueredirect" || response.status === 401) return "out";
    if (response.status === 0) return navigator.onLine ? "silent" : "offline";
    return response.ok ? "out" : "failing";
  };

  const hear = (verdict) => {
    live.trouble = verdict === "ours" ? null : verdict;
    if (verdict === "ours") {
      live.goodAt = Date.now();
      live.askingSince = null;
    }
  };

  document.addEventListener("htmx:before:response", (event) => {
    const context = event.detail.ctx;
    const response = context.response.raw;
    let verdict = sj.judge(response);
    if (polls(context)) {
      // An error of ours does not take the place of a page that can still be read.
      if (verdict === "ours" && response.status >= 500 && !broken) verdict = "failing";
      hear(verdict);
      live.show?.();
    }
    const refused = verdict !== "ours";
    const late = polls(context) && isHeld(context);
    if (!refused && !late) return;
    event.preventDefault();
    if (refused && !background(context)) sj.unsent(context, verdict);
  });

  document.addEventListener("htmx:after:swap", (event) => {
    const context = event.detail.ctx;
    if (context.target !== region) return;
    const { status, headers } = context.response;
    if (status !== 304) tag = headers.get("HX-PTag") ?? "";
    if (status !== 304) broken = status >= 500;
    if (context.request.method !== "GET") {
      live.goodAt = Date.now();
      const counts = one("#counts");
      if (counts) window.htmx.trigger(counts, "sj:refresh", {}, false);
    }
  });

  // What was held is asked for as soon as nothing is in the way.
  let was = null;
  live.release = () => {
    const now = live.on ? live.held() : null;
    if (was && !now) live.ask();
    was = now;
  };
  for (const name of ["selectionchange", "focusin", "focusout", "change", "close", "toggle", "visibilitychange"]) {
    document.addEventListener(name, () => setTimeout(() => { live.release(); live.show?.(); }), true);
  }
  document.addEventListener("reset", () => setTimeout(live.release));
  for (const name of ["online", "offline", "focus"]) {
    window.addEventListener(name, () => { if (name !== "focus" || live.trouble) live.ask(); });
  }
  window.addEventListener("pageshow", (event) => { if (event.persisted) live.ask(); });
})();
