// The gallery: the selection, arrow keys, and letters where a picture cannot be shown.
(() => {
  const main = document.getElementById("main");
  const bar = document.getElementById("selection");
  const sources = JSON.parse(bar.dataset.sources);
  const store = `selection ${sources}`;
  let selected = new Set(JSON.parse(sessionStorage.getItem(store) || "[]"));

  // Keys stay as they are in URLs, because a name may be no UTF-8.
  const keyOf = tile => tile.querySelector("a").search.match(/[?&]key=([^&]*)/)?.[1].replaceAll("+", "%20");
  const bytesOf = key => Uint8Array.from(unescape(key), one => one.charCodeAt(0));
  const tiles = () => [...main.querySelectorAll(".tile")];

  function quoted(bytes) {
    const text = String.fromCharCode(...bytes);
    if (/^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-")) return text;
    if (/[\x00-\x1f\x7f-\xff'\\]/.test(text))
      return "$'" + text.replace(/[\x00-\x1f\x7f-\xff'\\]/g, one => "\\x" + one.charCodeAt(0).toString(16).padStart(2, "0")) + "'";
    return `'${text}'`;
  }
  const utf8 = text => new TextEncoder().encode(text);

  function commands() {
    const packs = sources.map(one => quoted(utf8(one)));
    const keys = [...selected].map(key => quoted(bytesOf(key)));
    if (bar.dataset.kind === "examples")
      return { pack: "", cat: packs.length > 1 ? "" : `ffrfs cat --example ${packs} ${keys.join(" ")}` };
    const zero = [...selected].some(key => key.includes("%0A")) ? "-0 " : "";
    const end = [...selected].some(key => /^(-|%2D)/i.test(key)) ? "-- " : "";
    return {
      pack: `ffrfs pack --files-from selected.txt ${zero}${packs.join(" ")} selected.ffr`,
      cat: packs.length > 1 ? "" : `ffrfs cat ${end}${packs} ${keys.join(" ")}`,
    };
  }

  function show() {
    for (const tile of tiles()) {
      const box = tile.querySelector("input");
      if (box) box.checked = selected.has(keyOf(tile));
    }
    bar.hidden = selected.size === 0;
    bar.querySelector("strong").textContent = `${selected.size.toLocaleString("en")} selected`;
    const made = commands();
    for (const row of bar.querySelectorAll("[data-command]")) {
      row.hidden = !made[row.dataset.command];
      row.querySelector("code").textContent = made[row.dataset.command];
    }
    sessionStorage.setItem(store, JSON.stringify([...selected]));
  }

  function toggle(tile) {
    const key = keyOf(tile);
    if (!key || !tile.querySelector("input")) return;
    if (!selected.delete(key)) selected.add(key);
    show();
  }

  const actions = {
    all() { for (const tile of tiles()) if (tile.querySelector("input")) selected.add(keyOf(tile)); show(); },
    clear() { selected = new Set(); show(); },
    download() {
      const end = [...selected].some(key => key.includes("%0A")) ? "\0" : "\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([...selected].flatMap(key => [bytesOf(key), end]), { type: "text/plain" }));
      link.download = "selected.txt";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    },
  };
  bar.addEventListener("click", event => actions[event.target.dataset.do]?.());
  main.addEventListener("change", event => event.target.matches(".tile > input") && toggle(event.target.parentElement));

  function move(event, from) {
    const all = tiles();
    const columns = all.findIndex(tile => tile.offsetTop > all[0].offsetTop);
    const row = columns < 0 ? all.length : columns;
    const at = all.indexOf(from);
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - row, ArrowDown: at + row, Home: 0, End: all.length - 1 };
    if (!(event.key in steps)) return;
    const next = all[at < 0 ? 0 : steps[event.key]];
    if (!next) return;
    event.preventDefault();
    next.querySelector("a").focus();
  }
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input:not([type=checkbox]), select, textarea, dialog, #selection")) return;
    const tile = event.target.closest(".tile");
    if (event.key === " " && tile && event.target.matches("a")) { event.preventDefault(); toggle(tile); }
    else if (tile || event.key.startsWith("Arrow")) move(event, tile);
  });

  // New results keep the focus and the marks.
  let focused;
  document.addEventListener("htmx:beforeSwap", () => { focused = document.activeElement?.closest(".tile") && keyOf(document.activeElement.closest(".tile")); });
  document.addEventListener("htmx:afterSwap", () => {
    show();
    if (focused) tiles().find(tile => keyOf(tile) === focused)?.querySelector("a").focus({ preventScroll: true });
  });
  document.addEventListener("error", event => event.target.tagName === "IMG" && event.target.classList.add("failed"), true);
  // Marks the pictures that failed before this script ran.
  for (const image of document.querySelectorAll(".picture img")) if (image.complete && !image.naturalWidth) image.classList.add("failed");
  addEventListener("pageshow", show);
  show();
})();
