// Unpacks Plotly and draws the figures. A page that is opened from a file cannot fetch anything, not even a part of itself, so the
// library is decoded with `atob`. The page counts as loading until the frame closes, so `chromium --print-to-pdf` waits for figures.
const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), {hidden: true}));
frame.contentDocument.open();
const unpacked = async text => {
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
unpacked(document.getElementById("plotly").textContent).then(code => {
  document.head.append(Object.assign(document.createElement("script"), {textContent: code}));
  drawAll();
}, () => document.querySelectorAll(".figure").forEach(box => {
  box.textContent = "This figure needs a browser from 2023 or later. Its numbers are in the CSV file.";
})).finally(() => { frame.contentDocument.close(); frame.remove(); });
