// The switch says in words whether the page is live; a bar says since when it is not.
(() => {
  const { one } = sj;
  const { live } = sj;
  const button = one("#live-switch button");
  const bar = one("#stale");
  const STALE_MS = 7000;
  if (!live.on) return;
  const pace = live.region.dataset.poll;

  const clock = new Intl.DateTimeFormat("en-GB", {
    timeZone: document.body.dataset.zone, hour: "2-digit", minute: "2-digit", second: "2-digit",
    timeZoneName: "short",
  });
  const HOLDS = {
    "tab hidden": "the tab is hidden",
    "dialog open": "a dialog is open",
    "menu open": "a menu is open",
    typing: "you type in a field",
    "text selected": "text is selected",
    "value refused": "a value is refused",
  };
  const seconds = () => Math.max(0, Math.round((Date.now() - live.goodAt) / 1000));
  const isSilent = () => live.askingSince !== null && Date.now() - live.askingSince >= STALE_MS;

  // Each state: icon, status class, words, and what they mean.
  const state = () => {
    const held = live.held();
    const age = sj.rough(seconds());
    if (live.trouble === "out") return ["locks", "retrying", "Logged out", "Log in again to continue."];
    if (live.trouble === "offline") return ["offline", "dead", "Offline", "No network. Tries again when it is back."];
    if (live.trouble || isSilent()) {
      return ["warn", "retrying", `Stale for ${age}`, `The last answer came ${age} ago. Tries again every ${pace} s.`];
    }
    if (held) {
      const reason = HOLDS[held] ?? "rows are selected";
      return ["pause", "paused", `Held: ${held}`, `Held while ${reason}. Continues by itself. Click to turn off.`];
    }
    return ["bolt", "succeeded", "Live", `Refreshes every ${pace} s. Click to turn off.`];
  };

  const REASONS = {
    offline: "You are offline. It tries again when the network is back; what you see may be out of date.",
    failing: `The server answers with an error. It tries again every ${pace} s; what you see may be out of date.`,
    silent: `The server does not answer. It tries again every ${pace} s; what you see may be out of date.`,
  };
  const tryNow = () => {
    const control = document.createElement("button");
    control.type = "button";
    control.className = "btn ghost";
    control.textContent = "Try now";
    control.addEventListener("click", () => live.ask("asked"));
    return control;
  };

  let shown = "";
  const fill = (kind, look, icon, title, text, control) => {
    if (shown !== kind) {
      bar.className = `flash ${look} stick`;
      bar.replaceChildren(...sj.message(icon, title, text, control()));
      bar.hidden = false;
      sj.say(`${title} ${text}`);
    }
    shown = kind;
    one("strong", bar).textContent = title;
  };
  const showBar = () => {
    const trouble = live.trouble ?? "silent";
    const at = clock.format(live.goodAt);
    if (trouble === "out") {
      fill("out", "info", "locks", "You were logged out.",
           `The page stays as it was at ${at}. Log in again to continue.`, sj.logIn);
    } else if (isSilent()) {
      fill(trouble, "warn", "warn", `This page is from ${at}, ${sj.rough(seconds())} ago.`, REASONS[trouble], tryNow);
    } else if (shown) {
      shown = "";
      const hadFocus = bar.contains(document.activeElement);
      bar.hidden = true;
      bar.replaceChildren();
      if (hadFocus) one("#main").focus();
      sj.say("The page is live again.");
    }
  };

  const showSwitch = ([icon, look, words, title]) => {
    const text = one("span", button);
    if (text.textContent !== words) {
      text.textContent = words;
      button.className = `btn live ${look}`;
      one("svg", button).replaceWith(sj.icon(icon));
      button.setAttribute("aria-label", `Live updates: ${words}`);
      if (look === "paused") sj.say(`Live updates: ${words}`);
      if (look === "succeeded") sj.say("");
    }
    button.title = title;
  };
  live.show = () => {
    // Without a secret there are no forms, and so no switch; the bar is there all the same.
    if (button) showSwitch(state());
    showBar();
  };
  setInterval(() => { if (!document.hidden) { live.release(); live.show(); } }, 1000);
  live.show();
})();
