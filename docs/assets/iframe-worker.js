// Browsers refuse workers to pages that come from disk. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      const tell = (to, data) => to.dispatchEvent(new MessageEvent("message", { data }));
      const run = (source) =>
        new Promise((done) => {
          const script = inside.document.createElement("script");
          script.src = source;
          script.onload = done;
          inside.document.head.append(script);
        });
      inside.postMessage = (data) => tell(this, data);
      inside.importScripts = (...sources) => Promise.all(sources.map(run));
      const ready = run(url);
      this.postMessage = (data) => ready.then(() => tell(inside, data));
    }
  };
}
