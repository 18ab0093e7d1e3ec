// A method's page: running accuracy of each result beside Source, computed when its section comes into view.
const CURVE_POINTS = 100;

function curveOf(bits, seed) {
  const count = Math.min(bits.length, CURVE_POINTS), found = [];
  let right = 0, at = 0;
  for (let point = 1; point <= count; point++) {
    const end = Math.floor((point * bits.length) / count);
    while (at < end) right += bits[at++];
    found.push([end, (100 * right) / end]);
  }
  return { seed, points: found, end: ((100 * right) / bits.length).toFixed(1) };
}

function lineFor(label, kind, row, streams, task) {
  const curves = [...streams.keys()].filter((i) => streams[i].task === task && row.bits[i])
    .map((i) => curveOf(bitsOf(row.bits[i], streams[i].samples), streams[i].seed));
  return curves.length ? [{ label, kind, curves, points: meanOf(curves) }] : [];
}

async function prepareCurves(article) {
  const { suite, row, name, source } = article.dataset;
  const select = article.querySelector(".curve-task"), host = article.querySelector(".curve");
  const [streams, own, reference] = await Promise.all([streamsOf(suite), rowOf(suite, row), source ? rowOf(suite, source) : null]);
  const tasks = [...new Set([...streams.keys()].filter((i) => own.bits[i]).map((i) => streams[i].task))];
  fill(select, tasks);
  const draw = () => {
    const task = tasks[select.value];
    const lines = lineFor(name, "chosen", own, streams, task);
    if (reference) lines.push(...lineFor("source", "reference", reference, streams, task));
    drawCurves(host, lines, task);
  };
  select.addEventListener("change", draw);
  onShown.push(draw);
  draw();
}

const watcher = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    prepareCurves(target).catch((error) => { target.querySelector(".curve").textContent = `${error.message}.`; });
  }
}, { rootMargin: "200px" });
for (const article of document.querySelectorAll("article.result")) watcher.observe(article);
