// Paired differences between two rows with 95 % intervals: `tta-bench compare` in the browser (tta_bench/report/stats.py).
// A stream here is { task, images, seed, random, difference, index, batch }; difference is 1 where only b is right.
const REPLICATES = 2000, ALPHA = 0.05;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => sum(values) / values.length;

// A stream cut into batches, and what blocks of neighbouring batches add to its mean difference.
function cut(stream) {
  const { difference, batch } = stream, samples = difference.length;
  const average = sum(difference) / samples;
  const batches = new Float64Array(Math.ceil(samples / batch));
  difference.forEach((value, i) => { batches[Math.floor(i / batch)] += value - average; });
  const found = batches.length > 1 ? spreadOfSum(batches)
    : { variance: sum(difference.map((value) => value * value)) - samples * average ** 2, freedom: 1 };
  return { stream, samples, batches, mean: average, freedom: found.freedom, variance: Math.max(1, found.variance) / samples ** 2 };
}

// Which blocks are drawn again: the same for every pair of rows, so each stream's numbers are drawn once.
const drawn = new Map();
function once(name, draw) {
  if (!drawn.has(name)) drawn.set(name, draw());
  return drawn.get(name);
}

// How much the mean difference moves when blocks are drawn again.
function redraw({ stream, batches, variance }) {
  const length = blockLength(batches.length), sums = blockSums(levelled(batches), length);
  const blocks = Math.max(1, roundHalfEven(batches.length / length));
  const centre = mean(sums);
  const spread = Math.sqrt(mean(sums.map((value) => (value - centre) ** 2))) * Math.sqrt(blocks);
  const name = `${stream.random.state} ${stream.random.inc}`;
  const random = () => new Generator(stream.random);
  if (spread === 0) return once(`${name} normal`, () => random().normals(REPLICATES)).map((value) => value * Math.sqrt(variance));
  const places = once(`${name} ${sums.length} ${blocks}`, () => random().integers(sums.length, REPLICATES * blocks));
  const moved = new Float64Array(REPLICATES), scale = Math.sqrt(variance) / spread;
  for (let i = 0; i < REPLICATES; i++) {
    for (let k = 0; k < blocks; k++) moved[i] += sums[places[i * blocks + k]];
    moved[i] *= scale;
  }
  return moved;
}

const roundHalfEven = (value) => (value % 1 === 0.5 && Math.floor(value) % 2 === 0 ? Math.floor(value) : Math.round(value));

// The mean difference over tasks, each the mean over its seeds, with its 95 % interval.
function estimate(parts) {
  const counts = new Map();
  for (const { stream } of parts) counts.set(stream.task, (counts.get(stream.task) || 0) + 1);
  const weights = parts.map(({ stream }) => 1 / (counts.get(stream.task) * counts.size));
  const difference = sum(parts.map((part, i) => weights[i] * part.mean));
  const shares = parts.map((part, i) => weights[i] ** 2 * part.variance);
  const apart = sum(shares), variance = apart + Math.max(0, shared(parts, weights));
  const freedom = apart ** 2 / sum(shares.map((share, i) => share ** 2 / parts[i].freedom));
  const error = Math.sqrt(variance), reach = tReach(freedom) * error;
  const moved = new Float64Array(REPLICATES);
  parts.forEach((part, k) => redraw(part).forEach((value, i) => { moved[i] += weights[k] * value; }));
  moved.sort();
  const wider = Math.sqrt(variance / apart) * (tReach(freedom) / NORMAL_975);
  const low = difference + Math.min(-reach, quantile(moved, 0.025) * wider);
  const high = difference + Math.max(reach, quantile(moved, 0.975) * wider);
  return { difference, low, high, p: 2 * tBelow(freedom, -Math.abs(difference) / error) };
}

function quantile(sorted, share) {
  const place = share * (sorted.length - 1), before = Math.floor(place);
  return sorted[before] + (place - before) * (sorted[Math.min(before + 1, sorted.length - 1)] - sorted[before]);
}

// The variance that streams have in common because they show the same images.
function shared(parts, weights) {
  const together = new Map(), size = imagesOf(parts.map(({ stream }) => stream));
  let apart = 0;
  parts.forEach(({ stream, samples, mean: average }, k) => {
    if (!together.has(stream.images)) together.set(stream.images, new Float64Array(size));
    const all = together.get(stream.images), own = new Float64Array(size), { index, difference } = stream;
    for (let i = 0; i < samples; i++) own[index[i]] += difference[i] - average;
    for (let image = 0; image < size; image++) {
      const deviation = (own[image] * weights[k]) / samples;
      apart += deviation * deviation;
      all[image] += deviation;
    }
  });
  return sum([...together.values()].map(squares)) - apart;
}

// How many places an array with one for each image needs; the site's data numbers images without gaps.
const imagesOf = (streams) => 1 + streams.reduce((most, { index }) => index.reduce((a, b) => (a > b ? a : b), most), -1);

// Holm's adjusted p values: below 0.05 holds for all of them together.
function holm(p) {
  const adjusted = new Array(p.length);
  let running = 0;
  [...p.keys()].sort((a, b) => p[a] - p[b]).forEach((i, rank) => {
    running = Math.max(running, Math.min(1, (p.length - rank) * p[i]));
    adjusted[i] = running;
  });
  return adjusted;
}

// Images that b gets right more often than a over the seeds of one task, and the other way round.
function imagesWon(streams) {
  const total = new Int32Array(imagesOf(streams));
  for (const { index, difference } of streams) difference.forEach((value, i) => { total[index[i]] += value; });
  return [total.filter((value) => value > 0).length, total.filter((value) => value < 0).length];
}

// b against a: each task, in the order of the streams, and the mean over tasks. All are fractions.
function differences(streams) {
  const parts = streams.map(cut);
  const tasks = [...new Set(streams.map(({ task }) => task))].map((task) => {
    const own = parts.filter(({ stream }) => stream.task === task);
    const [onlyB, onlyA] = imagesWon(own.map(({ stream }) => stream));
    return { task, ...estimate(own), onlyA, onlyB, mcnemar: signTest(onlyB, onlyA) };
  });
  holm(tasks.map(({ mcnemar }) => mcnemar)).forEach((p, i) => {
    const { low, high, difference } = tasks[i];
    const even = p >= ALPHA || (low <= 0 && high >= 0);
    Object.assign(tasks[i], { holm: p, verdict: even ? "even" : difference > 0 ? "better" : "worse" });
  });
  return { tasks, overall: estimate(parts) };
}

// A number as Python prints it: toFixed rounds an exact half up, Python to the even digit.
function fixed(value, digits) {
  const scaled = Math.abs(value) * 10 ** digits;
  const isHalf = scaled % 1 === 0.5 && Number.isInteger(value * 2 ** (digits + 1));
  return (isHalf ? (Math.sign(value) * roundHalfEven(scaled)) / 10 ** digits : value).toFixed(digits);
}
const points = (share) => `${share < 0 ? "−" : "+"}${fixed(Math.abs(100 * share), 2)}`;
const probability = (p) => (p === undefined ? "" : p < 0.0001 ? "<0.0001" : fixed(p, 4));
