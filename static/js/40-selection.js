// The selection in a list: the bulk bar says how many, one box selects the page, shift selects a range.
(() => {
  const { one, all } = sj;
  // Of a row that has left the list and is still shown, nothing can be selected with the others.
  const boxes = () => all("#live tbody tr:not(.left) [name=id]");
  const pageBox = () => one("#live thead [data-select-page]");
  let anchor = null;

  const say = () => {
    const said = one("[data-selected]");
    if (!said) return;
    const number = boxes().filter((box) => box.checked).length;
    const text = one("#live [name=matching]:checked") ? "All that match" : `${number} selected`;
    if (said.textContent !== text) said.textContent = text;
  };
  sj.count = () => {
    // An update brings them hidden again.
    for (const element of all("#live .js[hidden]")) element.hidden = false;
    const list = boxes();
    const number = list.filter((box) => box.checked).length;
    const whole = pageBox();
    if (whole) {
      whole.checked = number > 0 && number === list.length;
      whole.indeterminate = number > 0 && number < list.length;
    }
    if (!number) {
      anchor = null;
      // Out of sight, it must not outlive the selection.
      const matching = one("#live [name=matching]");
      if (matching) matching.checked = false;
    }
    say();
  };

  const select = (some, checked) => {
    for (const box of some) box.checked = checked;
    // One change for all of them: whoever listens looks at the whole list.
    some[0]?.dispatchEvent(new Event("change", { bubbles: true }));
  };
  // From the box that was changed last to this one, all get what this one has.
  const range = (box) => {
    const list = boxes();
    const from = list.findIndex((other) => other.value === anchor);
    const to = list.indexOf(box);
    if (from < 0 || to < 0) return;
    select(list.slice(Math.min(from, to), Math.max(from, to) + 1), box.checked);
  };

  // Shift would select the text between the two rows.
  document.addEventListener("mousedown", (event) => {
    if (event.shiftKey && event.target.closest?.("#live tbody [name=id]")) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const box = event.target.closest?.("#live tbody [name=id]");
    if (box) {
      if (event.shiftKey) range(box);
      anchor = box.value;
      return;
    }
    const whole = event.target.closest?.("#live [data-select-page]");
    if (whole) select(boxes(), whole.matches("button") || whole.checked);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "X" || event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (event.target.matches?.("input:not([type=checkbox]), select, textarea, [contenteditable]")) return;
    const box = one("[name=id]", document.activeElement?.closest("#live [data-row]") ?? document.createElement("i"));
    if (!box) return;
    event.preventDefault();
    box.checked = true;
    range(box);
    anchor = box.value;
    sj.count();
  });
  document.addEventListener("change", sj.count);
  document.addEventListener("reset", () => setTimeout(sj.count));
  // A browser that comes back to a page keeps what was selected there.
  window.addEventListener("pageshow", sj.count);
})();
