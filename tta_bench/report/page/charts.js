// Bars with intervals, accuracy against cost, and the first drawing of everything.
fill(find("bars-task"), [...DATA.tasks, "average over tasks"]);
find("bars-task").value = AVERAGE;

function drawBars() {
  const which = find("bars-task").value;
  const zoom = find("bars-zoom").checked;
  const rows = visible().filter((method) => method.scores[which] !== null)
    .map((method) => ({ label: method.label, value: method.scores[which], text: method.texts[which],
      bounds: method.intervals[which], span: method.spans[which] }));
  const host = find("bars");
  if (!rows.length) return host.replaceChildren();
  const ends = rows.flatMap(({ value, bounds }) => bounds || [value]);
  const pad = Math.max((Math.max(...ends) - Math.min(...ends)) * 0.05, 0.2);
  const low = zoom ? Math.max(0, Math.min(...ends) - pad) : 0;
  const high = zoom ? Math.min(100, Math.max(...ends) + pad) : 100;
  const narrow = host.clientWidth < 500, step = 28;
  const { root, area, across } = chart(host, {
    about: `Accuracy with 95 % intervals: ${DATA.tasks[which] || "average over tasks"}`,
    summary: rows.map(({ label, text, span }) => `${label} ${text} %${interval(span)}`).join("; "),
    height: rows.length * step + 40,
    margin: { left: narrow ? 96 : 150, right: 46, top: 4, bottom: 36 },
    x: { low, high, ticks: ticks(low, high, narrow ? 4 : 6), name: zoom ? "accuracy (%), not from 0" : "accuracy (%)" },
    y: { low: 0, high: 1 },
  });
  rows.forEach(({ label, value, text, bounds, span }, i) => {
    const y = area.top + step * (i + 0.5);
    const group = mark("g", {}, mark("title", {}, `${label}: ${text} %${interval(span)}`),
      mark("text", { class: "name", x: area.left - 10, y: y + 4, "text-anchor": "end" }, clip(label, narrow ? 12 : 19)));
    if (!zoom) group.append(mark("rect", { class: "fill", x: area.left, y: y - 8, width: Math.max(across(value) - area.left, 0), height: 16 }));
    if (bounds) {
      const [from, to] = bounds.map(across);
      group.append(mark("path", { class: "whisker", d: `M${from} ${y - 4}v8M${from} ${y}H${to}M${to} ${y - 4}v8` }));
    }
    if (zoom) group.append(mark("circle", { class: "dot front", cx: across(value), cy: y, r: 4.5 }));
    group.append(mark("text", { class: "name", x: area.right + 42, y: y + 4, "text-anchor": "end" }, text));
    root.append(group);
  });
}

const axes = [...new Set(METHODS.flatMap(({ costs }) => Object.keys(costs).filter((name) => costs[name] > 0)))];
fill(find("cost-axis"), axes);

function drawCost() {
  const host = find("cost"), name = axes[find("cost-axis").value];
  const points = visible().map((method) => ({ label: method.label, x: name && method.costs[name], y: method.scores[AVERAGE],
    text: method.texts[AVERAGE] }))
    .filter(({ x, y }) => x > 0 && y !== null);
  scatter(host, points, name);
}

for (const id of ["bars-task", "bars-zoom"]) find(id).addEventListener("change", drawBars);
find("cost-axis").addEventListener("change", drawCost);
redraws.push(drawBars, drawCost);

sort(1, "descending"); // draws all; the best average first
const best = visible().find((method) => method.scores[AVERAGE] !== null && !method.source);
chosen.method.value = METHODS.indexOf(best || visible()[0]);
showCurves();
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) { width = innerWidth; requestAnimationFrame(redraw); } // a phone's bars change the height alone
});
