// Unpacks the drawing library, then draws. A page from a disk may fetch nothing, not even a part of itself: hence `atob`. The page
// counts as loading until the frame closes, so that `chromium --print-to-pdf` waits for the figures.
const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), {hidden: true}));
frame.contentDocument.open();
const unpacked = async text => {
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
unpacked(document.getElementById("plotly").textContent).then(code => {
  document.head.append(Object.assign(document.createElement("script"), {textContent: code}));
  all();
}, () => document.querySelectorAll(".figure").forEach(box => {
  box.textContent = "This figure needs a browser of 2023 or later; its numbers are in the CSV file.";
})).finally(() => { frame.contentDocument.close(); frame.remove(); });
