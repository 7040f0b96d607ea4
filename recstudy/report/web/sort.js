// Sorts a table by the column whose heading a reader activates: down, up, and in the page's order again. Rows below a group's heading
// or its base stay there, and a line of published values stays below its row.
const orders = ["none", "descending", "ascending"];
// "2 of 3 learned (9 to 99 %): 93.5" is 93.5; "– 3 diverged" and "not available (Java 8)" are no numbers
const number = text => /^(–|not |undecided)/.test(text) ? NaN
  : parseFloat((text.replace(/^.*? learned \(.*?\): /, "").match(/-?[\d,]*\.?\d+(e-?\d+)?/) || [""])[0].replaceAll(",", ""));
const isGroup = row => row.cells.length === 1 || row.lastElementChild.textContent.trim() === "base";
document.addEventListener("click", event => {
  const button = event.target.closest?.(".sort");
  if (!button) return;
  const table = button.closest("table"), head = button.closest("th"), column = Number(head.dataset.column);
  table.pageOrder ||= [...table.tBodies[0].rows];
  const order = orders[(orders.indexOf(head.getAttribute("aria-sort")) + 1) % 3], sign = order === "ascending" ? 1 : -1;
  table.querySelectorAll("th[aria-sort]").forEach(other => other.setAttribute("aria-sort", other === head ? order : "none"));
  const groups = [[]];  // each is its heading, if it has one, and blocks of rows that stay together
  table.pageOrder.forEach(row => {
    if (isGroup(row)) groups.push([[row]]);
    else if (row.cells[0].textContent.trim() === "published") groups.at(-1).at(-1).push(row);
    else groups.at(-1).push([row]);
  });
  const text = rows => (rows[0].cells[column]?.textContent || "").trim();
  const compare = (first, second) => {
    if (order === "none") return 0;
    const [a, b] = [text(first), text(second)], [x, y] = [number(a), number(b)];
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;  // rows without a number are last
    return sign * (isNaN(x) || x === y ? a.localeCompare(b, "en") : x - y);
  };
  groups.forEach(group => {
    const fixed = group.length && isGroup(group[0][0]) ? group.splice(0, 1) : [];
    table.tBodies[0].append(...[...fixed, ...group.sort(compare)].flat());
  });
});
