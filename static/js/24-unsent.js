// An action that was not sent, or that got no answer of ours, says so where it was pressed.
(() => {
  // The words of what was pressed: taken before it is sent, because a form that was sent says something else.
  const words = (context) => {
    const pressed = context.request.submitter ?? context.sourceElement;
    const text = pressed.matches("form") ? sj.one("button", pressed)?.textContent : pressed.textContent;
    return (text ?? "").replace(/\s+/g, " ").replace(/…\s*$/, "").trim() || "This";
  };

  document.addEventListener("htmx:config:request", (event) => {
    const context = event.detail.ctx;
    if (context.sourceElement.matches("form, a, button")) context.words = words(context);
  });

  // What happened, and what that means for what was pressed.
  sj.unsent = (context, verdict) => {
    const name = context.words ? `“${context.words}”` : "This";
    const asks = context.request.method === "GET";
    const look = /\/jobs\/job_[^/]+\/[a-z]+$/.test(context.request.action) ? "look at the job" : "look at the page";
    if (verdict === "out") {
      sj.alert("locks", `You were logged out. ${name} was not ${asks ? "opened" : "done"}.`,
               "The page stays as it was. Log in, then press it again.", sj.logIn());
    } else if (verdict === "offline" && !context.wasOnline) {
      sj.alert("offline", `You are offline. ${name} was not ${asks ? "opened" : "sent"}.`,
               "Nothing was changed. Press it again when you are back.");
    } else {
      const said = verdict === "failing"
        ? `The server did not answer: error ${context.response.status} came instead.` : "The server did not answer.";
      if (asks) sj.alert("warn", `${said} ${name} was not opened.`, "Nothing was changed. Try again.");
      else sj.alert("warn", said, `It is not known whether ${name} was done: ${look} before you press it again.`);
    }
    sj.live.ask();
  };
})();
