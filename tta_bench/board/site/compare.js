// Two rows of a suite, chosen by ticks, by lists or by the address (#a=…&b=…).
const pickers = { a: find("a"), b: find("b") };

function fillPickers() {
  const rows = rowsOf().map((row) => [row.dataset.name, row.dataset.row]);
  for (const picker of Object.values(pickers)) {
    picker.append(new Option("choose a row", ""), ...rows.map(([name, id]) => new Option(name, id)));
  }
}

function choose(a, b) {
  const known = (id) => [...pickers.a.options].some(({ value }) => value === id);
  pickers.a.value = known(a) ? a : "";
  pickers.b.value = known(b) ? b : "";
  for (const row of rowsOf()) row.querySelector(".pick").checked = row.dataset.row === a || row.dataset.row === b;
  const both = pickers.a.value && pickers.b.value && pickers.a.value !== pickers.b.value;
  if (both) history.replaceState(null, "", `#a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
  find("see").hidden = !both;
  return both ? showDifference(pickers.a.value, pickers.b.value) : showNothing();
}

function showNothing() {
  find("difference").hidden = true;
  find("sentence").textContent = pickers.a.value && pickers.a.value === pickers.b.value ? "Choose two different rows."
    : "Choose two rows: their difference on the same images is computed here, from predictions.";
}

async function showDifference(a, b) {
  const sentence = find("sentence"), isCurrent = () => pickers.a.value === a && pickers.b.value === b;
  sentence.textContent = "Computing…";
  try {
    const streams = await pairOf(find("main").dataset.suite, a, b);
    await new Promise((resolve) => setTimeout(resolve)); // paints the line above first
    if (!isCurrent()) return;
    if (!streams.length) throw new Error("These rows have no stream in common");
    const found = differences(streams);
    const scores = (task, side) => mean(streams.filter((stream) => stream.task === task).map((stream) => stream[side]));
    const names = { a: pickers.a.selectedOptions[0].text, b: pickers.b.selectedOptions[0].text };
    sentence.textContent = summaryOf(found, names);
    find("name-a").textContent = names.a;
    find("name-b").textContent = names.b;
    const tasks = found.tasks.map((task) => ({ ...task, a: scores(task.task, "a"), b: scores(task.task, "b") }));
    const average = { ...found.overall, task: "Average", a: mean(tasks.map((task) => task.a)), b: mean(tasks.map((task) => task.b)) };
    const reach = Math.max(...[...tasks, average].flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]));
    find("difference-rows").replaceChildren(...[average, ...tasks].map((task) => lineOf(task, reach)));
    find("difference").hidden = false;
  } catch (error) {
    showNothing();
    sentence.textContent = `${error.message}.`;
  }
}

function lineOf(task, reach) {
  const line = document.createElement("tr"), name = document.createElement("th");
  name.scope = "row";
  name.textContent = task.task;
  Object.assign(line.dataset, { low: task.low, high: task.high, difference: task.difference, holm: task.holm ?? "" });
  const cells = [fixed(100 * task.a, 1), fixed(100 * task.b, 1), points(task.difference),
    `${points(task.low)} to ${points(task.high)}`, drawnInterval(task, reach), probability(task.holm), task.verdict || ""];
  line.append(name, ...cells.map((content) => {
    const cell = document.createElement("td");
    cell.append(content);
    return cell;
  }));
  if (task.verdict) line.lastChild.className = `verdict ${task.verdict}`; else line.className = "average-line";
  return line;
}

function drawnInterval({ low, high, difference }, reach) {
  const x = (value) => 90 + (86 * value) / (reach || 1);
  return mark("svg", { viewBox: "0 0 180 16", width: 180, height: 16, "aria-hidden": "true" },
    mark("line", { class: "grid", x1: 90, x2: 90, y1: 0, y2: 16 }),
    mark("line", { class: "whisker", x1: x(low), x2: x(high), y1: 8, y2: 8 }),
    mark("circle", { class: "dot front", cx: x(difference), cy: 8, r: 3.5 }));
}

function summaryOf({ overall, tasks }, names) {
  const { difference, low, high } = overall;
  const where = tasks.length > 1 ? `on average over ${tasks.length} tasks` : `on ${tasks[0].task}`;
  const span = `95 % interval ${points(low)} to ${points(high)} points`;
  const says = low <= 0 && high >= 0
    ? `No clear difference between ${names.b} and ${names.a} ${where}: ${points(difference)} points (${span})`
    : `${names.b} is ${fixed(Math.abs(100 * difference), 2)} points ${difference > 0 ? "more" : "less"} accurate than ${names.a} ${where} (${span})`;
  const count = (word) => tasks.filter(({ verdict }) => verdict === word).length;
  return tasks.length === 1 ? `${says}.` : `${says}; after Holm's correction it is better on ${count("better")}, worse on ${count("worse")}, no clear difference on ${count("even")}.`;
}

function pick(event) {
  const box = event.target;
  if (!box.matches(".pick")) return;
  const id = box.closest("tr").dataset.row, { a, b } = pickers;
  if (!box.checked) choose(a.value === id ? "" : a.value, b.value === id ? "" : b.value);
  else if (!a.value) choose(id, b.value);
  else choose(b.value && b.value !== id ? b.value : a.value, id); // the older of two ticks goes
}

function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.get("a") && asked.get("b")) {
    choose(asked.get("a"), asked.get("b"));
    find("compare").scrollIntoView();
  }
}

if (pickers.a) {
  fillPickers();
  for (const picker of Object.values(pickers)) picker.addEventListener("change", () => choose(pickers.a.value, pickers.b.value));
  find("main").addEventListener("change", pick);
  find("see").addEventListener("click", () => { find("compare").scrollIntoView(); pickers.b.focus(); });
  new IntersectionObserver(([seen]) => find("see").classList.toggle("away", seen.isIntersecting)).observe(find("compare"));
  addEventListener("hashchange", fromAddress);
  fromAddress();
}
