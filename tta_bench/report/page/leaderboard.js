// Sorting, filtering and moving between cells.
const table = find("leaderboard");
const body = table.tBodies[0];
const heads = [...table.tHead.rows[0].cells];

const visible = () => [...body.rows].filter((row) => !row.hidden).map((row) => METHODS[row.dataset.row]);

function sort(column, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  const value = (row) => row.cells[column].dataset.value;
  const numeric = (text) => text !== "" && !isNaN(text);
  const order = (a, b) => {
    const [one, two] = [value(a), value(b)];
    if (one === undefined || two === undefined) return (one === undefined) - (two === undefined); // always last
    return sign * (numeric(one) && numeric(two) ? one - two : one.localeCompare(two, "en", { numeric: true }));
  };
  body.append(...[...body.rows].sort(order));
  heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? direction : "none"));
  redraw();
}

heads.forEach((head, column) => {
  const button = head.querySelector("button");
  button.addEventListener("click", () => {
    const first = button.dataset.first === "asc" ? "ascending" : "descending";
    const second = first === "ascending" ? "descending" : "ascending";
    sort(column, head.getAttribute("aria-sort") === first ? second : first);
  });
});

function filter() {
  const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of body.rows) {
    const text = METHODS[row.dataset.row].label.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  const count = visible().length;
  find("shown").textContent = words.length ? `${count} of ${METHODS.length} methods` : "";
  find("nothing").hidden = count > 0;
  redraw();
}
find("filter").addEventListener("input", filter);

// One cell is in the tab order; arrow keys move it, as in a spreadsheet.
const cells = (row) => [...row.querySelectorAll("td.score button")];
function enter(button) {
  for (const other of body.querySelectorAll('td.score button[tabindex="0"]')) other.tabIndex = -1;
  button.tabIndex = 0;
}
body.addEventListener("focusin", (event) => {
  if (event.target.matches("td.score button")) enter(event.target);
});
body.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step || !event.target.matches("td.score button")) return;
  event.preventDefault();
  const column = event.target.closest("td").cellIndex;
  let target;
  if (step[0]) {
    const rows = [...body.rows].filter((row) => !row.hidden && row.cells[column].querySelector("button"));
    const next = rows[rows.indexOf(event.target.closest("tr")) + step[0]];
    target = next && next.cells[column].querySelector("button");
  } else {
    const row = cells(event.target.closest("tr"));
    target = row[row.indexOf(event.target) + step[1]];
  }
  if (target) target.focus();
});
const firstCell = body.querySelector("td.score button");
if (firstCell) firstCell.tabIndex = 0;

// A method's name leads to its settings: open them.
function unfold() {
  const target = location.hash && find(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}
addEventListener("hashchange", unfold);
body.addEventListener("click", (event) => {
  if (event.target.closest("a")) setTimeout(unfold);
});
