// Dialogs: a page that asks, shown where one is.
(() => {
  const { one, all } = sj;
  const dialog = one("#dialog");
  const help = one("#help");
  let opener = null;

  document.addEventListener("htmx:before:request", (event) => {
    if (event.target.closest?.("[hx-target='#dialog']")) opener = event.target;
  });
  document.addEventListener("htmx:after:swap", (event) => {
    const context = event.detail?.ctx;
    if (context?.target === dialog || context?.target === "#dialog") {
      if (!dialog.open) dialog.showModal();
      (one("input:not([type=hidden]), button", dialog) ?? dialog).focus();
      return;
    }
    // A form that has expired stays, to be sent again.
    const stays = context?.response?.headers?.has("SJ-Token");
    if (dialog?.open && context?.request?.method !== "GET" && !stays) dialog.close();
    sj.count();
    sj.freshen();
  });
  dialog?.addEventListener("close", () => {
    if (opener?.isConnected) opener.focus();
    opener = null;
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("dialog [data-close]")) {
      event.preventDefault();
      dialog.close();
    }
    if (event.target.closest("[data-help]")) help.showModal();
    if (event.target === dialog || event.target === help) event.target.close();
    for (const open of all("details.pop[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
  });
})();
