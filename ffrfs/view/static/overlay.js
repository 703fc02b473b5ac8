// Draws annotations over a picture, whose bytes are not changed: boxes, names and key points in an
// SVG of the picture's size, masks on a canvas. Names are hostile: they only become text.
"use strict";
(() => {
  const { COLOURS, numberOf, make, areaOf } = shapes;
  const DARK = ["#009e73", "#0072b2", "#d55e00"];
  // If there are more classes than colours, the others have dashes.
  const DASHES = ["", "6 3", "2 3", "10 3 2 3"];
  const CITYSCAPES = "128,64,128;244,35,232;70,70,70;102,102,156;190,153,153;153,153,153;250,170,30;220,220,0;107,142,35;"
    + "152,251,152;70,130,180;220,20,60;255,0,0;0,0,142;0,0,70;0,60,100;0,80,100;0,0,230;119,11,32";
  const LEGEND_MAX = 100, PIXELS_MAX = 1 << 26, OWN_COLOUR = 1 << 24, GREY = "#808080";
  const by = (id) => document.getElementById(id);
  const hex = (number) => `#${number.toString(16).padStart(6, "0")}`;
  const say = (text) => { by("told").textContent += ` ${text}`; };
  const data = JSON.parse(by("annotations").textContent), query = new URLSearchParams(location.search);
  const highlighted = (query.get("highlight") || "").split(";").filter(Boolean);
  const divisor = Math.max(1, parseInt(query.get("divisor"), 10) || 1), overlay = query.get("overlay") || "";
  const colours = readColours(query.get("colormap") || "");
  const hasBoxes = ["", "detection"].includes(overlay), hasSegmap = ["", "segmentation"].includes(overlay);
  const picture = by("picture"), canvas = document.querySelector("#stage canvas"), svg = document.querySelector("#stage svg");
  const classes = new Map(); // { name, count, colour, dash, isShown } by a box's name, or a mask's number
  let width = 0, height = 0; // of the picture, in its pixels
  let masks = null, segmap = null; // for each pixel: the index of a box, plus 1; the number of a class

  function readColours(text) {
    const rows = (text === "cityscapes" ? CITYSCAPES : text).split(";").filter(Boolean).map((row) => row.split(",").map(Number));
    if (rows.every((row) => row.length === 3 && row.every((part) => Number.isInteger(part) && part >= 0 && part < 256)))
      return rows.map(([red, green, blue]) => hex(red << 16 | green << 8 | blue));
    say("The colormap is cityscapes, or colours like 128,64,128;244,35,232.");
    return [];
  }

  function addClasses() {
    const taken = new Set(), count = COLOURS.length;
    for (const [key, one] of classes) { // a class has the same colour and dash in all records, as far as these suffice
      const wish = typeof key === "number" ? key : numberOf(key);
      let look = wish % count;
      for (let i = 0; i < count * DASHES.length && taken.has(look); ++i) look = (wish + i) % count + count * Math.floor(i / count);
      taken.add(look);
      one.colour ??= COLOURS[look % count];
      one.dash = DASHES[Math.floor(look / count)];
      if (taken.size <= LEGEND_MAX) addToLegend(one);
    }
    if (classes.size > LEGEND_MAX) say(`The list has ${LEGEND_MAX} of ${classes.size} classes.`);
  }

  function addToLegend(one) {
    const label = document.createElement("label"), name = document.createElement("span"), number = document.createElement("small");
    const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: one.isShown });
    box.addEventListener("change", () => { one.isShown = box.checked; draw(); });
    name.textContent = one.name || "(no name)";
    number.textContent = one.share === undefined ? one.count : `${(100 * one.share).toFixed(1)} %`;
    label.append(box);
    const swatch = make("svg", { viewBox: "0 0 28 16", "aria-hidden": "true" }, label), area = { x: 2, y: 2, width: 24, height: 12 };
    make("rect", { ...area, stroke: "#000", "stroke-width": 4, "stroke-opacity": .5, fill: "none" }, swatch);
    make("rect", { ...area, stroke: one.colour, "stroke-width": 3, "stroke-dasharray": one.dash, fill: one.share ? one.colour : "none" }, swatch);
    label.append(name, number);
    by("classes").append(label);
  }

  const isShown = (box) => classes.get(box.label).isShown && (box.score === null || box.score >= by("score").value);

  function draw() {
    const isOn = by("overlay").checked;
    const unit = width / picture.clientWidth || 1; // a CSS pixel, in those of the picture
    const clamp = (value, most) => Math.min(Math.max(value, -most), 2 * most);
    const place = ([x, y]) => [clamp(data.pixels ? x : x * width, width), clamp(data.pixels ? y : y * height, height)];
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    canvas.hidden = !isOn || !(masks || segmap);
    if (!canvas.hidden) paint();
    const boxes = isOn && hasBoxes ? data.boxes.filter(isShown) : [];
    for (const box of boxes) {
      const { colour, dash } = classes.get(box.label), [x, y] = place(box.at), [right, bottom] = place(box.at.slice(2));
      const area = areaOf(x, y, right, bottom);
      const look = highlighted.includes(box.label) ? "box marked" : highlighted.length ? "box dim" : "box";
      const group = make("g", { class: look }, svg), name = box.label + (box.score === null ? "" : ` ${box.score.toFixed(2)}`);
      make("rect", { ...area, class: "back" }, group);
      make("title", {}, make("rect", { ...area, class: "edge", stroke: colour, "stroke-dasharray": dash }, group), name);
      if (by("names").checked && name) addName(group, name, colour, area, unit);
    }
    const owners = new Map(data.boxes.map((box) => [box.index, box])), shown = new Set(boxes.map((box) => box.index));
    for (const [x, y, index] of isOn && hasBoxes ? data.points : []) {
      if (owners.has(index) && !shown.has(index)) continue;
      const [cx, cy] = place([x, y]), fill = owners.has(index) ? classes.get(owners.get(index).label).colour : COLOURS[3];
      make("circle", { cx, cy, r: 4 * unit, fill, stroke: "#000" }, svg);
    }
    by("least").textContent = Number(by("score").value).toFixed(2);
    svg.setAttribute("aria-label", `${boxes.length} of ${data.boxes.length} boxes`);
  }

  function addName(group, name, colour, area, unit) {
    const text = make("text", { fill: DARK.includes(colour) ? "#fff" : "#000" }, group, name);
    text.style.fontSize = `${12 * unit}px`;
    const wide = text.getComputedTextLength() + 8 * unit, high = 17 * unit;
    const x = Math.max(0, Math.min(area.x, width - wide)), y = area.y >= high ? area.y - high : Math.max(area.y, 0);
    text.setAttribute("x", x + 4 * unit);
    text.setAttribute("y", y + 13 * unit);
    text.before(make("rect", { x, y, width: wide, height: high, fill: colour }, group));
  }

  function paint() {
    const image = new ImageData(width, height), pixels = new DataView(image.data.buffer);
    const packed = (colour, isShown) => (isShown ? parseInt(colour.slice(1), 16) * 256 + 255 : 0);
    const ofClass = new Map([...classes].map(([key, one]) => [key, packed(one.colour, one.isShown)]));
    const ofBox = new Map(data.boxes.map((box) => [box.index + 1, packed(classes.get(box.label).colour, isShown(box))]));
    for (let i = 0; i < width * height; ++i)
      pixels.setUint32(4 * i, (masks && ofBox.get(masks[i])) || (segmap && ofClass.get(segmap[i])) || 0);
    Object.assign(canvas, { width, height }).getContext("2d").putImageData(image, 0, 0);
    canvas.style.opacity = by("opacity").value;
  }

  // Returns the value of a mask at each pixel of the picture: a grey value or stored number, or its own colour.
  async function numbers(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`A mask cannot be read (${answer.status}).`);
    const bytes = new Uint8Array(await answer.arrayBuffer()), view = new DataView(bytes.buffer);
    const isPng = bytes.length > 25 && view.getUint32(0) === 0x89504e47, each = bytes.length / (width * height);
    const Raw = { 1: Uint8Array, 2: Uint16Array, 4: Int32Array }[each];
    if (!isPng && Raw) return Int32Array.from(new Raw(bytes.buffer), (value) => Math.floor(value / divisor));
    if (isPng && view.getUint32(16) * view.getUint32(20) > PIXELS_MAX) throw new Error("A mask has too many pixels.");
    const bitmap = await createImageBitmap(new Blob([bytes]), { colorSpaceConversion: "none", premultiplyAlpha: "none" });
    const context = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });
    context.imageSmoothingEnabled = false;
    context.drawImage(bitmap, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height).data, found = new Int32Array(width * height);
    const step = isPng && bytes[25] === 0 && bytes[24] < 8 ? 255 / ((1 << bytes[24]) - 1) : 1; // a grey PNG of fewer than 8 bits
    let isGrey = !(isPng && bytes[25] === 3); // with a palette, its colours count
    for (let i = 0; isGrey && i < pixels.length; i += 4) isGrey = pixels[i] === pixels[i + 1] && pixels[i] === pixels[i + 2];
    for (let i = 0; i < found.length; ++i) {
      const red = pixels[4 * i], rest = pixels[4 * i + 1] << 8 | pixels[4 * i + 2];
      found[i] = isGrey ? Math.floor(red / step / divisor) : OWN_COLOUR + (red << 16 | rest);
    }
    return found;
  }

  async function loadMasks() {
    if (data.masks.length && hasBoxes) {
      masks = new Int32Array(width * height);
      for (const [index, url] of data.masks.entries())
        (await numbers(url)).forEach((value, i) => { if (value && value !== OWN_COLOUR) masks[i] = index + 1; });
    }
    if (!data.segmap || !hasSegmap) return;
    segmap = await numbers(data.segmap);
    const found = new Map();
    for (const value of segmap) found.set(value, (found.get(value) || 0) + 1);
    for (const [value, count] of [...found].sort(([a], [b]) => a - b)) {
      const own = value >= OWN_COLOUR ? hex(value - OWN_COLOUR) : undefined;
      const isBackground = !colours.length && (value === 0 || value === OWN_COLOUR);
      const colour = colours[value] || own || (colours.length || isBackground || value === 255 ? GREY : undefined);
      classes.set(value, { name: own || `class ${value}`, share: count / segmap.length, colour, isShown: !isBackground });
    }
  }

  async function begin() {
    // Chromium swaps these two by EXIF even where CSS says that the picture is not turned.
    [width, height] = [picture.naturalWidth, picture.naturalHeight];
    const shape = picture.clientWidth / picture.clientHeight;
    if (Math.abs(shape - height / width) < Math.abs(shape - width / height)) [width, height] = [height, width];
    if (!width || width * height > PIXELS_MAX) return say("The browser cannot show this picture.");
    if (width < 320) picture.style.width = `${width * Math.max(1, Math.floor(Math.min(400 / width, 400 / height)))}px`;
    picture.classList.toggle("small", width < 100);
    const names = data.boxes.map((box) => box.label), count = (name) => names.filter((one) => one === name).length;
    const tally = [...new Set(names)].map((name) => ({ name, count: count(name), isShown: true }));
    for (const one of tally.sort((a, b) => b.count - a.count)) classes.set(one.name, one);
    const scores = data.boxes.map((box) => box.score).filter((score) => score !== null), least = Math.min(0, ...scores);
    Object.assign(by("score"), { min: least, max: Math.max(1, ...scores), value: least });
    by("score").closest("p").hidden = !scores.length;
    by("overlay").checked = !["none", "classification"].includes(overlay);
    await loadMasks().catch((error) => say(error.message));
    by("opacity").closest("p").hidden = !(masks || segmap);
    by("classes").hidden = !classes.size;
    by("controls").hidden = !(classes.size || data.points.length);
    addClasses();
    for (const id of ["overlay", "names", "score", "opacity"]) by(id).addEventListener("input", draw);
    new ResizeObserver(draw).observe(picture);
    draw();
    svg.dataset.state = "drawn";
  }

  if (picture.complete) begin();
  else for (const event of ["load", "error"]) picture.addEventListener(event, begin, { once: true });
})();
