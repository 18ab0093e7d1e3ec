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

function showCurves() {
  const task = DATA.tasks[chosen.task.value];
  const method = METHODS[chosen.method.value];
  const unfiltered = visible();
  const shown = METHODS.filter((other) => other === method || other.source || unfiltered.includes(other))
    .map((other) => ({ other, curves: curvesOf(other, task) })).filter(({ curves }) => curves.length)
    .map(({ other, curves }) => ({ label: other.label, other, curves, points: meanOf(curves),
      kind: other === method ? "chosen" : other.source ? "reference" : "" }));
  const mine = shown.find(({ other }) => other === method);
  for (const button of body.querySelectorAll("td.score button")) {
    const pressed = button.dataset.task === task && METHODS[button.closest("tr").dataset.row] === method;
    button.setAttribute("aria-pressed", pressed);
  }
  find("curve-caption").textContent = mine ? captionOf(method, task, mine.curves) : `${method.label} has no curve on ${task}.`;
  if (shown.length) drawCurves(find("curve"), shown, task); else find("curve").replaceChildren();
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
