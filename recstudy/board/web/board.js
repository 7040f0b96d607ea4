// Replaces the parts of an open page that have changed, every two seconds. A part that did not change keeps its zoomed figures,
// open details and the reader's focus.
const main = document.querySelector("main"), lost = document.getElementById("lost");
const keyOf = part => part.id || part.getAttribute("aria-labelledby") || part.tagName;
[...main.children].forEach(part => { part.source = part.outerHTML; });
const STOPS = "a, button, input, summary, [tabindex]";
const takeIn = html => {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const before = new Map([...main.children].map(part => [keyOf(part), part]));
  const seen = [...main.children].find(part => part.getBoundingClientRect().bottom > 60), top = seen?.getBoundingClientRect().top;
  let last = null;
  document.title = fresh.title;
  for (const part of [...fresh.querySelector("main").children]) {
    const old = before.get(keyOf(part)), source = part.outerHTML;
    before.delete(keyOf(part));
    if (old?.source === source) { last = old; continue; }
    const details = part.querySelectorAll("details");
    old?.querySelectorAll("details").forEach((fold, index) => { if (details[index]) details[index].open = fold.open; });
    const focused = old ? [...old.querySelectorAll(STOPS)].indexOf(document.activeElement) : -1;
    if (old) old.replaceWith(part);
    else if (last) last.after(part);
    else main.prepend(part);
    if (focused >= 0) part.querySelectorAll(STOPS)[focused]?.focus({preventScroll: true});
    part.source = source;
    last = part;
    const figures = part.querySelectorAll(".figure");
    if (figures.length && !window.Plotly) location.reload();  // the page had no figure before
    else figures.forEach(draw);
  }
  before.forEach(part => part.remove());
  const same = seen && [...main.children].find(part => keyOf(part) === keyOf(seen));
  if (same) scrollBy(0, same.getBoundingClientRect().top - top);  // what the reader sees stays where it is
  lookForThinking();
  document.dispatchEvent(new Event("update"));
};
const refresh = async () => {
  if (!document.hidden) try {
    const answer = await fetch(location.href, {cache: "no-cache"}), tag = answer.headers.get("ETag");
    if (answer.ok && tag !== refresh.tag) takeIn(await answer.text());
    if (answer.ok) refresh.tag = tag;
    lost.textContent = answer.ok ? "" : "The board cannot show this page any more. It is an earlier state.";
  } catch {
    const time = new Date().toLocaleTimeString();
    lost.textContent ||= `The board does not answer. This page shows the state at ${time} and continues when the board is back.`;
  }
  setTimeout(refresh, 2000);
};
setTimeout(refresh, 2000);
