// Takes in the parts of an open page that have changed, every two seconds. A part that did not change keeps its zoomed figures,
// open details and the reader's focus.
const page = document.getElementById("page"), lost = document.getElementById("lost");
[...page.children].forEach(section => { section.source = section.outerHTML; });
const STOPS = "a, button, input, summary, [tabindex]";
const takeIn = html => {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  document.title = fresh.title;
  const seen = [...page.children].find(section => section.getBoundingClientRect().bottom > 60);
  const top = seen?.getBoundingClientRect().top;
  const before = new Map([...page.children].map(section => [section.dataset.key, section]));
  let position = page.firstElementChild;
  for (const section of fresh.getElementById("page").children) {
    const key = section.dataset.key, old = before.get(key), source = section.outerHTML;
    before.delete(key);
    if (old && old.source === source) {
      if (old !== position) page.insertBefore(old, position);
      position = old.nextElementSibling;
      continue;
    }
    const made = document.importNode(section, true);
    made.source = source;
    if (old) {
      [...old.querySelectorAll("details")].forEach((details, at) => {
        const same = made.querySelectorAll("details")[at];
        if (same) same.open = details.open;
      });
    }
    page.insertBefore(made, position);
    if (old) {
      const focused = [...old.querySelectorAll(STOPS)].indexOf(document.activeElement);
      if (focused >= 0) made.querySelectorAll(STOPS)[focused]?.focus({preventScroll: true});
      if (old === position) position = old.nextElementSibling;
      old.querySelectorAll(".js-plotly-plot").forEach(box => Plotly.purge(box));
      old.remove();
    }
    drawIn(made);
  }
  before.forEach(section => section.remove());
  const there = seen && [...page.children].find(section => section.dataset.key === seen.dataset.key);
  if (there) scrollBy(0, there.getBoundingClientRect().top - top);  // what the reader sees stays where it is
};
const drawIn = section => {
  const boxes = section.querySelectorAll(".figure");
  if (boxes.length && !window.Plotly) location.reload();  // the page had no figure before
  else boxes.forEach(draw);
  lookForThinking();
};
const refresh = async () => {
  if (!document.hidden) try {
    const answer = await fetch(location.href, {cache: "no-cache"});
    const tag = answer.headers.get("ETag");
    if (tag !== refresh.tag && answer.ok) {
      takeIn(await answer.text());
      refresh.tag = tag;
    }
    lost.textContent = "";
  } catch {
    if (!lost.textContent) {
      const time = new Date().toLocaleTimeString();
      lost.textContent = `The board does not answer. This page shows the state at ${time} and continues when the board is back.`;
    }
  }
  setTimeout(refresh, 2000);
};
setTimeout(refresh, 2000);
