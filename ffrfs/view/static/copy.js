// Buttons that copy a line. Where the clipboard is not allowed, they select the line instead.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const line = document.getElementById(button.dataset.copy);
  getSelection().selectAllChildren(line);
  try {
    await navigator.clipboard.writeText(line.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } catch { /* the line is selected */ }
});
