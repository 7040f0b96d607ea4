// Every block of code has a button that copies it.
document.documentElement.classList.add("js");
document.addEventListener("click", async event => {
  const button = event.target.closest && event.target.closest(".copy");
  if (!button) return;
  const code = button.previousElementSibling;
  try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; }
  catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }  // a browser that does not allow it
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});
