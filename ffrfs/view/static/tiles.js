// Draws boxes over the thumbnails of Examples, as soon as the thumbnails are loaded.
"use strict";
(() => {
  const { COLOURS, numberOf, make, areaOf } = shapes;

  async function draw(image) {
    const answer = await fetch(`/boxes?key=${new URLSearchParams(image.closest("a").search).get("key")}`);
    const { boxes } = answer.ok ? await answer.json() : { boxes: [] };
    if (!boxes.length || image.parentElement.querySelector("svg")) return;
    const width = image.naturalWidth, height = image.naturalHeight, clamp = (part) => Math.min(Math.max(part, -1), 2);
    const svg = make("svg", { class: "boxes", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, image.parentElement);
    for (const [at, label] of boxes) {
      const [x, y, right, bottom] = at.map((part, i) => clamp(part) * (i % 2 ? height : width));
      const area = areaOf(x, y, right, bottom);
      make("rect", { ...area, stroke: "#000", "stroke-opacity": .5, "stroke-width": 4 }, svg);
      make("rect", { ...area, stroke: COLOURS[numberOf(label) % COLOURS.length], "stroke-width": 2 }, svg);
    }
  }

  // Lazy thumbnails, and those in a part of the page that htmx brings, load later.
  const ours = ".tile.example img";
  document.addEventListener("load", (event) => { if (event.target.matches?.(ours)) draw(event.target); }, true);
  for (const image of document.querySelectorAll(ours)) if (image.complete && image.naturalWidth) draw(image);
})();
