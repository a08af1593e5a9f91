// Copy buttons: data-copy holds the text. Without scripts they are not shown.
(() => {
  const status = document.createElement("div");
  status.className = "vh";
  status.setAttribute("aria-live", "polite");
  document.body.append(status);
  document.body.classList.add("scripted");

  // Where there is no clipboard, as on a page without TLS.
  const byCommand = (text) => {
    const field = document.createElement("textarea");
    field.className = "vh";
    field.readOnly = true;
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return byCommand(text);
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = button.dataset.copy;
    const done = await copy(text);
    button.focus();
    button.dataset.copied = done ? "yes" : "no";
    status.textContent = done ? `Copied ${text}` : "Not copied: select the text and copy it.";
    setTimeout(() => {
      delete button.dataset.copied;
      status.textContent = "";
    }, 4000);
  });
})();
