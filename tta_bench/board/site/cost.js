// Accuracy against cost, from the numbers of the tables: columns 2 to 5 are average, × Source, forwards and backwards.
const COST_AXES = {
  "× Source": (cells) => cells[1],
  "passes/image": (cells) => cells[2] + cells[3],
};

function drawCost() {
  const name = Object.keys(COST_AXES)[find("cost-axis").value];
  const shown = rowsOf().filter((row) => !row.hidden && !row.classList.contains("retracted"));
  const points = shown.map((row) => {
    const text = textOf(row.cells[2]);
    const x = COST_AXES[name]([2, 3, 4, 5].map((i) => Number(textOf(row.cells[i]))));
    return { label: row.dataset.name, x, y: Number(text), text };
  });
  scatter(find("cost"), points.filter(({ x, y }) => x > 0 && !isNaN(y)), name);
}

if (find("cost")) {
  fill(find("cost-axis"), Object.keys(COST_AXES));
  find("cost-axis").addEventListener("change", drawCost);
  onShown.push(drawCost);
  requestAnimationFrame(() => setTimeout(drawCost)); // after the table is painted
}
