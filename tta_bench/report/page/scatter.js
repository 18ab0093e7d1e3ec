// Accuracy against cost: points are { label, x, y, text }, and those that nothing beats on both are filled.
const MOST_NAMES = 40; // beyond that only the front is named; all names show on hover
function scatter(host, points, name) {
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
  const named = points.filter((one) => one.front || points.length <= MOST_NAMES);
  label(root, area, named.map((one) => ({ text: clip(one.label, 18), x: across(one.x), y: up(one.y), front: one.front })));
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
