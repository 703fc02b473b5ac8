// The gallery: pictures that cannot be shown leave their letters.
document.addEventListener("error", event => {
  if (event.target.tagName === "IMG") event.target.classList.add("failed");
}, true);
