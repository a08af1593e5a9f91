// Messages that the page makes itself: for what no server can say, because none answered.
(() => {
  const { one } = sj;
  const SVG = "http://www.w3.org/2000/svg";

  sj.icon = (name) => {
    const icon = document.createElementNS(SVG, "svg");
    icon.setAttribute("class", "i");
    icon.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(SVG, "use");
    use.setAttribute("href", `${document.body.dataset.icons}#${name}`);
    icon.append(use);
    return icon;
  };

  const line = (text, tag) => {
    const paragraph = document.createElement("p");
    const inner = tag ? document.createElement(tag) : paragraph;
    inner.textContent = text;
    if (tag) paragraph.append(inner);
    return paragraph;
  };

  // The inside of a flash: an icon, a sentence, what it means, and something to press.
  sj.message = (icon, title, text, control) => {
    const words = document.createElement("div");
    words.append(line(title, "strong"), line(text));
    return [sj.icon(icon), words, ...(control ? [control] : [])];
  };

  // An alert, where the viewer looks: in the dialog that is open, else on top of the page.
  sj.alert = (icon, title, text, control) => {
    for (const old of sj.all(".flash[data-unsent]")) old.remove();
    const flash = document.createElement("div");
    flash.className = "flash bad";
    flash.dataset.unsent = "";
    flash.setAttribute("role", "alert");
    flash.append(...sj.message(icon, title, text, control));
    const dialog = one("dialog[open]");
    if (dialog) (one(".ask", dialog) ?? dialog).prepend(flash);
    else one("#flash")?.replaceChildren(flash);
    if (!dialog) flash.scrollIntoView({ block: "nearest" });
  };

  // The way back in: the address of the page itself leads to the login and back.
  sj.logIn = () => {
    const link = document.createElement("a");
    link.className = "btn";
    link.href = location.href;
    link.textContent = "Log in again";
    return link;
  };

  // For who does not see the page: said once for each change, not for every second.
  let last = "";
  sj.say = (text) => {
    const said = one("#said");
    if (!said || text === last) return;
    last = text;
    said.textContent = text;
  };
})();
