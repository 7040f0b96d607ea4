// Adds a copy function to the button of every code block.
document.documentElement.classList.add("js");
document.addEventListener("click", async event => {
  const button = event.target.closest && event.target.closest(".copy");
  if (!button) return;
  const code = button.previousElementSibling;
  try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; }
  catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }  // the browser denies access to the clipboard
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});
