// Below the find box, what it would find: the same links as on its page, a few of each kind.
(() => {
  const { one, all } = sj;
  const input = one(".find input");
  const box = one("#suggestions");
  if (!input || !box) return;
  const WAIT_MS = 250;
  const SHORTEST = 2;
  const form = input.form;
  let timer = 0;
  let asked = "";

  const links = () => all("a", box);
  const close = () => {
    asked = "";
    box.hidden = true;
    box.replaceChildren();
  };
  const show = (html) => {
    box.innerHTML = html;
    const number = all("li", box).length;
    box.hidden = !number;
    sj.say(number ? `${number} suggestion${number === 1 ? "" : "s"}. Arrow down to choose.` : "No suggestions.");
  };

  // What was typed meanwhile is asked for by itself; an answer that is not ours is none.
  const ask = async () => {
    const text = input.value.trim();
    if (text === asked) return;
    if (text.length < SHORTEST) return close();
    asked = text;
    const url = new URL(form.action);
    url.search = new URLSearchParams({ q: text, suggest: "1" });
    const options = { headers: { "HX-Request": "true" }, redirect: "manual" };
    const response = await fetch(url, options).catch(() => Response.error());
    const html = response.ok && sj.judge(response) === "ours" ? await response.text() : "";
    if (asked === text && form.contains(document.activeElement)) show(html);
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  });
  form.addEventListener("submit", () => clearTimeout(timer));
  form.addEventListener("focusout", (event) => {
    if (!form.contains(event.relatedTarget)) close();
  });
  form.addEventListener("keydown", (event) => {
    if (box.hidden) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    const stops = [input, ...links()];
    if (event.key === "Escape") {
      event.preventDefault();
      input.focus();
      close();
    } else if (event.key in steps) {
      event.preventDefault();
      const at = stops.indexOf(document.activeElement) + steps[event.key];
      stops[(at + stops.length) % stops.length].focus();
    }
  });
})();
