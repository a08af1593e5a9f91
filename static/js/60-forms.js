// Forms that were sent: their buttons wait for the answer, and say so. The server makes sure that once is once.
(() => {
  const { one, all } = sj;
  const KEY = "form_key";
  const PLAIN_MS = 15_000;
  const live = one("#live");
  const DOING = {
    Retry: "Retrying", Run: "Queueing", Pause: "Pausing", Resume: "Resuming", Cancel: "Cancelling",
    Delete: "Deleting", Trigger: "Triggering", Save: "Saving", Continue: "Continuing", Send: "Sending",
    Change: "Changing", Create: "Creating", Release: "Releasing", Restore: "Restoring", Stop: "Stopping",
    Quiet: "Quieting",
  };
  const waiting = new Map();
  const requested = new WeakSet();

  const fresh = () =>
    [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const posts = (form) => form?.matches?.("form[method=post]");
  const buttons = (form) => [...form.elements].filter((one) => one.matches("button:not([type=button], [type=reset])"));

  // "Retry 41 jobs" becomes "Retrying 41…"; "Delete…", which only asks, stays as it is.
  const words = (button) => {
    const said = button.textContent.trim().replace(/\s+/g, " ");
    const [, verb, number] = said.match(/^(\S+)(?: ([\d,]+\+?))?/) ?? [];
    if (said.endsWith("…") || !Object.hasOwn(DOING, verb ?? "")) return null;
    return number ? `${DOING[verb]} ${number}…` : `${DOING[verb]}…`;
  };

  const wait = (form, pressed) => {
    if (!waiting.has(form)) return;
    const list = buttons(form);
    const main = pressed ?? list[0];
    const kept = { list: list.filter((button) => !button.disabled), main, nodes: main && [...main.childNodes] };
    kept.focused = list.includes(document.activeElement) ? document.activeElement : null;
    waiting.set(form, kept);
    const said = main && words(main);
    if (said) main.replaceChildren(...kept.nodes.filter((node) => node.nodeName.toLowerCase() === "svg"), said);
    main?.setAttribute("aria-busy", "true");
    form.setAttribute("aria-busy", "true");
    for (const button of kept.list) button.disabled = true;
  };
  const answered = (form) => {
    const kept = waiting.get(form);
    if (!waiting.delete(form)) return;
    requested.delete(form);
    form.removeAttribute("aria-busy");
    if (!kept.list) return;
    for (const button of kept.list) button.disabled = false;
    if (kept.main) {
      kept.main.removeAttribute("aria-busy");
      kept.main.replaceChildren(...kept.nodes);
    }
    if (kept.focused?.isConnected && document.activeElement === document.body) kept.focused.focus();
  };

  // A second press is not sent. On the way down, so that it is stopped before anything acts on it.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!posts(form)) return;
    if (waiting.has(form)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    waiting.set(form, {});
    // A disabled button would not be sent with its form: it is disabled when the form is on its way.
    setTimeout(() => {
      if (event.defaultPrevented && !requested.has(form)) answered(form);
      else wait(form, event.submitter);
    });
    setTimeout(() => { if (!event.defaultPrevented) answered(form); }, PLAIN_MS);
  }, true);
  document.addEventListener("htmx:before:request", (event) => {
    const form = event.detail?.ctx?.sourceElement;
    if (!posts(form)) return;
    requested.add(form);
    if (waiting.has(form)) return;
    waiting.set(form, {});
    wait(form);
  });

  // An answer, or none: before a swap, so that the swap finds the form as the server wrote it.
  const over = (event) => {
    const form = event.detail?.ctx?.sourceElement;
    if (posts(form)) answered(form);
  };
  document.addEventListener("htmx:after:request", (event) => {
    over(event);
    const context = event.detail?.ctx;
    const form = context?.sourceElement;
    if (!posts(form)) return;
    // It was answered: pressed again, it is another form. Without an answer of ours it stays the same one.
    const key = form.elements[KEY];
    if (key && context.response.status < 500) key.value = fresh();
    // What was done is not left in its fields, to be sent once more.
    if (context.response.status < 400 && live?.contains(form)) form.reset();
    expired(form, context);
  });
  document.addEventListener("htmx:error", over);
  document.addEventListener("htmx:finally:request", over);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) for (const form of [...waiting.keys()]) answered(form);
  });

  // A form that has expired stays as it is, with a fresh token; the message stands where it can be seen.
  const expired = (form, context) => {
    const token = context.response?.headers?.get("SJ-Token");
    if (!token) return;
    for (const input of all("input[data-token]")) input.value = token;
    if (!form.closest("dialog")) return;
    const said = new DOMParser().parseFromString(context.text, "text/html");
    one(".flash[data-expired]", form)?.remove();
    const flash = one(".flash", said);
    if (!flash) return;
    flash.dataset.expired = "";
    form.prepend(flash);
  };

  // A live update that arrives while a form is on its way would put a fresh form in its place.
  document.addEventListener("htmx:before:response", (event) => {
    const context = event.detail?.ctx;
    if (context?.sourceElement !== live || ![...waiting.keys()].some((form) => live.contains(form))) return;
    event.preventDefault();
    context.response.raw.body?.cancel();
  });
})();
