// Sorting and filtering of the tables of a page.
for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
const rowsOf = () => [...document.querySelectorAll("table.board tbody tr")];
const onShown = []; // what follows the filter
const textOf = (cell) => (cell.querySelector("a, label span") || cell.firstChild || cell).textContent.trim();

function sortBy(table, column, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  const keyed = [...table.tBodies[0].rows].map((row) => [row, textOf(row.cells[column])]);
  const isNumber = (text) => text !== "" && !isNaN(text);
  const none = (text) => text === "–" || text === "";
  keyed.sort(([, one], [, two]) => none(one) - none(two) // always last
    || sign * (isNumber(one) && isNumber(two) ? one - two : one.localeCompare(two, "en", { numeric: true })));
  table.tBodies[0].append(...keyed.map(([row]) => row));
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", i === column ? direction : "none");
  });
}

for (const button of document.querySelectorAll("table.board thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), first = button.dataset.first;
    const second = first === "ascending" ? "descending" : "ascending";
    sortBy(head.closest("table"), head.cellIndex, head.getAttribute("aria-sort") === first ? second : first);
  });
}

function filterRows() {
  const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const again = find("only-again")?.checked, free = find("only-free")?.checked, rows = rowsOf();
  for (const row of rows) {
    const { search, again: wasAgain, free: isFree } = row.dataset;
    row.hidden = !words.every((word) => search.includes(word)) || (again && wasAgain === undefined) || (free && isFree === undefined);
  }
  const count = rows.filter((row) => !row.hidden).length;
  find("shown").textContent = words.length || again || free ? `${count} of ${rows.length} rows` : "";
  find("nothing").hidden = count > 0;
  onShown.forEach((action) => action());
}
for (const id of ["filter", "only-again", "only-free"]) find(id)?.addEventListener("input", filterRows);

let pageWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === pageWidth) return; // a phone's bars change the height alone
  pageWidth = innerWidth;
  requestAnimationFrame(() => onShown.forEach((action) => action()));
});
