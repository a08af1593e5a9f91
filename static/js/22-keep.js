// Over an update stays what the viewer did: what was opened, closed, scrolled or typed.
(() => {
  const { one, all } = sj;
  const { region } = sj.live;
  if (!region) return;
  const SCROLLERS = "pre, .logs, .tree, [tabindex='0']";
  const FIELDS = "input:not([type=hidden], [type=file]), select, textarea";

  // The same part of a page before and after: by its id, else by its words and its place among those with the same.
  const named = (elements, words) => {
    const seen = new Map();
    return new Map(elements.map((element) => {
      if (element.id) return [`#${element.id}`, element];
      const holder = element.parentElement?.closest("[id]");
      const name = `${holder && holder !== region ? holder.id : ""} ${words(element)}`;
      const place = seen.get(name) ?? 0;
      seen.set(name, place + 1);
      return [`${name} ${place}`, element];
    }));
  };

  // Disclosures. Numbers in their words change without making them others.
  const heading = (details) => {
    const own = one("summary", details)?.textContent.replace(/\s+/g, " ").replace(/\d+/g, "#").trim() ?? "";
    const outer = details.parentElement?.closest("details");
    return outer ? `${heading(outer)} > ${own}` : own;
  };
  const disclosures = (root) => named(all("details:not(.pop)", root), heading);
  const states = (root) => new Map([...disclosures(root)].map(([name, details]) => [name, details.open]));
  const chosen = new Map();
  let given = states(region);
  const notice = () => {
    for (const [name, isOpen] of states(region)) {
      if (given.has(name) && given.get(name) !== isOpen) chosen.set(name, isOpen);
      given.set(name, isOpen);
    }
  };

  const scrollers = () => named(all(SCROLLERS, region), (element) => element.tagName);
  const fields = () => named(all(FIELDS, region), (field) =>
    `${field.form?.getAttribute("action") ?? ""} ${field.name} ${field.type}`);
  const isTyped = (field) => {
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.options) return [...field.options].some((option) => option.selected !== option.defaultSelected);
    return field.value !== field.defaultValue;
  };

  let kept = null;
  document.addEventListener("htmx:before:swap", (event) => {
    const { ctx, tasks } = event.detail;
    const main = tasks.find((task) => task.type === "main" && task.target === region);
    if (!main || main.swapSpec.style === "none") return;
    notice();
    for (const [name, details] of disclosures(main.fragment)) {
      if (chosen.has(name)) details.open = chosen.get(name);
    }
    given = states(main.fragment);
    if (!sj.live.polls(ctx)) return;
    kept = {
      scrolled: [...scrollers()].filter(([, part]) => part.scrollTop || part.scrollLeft)
        .map(([name, { scrollTop: top, scrollLeft: left }]) => [name, { top, left, behavior: "instant" }]),
      typed: [...fields()].filter(([, field]) => isTyped(field))
        .map(([name, { value, checked }]) => [name, value, checked]),
    };
  });
  document.addEventListener("htmx:after:swap", (event) => {
    if (event.detail.ctx.target !== region || !kept) return;
    const [parts, inputs] = [scrollers(), fields()];
    for (const [name, position] of kept.scrolled) parts.get(name)?.scrollTo(position);
    for (const [name, value, checked] of kept.typed) {
      const field = inputs.get(name);
      if (field?.type === "checkbox" || field?.type === "radio") field.checked = checked;
      else if (field && field.value !== value) field.value = value;
    }
    kept = null;
  });
})();
