// Draws the table of runs from the JSON in the page.
import DataTable, {set_or_remove_dark_class} from "/static/dt_bundle.js";

const read = () => JSON.parse(document.getElementById("rows").textContent);
const {columns, rows} = read();
const place = document.getElementById("runs"), {maxRuns, run, compare} = place.dataset;
const text = DataTable.render.text().display;
const link = (label, type, row) =>
  type === "display" ? `<a href="${run.replace("ID", encodeURIComponent(row[0]))}">${text(label)}</a>` : label;
const chosen = () => table.rows({selected: true}).ids().toArray();
const overlay = {
  text: "Compare",
  action: () => { location = `${compare}?${new URLSearchParams(chosen().map(id => ["run", id]))}`; },
};
set_or_remove_dark_class();
const table = new DataTable(place, {
  data: rows,
  rowId: "0",
  columns: [
    {data: null, title: "", orderable: false, searchable: false, render: DataTable.render.select()},
    ...columns.map((column, index) => ({
      ...column, data: index, render: column.name === "label" ? link : DataTable.render.text(),
    })),
  ],
  columnControl: {target: 0, content: ["order", "searchDropdown"]},
  ordering: {indicators: false, handler: false},
  layout: {
    topStart: {buttons: [overlay, {extend: "colvis", text: "Columns", columns: ":gt(0)"}, "searchBuilder", "csv"]},
    bottomStart: ["pageLength", "info"],
  },
  order: [],
  pageLength: 50,
  scrollX: true,
  select: {style: "multi", selector: "td:first-child", headerCheckbox: false},
  stateSave: true,
  stateDuration: 0,
});
for (const [name, value] of new URLSearchParams(location.search)) {  // a link that leads to some of the runs
  const values = value.split(",");
  table.column(`${name}:name`).search.fixed("address", cell => values.includes(cell));
}
const count = () => table.button(0).enable(chosen().length >= 2 && chosen().length <= maxRuns);
table.on("select deselect", count).draw();
count();
document.addEventListener("update", () => {
  const selected = chosen().map(id => `#${id}`);
  table.clear().rows.add(read().rows).draw(false);
  table.rows(selected).select();
});
