// Running accuracy: lines are { label, kind, curves, points }, kind is "chosen", "reference" or "" for the others;
// points are [images seen, percent], curves one { seed, points, end } per seed.
function meanOf(curves) {
  const length = Math.min(...curves.map((curve) => curve.points.length));
  return curves[0].points.slice(0, length).map(([at], i) =>
    [at, curves.reduce((sum, curve) => sum + curve.points[i][1], 0) / curves.length]);
}

function drawCurves(host, shown, task) {
  const images = Math.max(...shown.map(({ points }) => points[points.length - 1][0]));
  // The first points jump from 0 to 100 on few images: they may leave the picture.
  const values = shown.flatMap(({ curves, points }) => [points, ...curves.map((curve) => curve.points)])
    .flatMap((points) => points.slice(Math.floor(points.length / 8)).map(([, value]) => value));
  const pad = Math.max((Math.max(...values) - Math.min(...values)) * 0.08, 0.5);
  const low = Math.max(0, Math.min(...values) - pad), high = Math.min(100, Math.max(...values) + pad);
  const wide = host.clientWidth;
  const { root, area, across, up } = chart(host, {
    about: `Running accuracy on ${task}`,
    summary: shown.map(({ label, curves }) => `${label} ends at ${curves.map(({ end }) => end).join(", ")} %`).join("; "),
    height: wide < 500 ? 280 : 340,
    margin: { left: 44, right: wide < 500 ? 84 : 130, top: 26, bottom: 42 },
    x: { low: 0, high: images, ticks: ticks(0, images, wide < 500 ? 3 : 8), name: "images seen" },
    y: { low, high, ticks: ticks(low, high, 5), name: "accuracy (%)" },
  });
  const place = `${host.id}-area`;
  root.append(mark("clipPath", { id: place }, mark("rect", { x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top })));
  const lines = mark("g", { "clip-path": `url(#${place})` });
  root.append(lines);
  const draw = (points, kind, name) => lines.append(mark("path", {
    class: `curve ${kind}`, d: points.map(([at, value], i) => `${i ? "L" : "M"}${across(at).toFixed(1)} ${up(value).toFixed(1)}`).join(""),
  }, mark("title", {}, name)));
  const rank = ({ kind }) => ["", "reference", "chosen"].indexOf(kind);
  const labels = [];
  for (const line of [...shown].sort((a, b) => rank(a) - rank(b))) {
    if (line.kind === "chosen" && line.curves.length > 1) {
      for (const { seed, points } of line.curves) draw(points, "seed", `${line.label}, seed ${seed}`);
    }
    draw(line.points, line.kind, line.label);
    if (line.kind) labels.push({ y: up(line.points[line.points.length - 1][1]), kind: line.kind === "chosen" ? "strong" : line.kind, text: line.label });
  }
  for (const { y, kind, text } of apart(labels, 15, area.bottom)) {
    root.append(mark("text", { class: kind, x: area.right + 8, y: y + 4 }, clip(text, wide < 500 ? 10 : 16)));
  }
}
