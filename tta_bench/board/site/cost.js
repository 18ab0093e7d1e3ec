// Accuracy against cost, from the numbers of the tables: a cost is a column whose head says so; passes are added up.
const PASSES = "passes/image";
const axisOf = ({ dataset: { cost } }) => (cost.endsWith("wards/image") ? PASSES : cost);
const costOf = (row, { cellIndex }) => Number(textOf(row.cells[cellIndex]));
const costHeads = (row) => [...row.closest("table").tHead.rows[0].cells].filter(
  (head) => head.dataset.cost && !isNaN(costOf(row, head)));

function drawCost() {
  const name = find("cost-axis").selectedOptions[0].text;
  const shown = rowsOf().filter((row) => !row.hidden && !row.classList.contains("retracted"));
  const points = shown.map((row) => {
    const text = textOf(row.cells[2]), heads = costHeads(row).filter((head) => axisOf(head) === name);
    const x = heads.reduce((total, head) => total + costOf(row, head), 0);
    return { label: row.dataset.name, x, y: Number(text), text };
  });
  scatter(find("cost"), points.filter(({ x, y }) => x > 0 && !isNaN(y)), name);
}

if (find("cost")) {
  fill(find("cost-axis"), [...new Set(rowsOf().flatMap((row) => costHeads(row).map(axisOf)))]);
  find("cost-axis").addEventListener("change", drawCost);
  onShown.push(drawCost);
  requestAnimationFrame(() => setTimeout(drawCost)); // after the table is painted
}
