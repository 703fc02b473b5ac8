// Boxes in an SVG, for overlay.js and tiles.js: a class looks the same in both.
"use strict";
const shapes = {
  // The colours of Okabe and Ito, which colour-blind people can tell apart.
  COLOURS: ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"],
  numberOf: (label) => [...label].reduce((sum, char) => (31 * sum + char.codePointAt(0)) % 9973, 0),
  areaOf: (x, y, right, bottom) =>
    ({ x: Math.min(x, right), y: Math.min(y, bottom), width: Math.abs(right - x), height: Math.abs(bottom - y) }),
  make(name, attributes, parent, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  },
};
