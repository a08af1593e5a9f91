// A value that was refused in place gets the focus: in a page that has just come, or after a form was sent.
(() => {
  const focus = () => sj.one("#live form[method=post] [aria-invalid=true]")?.focus();
  document.addEventListener("htmx:after:swap", (event) => {
    // Parts that follow by themselves must not take the focus from somebody who types.
    if (event.detail?.ctx?.sourceElement?.matches?.("form")) focus();
  });
  focus();
})();
