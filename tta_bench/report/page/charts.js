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

const AXES = {
  "× Source": (costs) => costs["× Source"],
  "ms/image": (costs) => costs["ms/image"],
  "passes/image": (costs) => costs["forwards/image"] + costs["backwards/image"],
  "peak MiB": (costs) => costs["peak MiB"],
};
const axes = Object.keys(AXES).filter((name) => METHODS.some(({ costs }) => AXES[name](costs) > 0));
fill(find("cost-axis"), axes);

function drawCost() {
  const host = find("cost"), name = axes[find("cost-axis").value];
  const points = visible().map((method) => ({ label: method.label, x: name && AXES[name](method.costs), y: method.scores[AVERAGE],
    text: method.texts[AVERAGE] }))
    .filter(({ x, y }) => x > 0 && y !== null);
  if (!points.length) return host.replaceChildren();
  for (const one of points) {
    one.front = !points.some((two) => two.x <= one.x && two.y >= one.y && (two.x < one.x || two.y > one.y));
  }
  const xs = points.map(({ x }) => x), ys = points.map(({ y }) => y);
  const log = Math.max(...xs) / Math.min(...xs) > 12;
  const pad = Math.max((Math.max(...ys) - Math.min(...ys)) * 0.12, 0.5);
  const x = log ? logAxis(xs) : { low: 0, high: Math.max(...xs) * 1.12 };
  const y = { low: Math.max(0, Math.min(...ys) - pad), high: Math.min(100, Math.max(...ys) + pad) };
  const { root, area, across, up } = chart(host, {
    about: `Average accuracy against cost in ${name}`,
    summary: points.map((one) => `${one.label} ${one.text} % at ${short(+one.x.toFixed(2))} ${name}`).join("; "),
    height: 376,
    margin: { left: 44, right: 12, top: 26, bottom: 42 },
    x: { ...x, ticks: x.ticks || ticks(x.low, x.high, 5), name: log ? `${name} (log)` : name },
    y: { ...y, ticks: ticks(y.low, y.high, 5), name: "accuracy (%)" },
  });
  const front = points.filter((one) => one.front).sort((a, b) => a.x - b.x);
  root.append(mark("path", { class: "front-line", d: front.map((one, i) =>
    (i ? `H${across(one.x)}V${up(one.y)}` : `M${across(one.x)} ${up(one.y)}`)).join("") }));
  for (const one of points) {
    root.append(mark("circle", { class: one.front ? "dot front" : "dot", cx: across(one.x), cy: up(one.y), r: 5 },
      mark("title", {}, `${one.label}: ${one.text} % at ${one.x.toFixed(2)} ${name}`)));
  }
  label(root, area, points.map((one) => ({ text: clip(one.label, 18), x: across(one.x), y: up(one.y), front: one.front })));
}

function logAxis(xs) {
  const low = Math.min(...xs) / 1.3, high = Math.max(...xs) * 1.6;
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    all.push(...[1, 2, 5].map((factor) => factor * 10 ** power));
  }
  return { low, high, log: true, ticks: all.filter((value) => value >= low && value <= high) };
}

// Puts each name beside its point, on the first of some places that is free; one that has none stays a hover text.
function label(root, area, points) {
  const taken = points.map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 }));
  const free = (box) => box.left >= area.left && box.right <= area.right + 10 && box.top >= area.top - 8 && box.bottom <= area.bottom
    && !taken.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top);
  for (const { text, x, y } of [...points].sort((a, b) => b.front - a.front)) {
    const width = text.length * 6.6;
    const places = [-5, 6, -16, 16, -28].flatMap((top) => [[x + 9, top], [x - 9 - width, top], [x - width / 2, top]]);
    const boxes = places.map(([left, top]) => ({ left, right: left + width, top: y + top, bottom: y + top + 12 }));
    const box = boxes.find(free);
    if (!box) continue;
    taken.push(box);
    root.append(mark("text", { class: "name beside", x: box.left, y: box.bottom - 2 }, text));
  }
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
