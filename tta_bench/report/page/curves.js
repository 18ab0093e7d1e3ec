// Running accuracy over one stream: the chosen method and its seeds, Source, and all others in grey.
const chosen = { task: find("curve-task"), method: find("curve-method") };
fill(chosen.task, DATA.tasks);
fill(chosen.method, METHODS.map((method) => method.label));

// Curves of one method on a task's stream: one per seed, as [images seen, percent] points.
function curvesOf(method, task) {
  return (method.curves[method.streams[task]] || []).map(({ seed, images, resets, running, end }) => ({
    seed, images, resets, end,
    points: running.map((value, i) => [Math.floor(((i + 1) * images) / running.length), value / 100]),
  }));
}

function meanOf(curves) {
  const length = Math.min(...curves.map((curve) => curve.points.length));
  return curves[0].points.slice(0, length).map(([at], i) =>
    [at, curves.reduce((sum, curve) => sum + curve.points[i][1], 0) / curves.length]);
}

function showCurves() {
  const task = DATA.tasks[chosen.task.value];
  const method = METHODS[chosen.method.value];
  const unfiltered = visible();
  const shown = METHODS.filter((other) => other === method || other.source || unfiltered.includes(other))
    .map((other) => ({ other, curves: curvesOf(other, task) })).filter(({ curves }) => curves.length)
    .map(({ other, curves }) => ({ other, curves, points: meanOf(curves) }));
  const mine = shown.find(({ other }) => other === method);
  for (const button of body.querySelectorAll("td.score button")) {
    const pressed = button.dataset.task === task && METHODS[button.closest("tr").dataset.row] === method;
    button.setAttribute("aria-pressed", pressed);
  }
  find("curve-caption").textContent = mine ? captionOf(method, task, mine.curves) : `${method.label} has no curve on ${task}.`;
  if (shown.length) drawCurves(shown, method, task); else find("curve").replaceChildren();
}

function captionOf(method, task, curves) {
  const score = DATA.tasks.indexOf(task);
  const stream = method.streams[task];
  const ends = curves.map(({ seed, end }) => `seed ${seed}: ${end} %`).join(", ");
  const resets = curves.reduce((sum, curve) => sum + curve.resets, 0);
  const value = method.scores[score] === null ? "no score, a seed failed" : `${method.texts[score]} %`;
  return `${method.label} on ${task}: ${value}${interval(method.spans[score])}.`
    + (stream === task ? "" : ` The curve runs over the whole ${stream} stream.`)
    + ` At the end, ${ends}.` + (resets ? ` It fell back to the source weights ${resets} times.` : "")
    + ` The share of right answers among the images seen so far${curves.length > 1 ? "; thick the mean, thin each seed" : ""}.`;
}

function drawCurves(shown, method, task) {
  const images = Math.max(...shown.map(({ points }) => points[points.length - 1][0]));
  // The first points jump from 0 to 100 on few images: they may leave the picture.
  const values = shown.flatMap(({ curves, points }) => [points, ...curves.map((curve) => curve.points)])
    .flatMap((points) => points.slice(Math.floor(points.length / 8)).map(([, value]) => value));
  const pad = Math.max((Math.max(...values) - Math.min(...values)) * 0.08, 0.5);
  const low = Math.max(0, Math.min(...values) - pad), high = Math.min(100, Math.max(...values) + pad);
  const wide = find("curve").clientWidth;
  const { root, area, across, up } = chart(find("curve"), {
    about: `Running accuracy on ${task}`,
    summary: shown.map(({ other, curves }) => `${other.label} ends at ${curves.map(({ end }) => end).join(", ")} %`).join("; "),
    height: wide < 500 ? 280 : 340,
    margin: { left: 44, right: wide < 500 ? 84 : 130, top: 26, bottom: 42 },
    x: { low: 0, high: images, ticks: ticks(0, images, wide < 500 ? 3 : 8), name: "images seen" },
    y: { low, high, ticks: ticks(low, high, 5), name: "accuracy (%)" },
  });
  root.append(mark("clipPath", { id: "curve-area" }, mark("rect", { x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top })));
  const lines = mark("g", { "clip-path": "url(#curve-area)" });
  root.append(lines);
  const draw = (points, kind, name) => lines.append(mark("path", {
    class: `curve ${kind}`, d: points.map(([at, value], i) => `${i ? "L" : "M"}${across(at).toFixed(1)} ${up(value).toFixed(1)}`).join(""),
  }, mark("title", {}, name)));
  const rank = ({ other }) => (other === method ? 2 : other.source ? 1 : 0);
  const labels = [];
  for (const line of [...shown].sort((a, b) => rank(a) - rank(b))) {
    const kind = ["", "reference", "chosen"][rank(line)];
    if (kind === "chosen" && line.curves.length > 1) {
      for (const { seed, points } of line.curves) draw(points, "seed", `${line.other.label}, seed ${seed}`);
    }
    draw(line.points, kind, line.other.label);
    if (kind) labels.push({ y: up(line.points[line.points.length - 1][1]), kind: kind === "chosen" ? "strong" : kind, text: line.other.label });
  }
  for (const { y, kind, text } of apart(labels, 15, area.bottom)) {
    root.append(mark("text", { class: kind, x: area.right + 8, y: y + 4 }, clip(text, wide < 500 ? 10 : 16)));
  }
}

const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

body.addEventListener("click", (event) => {
  const button = event.target.closest("td.score button");
  if (!button) return;
  chosen.task.value = DATA.tasks.indexOf(button.dataset.task);
  chosen.method.value = button.closest("tr").dataset.row;
  showCurves();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  find("curve-section").scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
});
chosen.task.addEventListener("change", showCurves);
chosen.method.addEventListener("change", showCurves);
redraws.push(showCurves);
