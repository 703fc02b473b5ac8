// Keys of all pages: / to the filter, ? for help, n and p to the next and the previous page.
(() => {
  const help = document.getElementById("keys");
  const follow = rel => document.querySelector(`main a[rel=${rel}]`)?.click();
  const actions = {
    "/": () => document.querySelector("#filter input:not([type=hidden]), [role=search] input")?.focus(),
    "?": () => help.showModal(),
    n: () => follow("next"),
    p: () => follow("prev"),
  };
  document.getElementById("help").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", event => {
    const field = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape" && field) field.blur();
    if (event.ctrlKey || event.altKey || event.metaKey || field || help.open || !Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
})();
