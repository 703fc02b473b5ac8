// The page of a mount: shows what the server sends, unless the reader has something in it selected.
"use strict";
(() => {
  const shown = document.getElementById("live"), lost = document.getElementById("lost");
  const events = new EventSource(shown.dataset.stream);
  events.onmessage = (event) => {
    lost.textContent = "";
    const isUsed = shown.contains(document.activeElement) || !document.getSelection().isCollapsed;
    if (!isUsed) shown.innerHTML = event.data;
  };
  events.onerror = () => { lost.textContent = "The server does not answer; these figures are old."; };
})();
