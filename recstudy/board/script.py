"""What runs in the browser: makes the page what the board says it is, and draws its figures.

Dash's own components would be made anew with every update, and with them would go a reader's place in the page, what is typed
and unfolded, and the zoom of a figure. So a page's parts come as nodes (elements.py), and what is there already is kept.
"""

from recstudy.analysis.page import COPY, SCRIPT, VIEWER
from recstudy.board import brush_script

FIT = """
const page = document.getElementById("page");
const OWN = ["open", "style"];  // attributes that the reader and the drawing library set
const SET = ["checked", "selected"];  // what a reader has changed since no longer follows its attribute
const DRAWN = ["figure", "thinking", "brush"];  // boxes that are filled here
const like = (node, element) => typeof element === "string" ? node.nodeType === Node.TEXT_NODE
  : node.localName === element[0] && DRAWN.every(name => node.classList.contains(name) === (element[1].class === name));
const make = element => typeof element === "string" ? document.createTextNode(element)
  : fit(document.createElement(element[0]), element);
const fit = (node, element) => {
  if (typeof element === "string") { if (node.data !== element) node.data = element; return node; }
  const [, attributes, children] = element, drawn = DRAWN.some(name => node.classList.contains(name));
  const chosen = SET.filter(name => node.hasAttribute(name) !== name in attributes);
  let other = false;
  for (const name of node.getAttributeNames())
    if (!(name in attributes) && !OWN.includes(name)) node.removeAttribute(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (node.getAttribute(name) === value || (drawn && name === "class")) continue;
    node.setAttribute(name, value);
    if (name === "value") { node.value = value; other = true; }  // of another address: what was typed is over
  }
  (other ? SET : chosen).filter(name => name in node).forEach(name => { node[name] = name in attributes; });
  if (!drawn) fill(node, children);
  return node;
};
const fill = (node, elements) => {
  elements.forEach((element, at) => {
    const old = node.childNodes[at];
    if (!old) node.append(make(element));
    else if (like(old, element)) fit(old, element);
    else old.replaceWith(make(element));
  });
  while (node.childNodes.length > elements.length) node.lastChild.remove();
};
"""
# The sections by their keys; a page's title; where a reader begins on another page, and where one was who comes back to it.
SHOW = """
let shown = {}, back = false;
const left = {}, changed = new Set();  // changed: fields of the address that the page shown does not know yet
history.scrollRestoration = "manual";
addEventListener("popstate", () => { back = true; });
const show = ({path, search, title, order, parts, news}) => {
  notify(news);
  const at = path + search, other = shown.path !== path, moved = shown.at !== at;
  if (moved) left[shown.at] = place();
  if (other) clear();
  const sections = Object.fromEntries([...page.children].map(section => [section.dataset.key, section]));
  Object.keys(sections).filter(key => !order.includes(key)).forEach(key => sections[key].remove());
  order.forEach((key, at) => {
    const section = sections[key] || Object.assign(document.createElement("section"), {className: "part"});
    section.dataset.key = key;
    if (page.children[at] !== section) page.insertBefore(section, page.children[at] || null);
    if (key in parts) fill(section, JSON.parse(parts[key]));
  });
  document.title = title;
  lookForFigures();
  lookForThinking();
  lookForBrushes();
  if (shown.at ? moved : location.hash) arrive(at, other);
  shown = {path, search, at};
  if (at === location.pathname + location.search) changed.clear();
  back = false;
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
  page.replaceChildren();
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
"""
# A link and a form within the board lead to another page of it without loading the board again.
GO = """
const fieldsOf = search => Object.fromEntries(new URLSearchParams(search));
const searchOf = fields => {
  const words = query(Object.entries(fields).filter(([, value]) => value));
  return words && "?" + words;
};
const query = pairs => new URLSearchParams(pairs).toString().replaceAll("%2C", ",");
// A link of this page was made for the address shown. What a reader has ticked or brushed since goes with it.
const withChanges = ({pathname, search}) => {
  if (pathname !== location.pathname) return search;
  const fields = fieldsOf(search), made = fieldsOf(shown.search), now = fieldsOf(location.search);
  for (const name of changed) if (fields[name] === made[name]) fields[name] = now[name];
  return searchOf(fields);
};
const go = url => {
  back = false;
  window.dash_clientside.set_props("at", {pathname: url.pathname, search: withChanges(url), hash: url.hash});
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
const askFor = changes => {  // the same page with these changes of its query, in place of it in the history
  const search = searchOf({...fieldsOf(location.search), ...changes});
  Object.keys(changes).forEach(name => changed.add(name));
  history.replaceState(history.state, "", location.pathname + search + location.hash);
  window.dash_clientside.set_props("at", {search});
  lookForBrushes();
};
addEventListener("change", ({target}) => {
  if (!target.classList.contains("tick")) return;
  const before = (new URLSearchParams(location.search).get("ticked") || "").split(",").filter(id => id && id !== target.value);
  const ticked = [...before, ...target.checked ? [target.value] : []].join(",");
  target.form.elements.runs.value = ticked;
  askFor({ticked});
});
"""
# A figure is drawn when a reader comes near it, and again when its numbers change. The drawing library is loaded with the first
# one: a page of tables is there in half the time without it.
DRAW = """
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
  if (!box.drawn) box.style.minHeight = high * (/"panels":([\\d.]+)/.exec(text) || [0, 1])[1] + 90 + "px";
  near.unobserve(box);
  near.observe(box);
  if (library || window.Plotly) return;
  library = Object.assign(document.createElement("script"), {src: PLOTLY, onload: lookForFigures});
  document.head.append(library);
});
"""
# Notices, once a reader has asked for them by the button, and the browser has allowed it. A choice is kept by the browser.
NOTIFY = """
const bell = document.getElementById("notify");
const wanted = () => window.Notification && Notification.permission === "granted" && localStorage.getItem("notify") === "on";
const label = () => {
  bell.hidden = !window.Notification;  // browsers have them on this machine's pages and on encrypted ones
  bell.setAttribute("aria-pressed", wanted());
  bell.textContent = wanted() ? "Notifications on" : "Notify me";
  bell.title = window.Notification && Notification.permission === "denied" ? "This browser refuses them for this page"
    : "When a study ends or a run fails, as long as a page of the board is open";
};
bell.addEventListener("click", async () => {
  const on = !wanted();
  if (on) await Notification.requestPermission();
  localStorage.setItem("notify", on ? "on" : "off");
  label();
});
const notify = news => {
  if (wanted()) (news || []).forEach(({title, body, tag, to}) => {
    const shown = new Notification(title, {body, tag});
    shown.onclick = () => { window.focus(); go(new URL(to, location.href)); shown.close(); };
  });
};
label();
"""
# Where nobody answers, the page says so: what it shows would otherwise pass for the present.
LOST = """
const ask = window.fetch, lost = document.getElementById("lost");
const heard = there => {
  const time = new Date().toLocaleTimeString();
  if (there) lost.textContent = "";
  else if (!lost.textContent) lost.textContent = `The board does not answer. This is as of ${time}, and goes on when it is back.`;
};
window.fetch = (...given) => ask(...given).then(
  answer => { heard(answer.ok); return answer; }, error => { heard(false); throw error; });
"""


def script(plotly: str) -> str:
    """The script, which loads the drawing library from this address."""
    return f'{SCRIPT}{COPY}{VIEWER}const PLOTLY = "{plotly}";\n{FIT}{DRAW}{brush_script.SCRIPT}{NOTIFY}{SHOW}{GO}{LOST}'
