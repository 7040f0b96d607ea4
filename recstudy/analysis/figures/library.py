"""The drawing library inside a page: 4.8 MB of text, packed into 2.0, which every browser since 2023 unpacks by itself."""

import base64
import gzip
from pathlib import Path

import plotly

LIBRARY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
LEVEL = 5  # of nine: half the time of the last, and 1 % more

# Unpacks the library, then draws. A page from a disk may fetch nothing, not even a part of itself: hence `atob`. The page
# counts as loading until the frame closes, so that `chromium --print-to-pdf` waits for the figures.
UNPACK = """
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
"""


def packed() -> bytes:
    """An element of a page that holds the library for `UNPACK`; the same bytes each time."""
    text = base64.b64encode(gzip.compress(LIBRARY.read_bytes(), LEVEL, mtime=0))
    return b'<script type="application/octet-stream" id="plotly">%b</script>\n' % text
