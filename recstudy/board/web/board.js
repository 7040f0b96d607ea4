// Makes the page what the board says it is, and draws its figures. PLOTLY is the drawing library's address.
//
// A part of the page comes as HTML. React, which Dash brings, makes it of what is there already, so that a reader's place, focus
// and selection, what is typed and unfolded and the zoom of a figure stay.
const page = document.getElementById("page"), root = ReactDOM.createRoot(page);
const DRAWN = ["figure", "thinking"];  // boxes that are filled here
const NEVER = ["base", "embed", "iframe", "link", "meta", "object", "style"];  // of no use in a part, whoever wrote it
const element = (node, at) => {
  if (node.nodeType !== Node.ELEMENT_NODE) return /^\n\s*$/.test(node.data) ? null : node.data;  // breaks between tags
  const tag = node.localName, drawn = DRAWN.find(name => node.classList.contains(name)), isBox = node.type === "checkbox";
  if (NEVER.includes(tag)) return null;
  const given = {key: `${tag} ${drawn || ""} ${at}`};
  for (const {name, value} of node.attributes) if (name !== "style" && !name.startsWith("on")) given[name] = value;
  for (const name of ["disabled", "selected", "open"]) if (name in given) given[name] = true;
  if (isBox) given.defaultChecked = node.defaultChecked;
  else if (tag === "input") given.defaultValue = node.defaultValue;
  if (tag === "input") delete given[isBox ? "checked" : "value"];  // those are the reader's
  const children = drawn ? [] : [...node.childNodes].map(element);
  return React.createElement(tag, given, ...children);
};
const section = (key, html) => {
  const read = document.createElement("template");
  read.innerHTML = html;
  const children = [...read.content.childNodes].map(element);
  return React.createElement("section", {key, className: "part", "data-key": key}, ...children);
};
const asGiven = field => `${field.getAttribute("value")} ${field.defaultChecked}`;
const render = sections => {
  const before = new Map([...page.querySelectorAll("input")].map(field => [field, asGiven(field)]));
  ReactDOM.flushSync(() => root.render(sections));
  for (const [field, given] of before) {  // what was typed or ticked for another address is over
    if (asGiven(field) === given) continue;
    if (field.type === "checkbox") field.checked = field.defaultChecked;
    else field.value = field.defaultValue;
  }
};

// The page that is shown; where a reader begins on another page, and where one was who comes back to it.
let shown = {}, sections = {}, back = false;
const left = {};
history.scrollRestoration = "manual";
addEventListener("popstate", () => { back = true; });
const show = ({path, search, title, order, parts, whole}) => {
  const at = path + search, other = shown.path !== path, moved = shown.at !== at;
  if (moved) left[shown.at] = place();
  if (other) clear();
  for (const [key, html] of Object.entries(parts)) sections[key] = section(key, html);
  render(order.map(key => sections[key]));
  document.title = title;
  lookForFigures();
  lookForThinking();
  if (shown.at ? moved : location.hash) arrive(at, other);
  shown = {path, search, at};
  back = false;
  if (!whole) window.dash_clientside.set_props("tick", {n_intervals: Date.now()});  // the rest is asked for at once
};
const place = () => {  // the section in sight, and where its top is: figures above it that are yet to be drawn do not count
  const section = [...page.children].find(section => section.getBoundingClientRect().bottom > 0);
  return section && {key: section.dataset.key, top: section.getBoundingClientRect().top};
};
const returnTo = at => {
  const section = left[at] && [...page.children].find(section => section.dataset.key === left[at].key);
  scrollTo(0, section ? scrollY + section.getBoundingClientRect().top - left[at].top : 0);
};
const clear = () => {
  near.disconnect();
  page.querySelectorAll(".js-plotly-plot").forEach(box => Plotly.purge(box));
  sections = {};
  Object.keys(zoomed).forEach(across => { delete zoomed[across]; });
  render([]);
};
const arrive = (at, other) => {
  const part = location.hash && document.getElementById(location.hash.slice(1)), target = part || page.querySelector("h1");
  if (back) returnTo(at);
  else if (part) part.scrollIntoView();
  else if (other) scrollTo(0, 0);
  if (target && (other || part) && !back) { target.tabIndex = -1; target.focus({preventScroll: true}); }
};
window.dash_clientside = Object.assign(window.dash_clientside || {}, {board: {show: update => {
  if (update) show(update);
  return window.dash_clientside.no_update;
}}});

// A figure is drawn when a reader comes near it, and again when its numbers change. The drawing library is loaded with the first
// one: a page of tables is there in half the time without it.
let library = null;
const near = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(({target}) => {
  if (!window.Plotly) return;
  near.unobserve(target);
  target.drawn = target.nextElementSibling.textContent;
  draw(target);
  target.style.minHeight = "";
}), {rootMargin: "600px 0px"});
const lookForFigures = () => page.querySelectorAll(".figure").forEach(box => {
  const text = box.nextElementSibling.textContent;
  if (box.drawn === text) return;
  const high = text.includes('"slices":true') ? 80 : 300;  // of a panel: of small ones three are side by side
  if (!box.drawn) box.style.minHeight = high * (/"panels":([\d.]+)/.exec(text) || [0, 1])[1] + 90 + "px";
  near.unobserve(box);
  near.observe(box);
  if (library || window.Plotly) return;
  library = Object.assign(document.createElement("script"), {src: PLOTLY, onload: lookForFigures});
  document.head.append(library);
});

// A link and a form within the board lead to another page of it without loading the board again.
const query = pairs => new URLSearchParams(pairs).toString().replaceAll("%2C", ",");
const go = url => {
  back = false;
  window.dash_clientside.set_props("at", {pathname: url.pathname, search: url.search, hash: url.hash});
};
addEventListener("click", event => {
  const link = event.target.closest && event.target.closest("a[href]");
  if (!link || link.target || link.origin !== location.origin || event.defaultPrevented || event.button) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const here = link.pathname + link.search === location.pathname + location.search;
  if (here && link.hash) return;  // a part of this page
  event.preventDefault();
  if (here) return;
  go(link);
});
addEventListener("submit", event => {
  const url = new URL(event.target.action), fields = {};
  for (const [name, value] of new FormData(event.target)) if (value) (fields[name] ||= []).push(value);
  url.search = query(Object.entries(fields).map(([name, values]) => [name, values.join(",")]));
  event.preventDefault();
  go(url);
});
// Where nobody answers, the page says so: what it shows would otherwise pass for the present.
const ask = window.fetch, lost = document.getElementById("lost");
const heard = there => {
  const time = new Date().toLocaleTimeString();
  if (there) lost.textContent = "";
  else if (!lost.textContent) lost.textContent = `The board does not answer. This is as of ${time}, and goes on when it is back.`;
};
window.fetch = (...given) => ask(...given).then(
  answer => { heard(answer.ok); return answer; }, error => { heard(false); throw error; });
