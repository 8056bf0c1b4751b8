// Shows an element's <title> at once instead of after the browser's delay, also on touch, and
// saves the data that the page holds. Without this script the titles still work.
(() => {
  "use strict";
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  document.body.append(box);

  // The browser's own tip would cover ours, and that of a whole drawing is its name.
  for (const title of document.querySelectorAll("figure svg title")) {
    if (title.parentNode.matches("svg")) {
      title.parentNode.setAttribute("aria-label", title.textContent);
      title.remove();
      continue;
    }
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }

  const place = (event) => {
    const left = event.clientX + 14 + box.offsetWidth > window.innerWidth
      ? event.clientX - 14 - box.offsetWidth
      : event.clientX + 14;
    box.style.left = Math.max(4, left) + "px";
    box.style.top = Math.max(4, event.clientY - 12 - box.offsetHeight) + "px";
  };
  const follow = (event) => {
    const owner = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    box.hidden = !owner;
    if (owner) {
      box.textContent = owner.dataset.tip;
      place(event);
    }
  };
  document.addEventListener("pointermove", follow);
  document.addEventListener("pointerdown", follow);
  document.addEventListener("scroll", () => { box.hidden = true; }, true);

  const save = document.getElementById("save");
  if (!save) return;
  save.hidden = false;
  save.addEventListener("click", () => {
    const text = JSON.stringify(JSON.parse(document.getElementById("data").textContent), null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/json" }));
    link.download = save.dataset.name.replace(/[^A-Za-z0-9._-]+/g, "-") + ".json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
