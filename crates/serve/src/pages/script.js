// Shows what changes: the server sends parts of the page as they are now. Without this script the page is as
// it was when it was loaded.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live || !live.dataset.events) return;
  const source = new EventSource(live.dataset.events);
  const show = (event) => { live.innerHTML = JSON.parse(event.data); };
  source.addEventListener("message", show);
  source.addEventListener("over", (event) => {
    source.close();
    show(event);
    document.getElementById("stop")?.remove();
    live.setAttribute("aria-live", "polite");
  });
})();
