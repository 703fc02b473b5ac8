// The map of records: names the records of a cell below the pointer, and opens them by a click.
"use strict";
(() => {
  const cell = (event) => {
    const map = event.target.closest && event.target.closest("svg.map");
    if (!map) return null;
    const box = map.getBoundingClientRect(), { columns, per, count } = map.dataset;
    const [, , width, height] = map.getAttribute("viewBox").split(" ").map(Number);
    const column = Math.floor((event.clientX - box.left) / box.width * width);
    const row = Math.floor((event.clientY - box.top) / box.height * height);
    const first = (row * columns + column) * per;
    return first >= 0 && first < count ? [first, Math.min(first + Number(per), count) - 1] : null;
  };
  document.addEventListener("pointermove", (event) => {
    const found = cell(event), output = document.getElementById("cell");
    if (!output) return;
    const [first, last] = (found || []).map((number) => number.toLocaleString("en"));
    output.textContent = !found ? "" : first === last ? `Record ${first}.` : `Records ${first} to ${last}.`;
  });
  document.addEventListener("click", (event) => {
    const found = cell(event);
    if (found) location.href = `/?at=${found[0]}`;
  });
})();
