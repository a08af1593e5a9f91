// Lists are calm: rows that are shown change in place, new ones wait until the viewer asks for them.
(() => {
  const { one, all } = sj;
  const { region } = sj.live;
  const pill = one("#new-rows");
  if (!region || !pill) return;
  const LEFT = "no longer in this list";
  const PUSHED = "now on the next page";

  const nameOf = (row) => row.id || one("a[href]", row)?.getAttribute("href");

  // The lists of a page: their rows by name, in order. One with two rows of the same name is left alone.
  const lists = (root) => {
    const found = new Map();
    for (const row of all("[data-row]", root)) {
      const rows = found.get(row.parentNode) ?? new Map();
      const name = nameOf(row);
      rows.set(!name || rows.has(name) ? null : name, row);
      found.set(row.parentNode, rows);
    }
    return [...found].filter(([, rows]) => !rows.has(null)).map(([parent, rows]) => ({ parent, rows }));
  };

  // Where somebody points, or has the focus, and where a list has pages, nothing moves.
  const isSteady = ({ parent }) =>
    Boolean(one(".pager", region)) || parent.matches(":hover") || parent.contains(document.activeElement);
  const shares = (one, other) => [...one.rows.keys()].some((name) => other.rows.has(name));

  // A row that is not in the answer. It keeps its height: the note stands in the line below its name.
  const marked = (row, note) => {
    const place = one(".sub", row) ?? one("th, td:not(.pick)", row) ?? row;
    one("[data-note]", row)?.remove();
    const said = document.createElement("span");
    said.dataset.note = "";
    said.className = place.matches(".sub") ? "tag" : "vh";
    said.textContent = note;
    place.prepend(said, " ");
    row.classList.add("left");
    row.title = note;
    return row;
  };

  // Rewrites the rows of an answer to those that are shown, in their order; says what is new, has left or has moved.
  const settle = (shown, fresh, hasMore) => {
    const unseen = [...fresh.rows.keys()].filter((name) => !shown.rows.has(name));
    const names = [...shown.rows.keys()];
    const last = names.findLastIndex((name) => fresh.rows.has(name));
    const tail = hasMore && names.length - 1 - last <= unseen.length ? last : names.length;
    const rows = names.map((name, at) =>
      fresh.rows.get(name) ?? marked(shown.rows.get(name).cloneNode(true), at > tail ? PUSHED : LEFT));
    const kept = names.filter((name) => fresh.rows.has(name));
    const moved = [...fresh.rows.keys()].filter((name) => shown.rows.has(name)).some((name, at) => name !== kept[at]);
    const mark = document.createComment("");
    fresh.rows.values().next().value.before(mark);
    for (const name of unseen) fresh.rows.get(name).remove();
    mark.replaceWith(...rows);
    return { added: unseen.length, all: !kept.length && hasMore, gone: names.length - kept.length, moved };
  };

  const NOTHING = { added: 0, more: false, gone: 0, moved: false };
  const offer = ({ added, more, gone, moved }) => {
    const wasHidden = pill.hidden;
    pill.hidden = !(added || gone || moved);
    if (pill.hidden) return;
    const words = added ? `${added}${more ? "+" : ""} new` : "Update the list";
    if (pill.textContent === words) return;
    pill.replaceChildren(sj.icon("up"), words);
    pill.title = `${gone ? `${gone} shown here left the list. ` : ""}Press to show the list as it is now.`;
    if (wasHidden) sj.say(added ? `${words} in the list` : "The list has changed");
  };

  document.addEventListener("htmx:before:swap", (event) => {
    const { ctx, tasks } = event.detail;
    const main = tasks.find((task) => task.type === "main" && task.target === region);
    if (!main || ctx.response.status === 304) return;
    if (!sj.live.polls(ctx) || ctx.wish === "renew" || ctx.response.status !== 200) {
      offer(NOTHING);
      return;
    }
    const fresh = lists(main.fragment);
    const hasMore = Boolean(one(".pager [rel=next]", main.fragment));
    const old = lists(region);
    const sum = { ...NOTHING };
    for (const [at, shown] of old.entries()) {
      if (!isSteady(shown)) continue;
      const same = fresh.find((other) => shares(shown, other)) ?? (fresh.length === old.length ? fresh[at] : null);
      if (!same) {
        // The whole list has left: it stays until the viewer has seen so.
        for (const row of shown.rows.values()) marked(row, LEFT);
        main.swapSpec = { ...main.swapSpec, style: "none" };
        sum.gone += shown.rows.size;
        continue;
      }
      const outcome = settle(shown, same, hasMore);
      sum.added += outcome.added;
      sum.gone += outcome.gone;
      sum.more ||= outcome.all;
      sum.moved ||= outcome.moved;
    }
    offer(sum);
  });

  pill.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    sj.live.ask("renew");
  });
  document.addEventListener("htmx:after:swap", (event) => {
    // Who pressed it is at the top of what came.
    if (event.detail.ctx.wish === "renew") one("#live [data-row] a")?.focus();
  });
})();
