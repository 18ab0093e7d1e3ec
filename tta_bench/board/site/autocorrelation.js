// How much a sum of batches would vary, when neighbouring batches may be alike; tta_bench/report/autocorrelation.py gives the reasons.
const CLEARLY = 1.645, SLOWEST = 0.97, FEWEST = 24, FEWEST_OF_LINE = 12, CAUTION = 1.3, CURVE = 2;

function dot(one, two) {
  let found = 0;
  for (let i = 0; i < one.length; i++) found += one[i] * two[i];
  return found;
}
const squares = (values) => dot(values, values);
const reachOf = ({ variance, freedom }) => Math.sqrt(variance) * tReach(freedom);

// Variance and degrees of freedom of the sum of batches: at least two, with mean 0.
function spreadOfSum(batches) {
  const blocks = fromBlocks(batches), fading = fromFading(batches, blocks.freedom);
  return fading && reachOf(fading) > reachOf(blocks) ? fading : blocks;
}

const blockLength = (batches) => Math.max(1, Math.min(Math.ceil(Math.sqrt(batches)), Math.floor(batches / 6)));

// The sums of all blocks of so many neighbours, wrapping around the end.
function blockSums(batches, length) {
  const sums = new Float64Array(batches.length);
  let sum = 0;
  for (let i = 0; i < length; i++) sum += batches[i % batches.length];
  for (let i = 0; i < batches.length; i++) {
    sums[i] = sum;
    sum += batches[(i + length) % batches.length] - batches[i];
  }
  return sums;
}

function fromBlocks(batches) {
  const n = batches.length, length = blockLength(n);
  const level = levelled(batches), taken = n >= FEWEST_OF_LINE ? 2 : 1;
  const alone = (squares(level) * n) / (n - taken);
  const found = [length, 2 * length].filter((size) => size < Math.max(n / 2, 2) && taken * size < 0.75 * n)
    .map((size) => ((squares(blockSums(level, size)) / size) * n) / (n - taken * size));
  const longest = found[found.length - 1];
  return { variance: Math.max(alone, found[0], 2 * longest - found[0]), freedom: Math.max(1, n / length - 2) };
}

function fromFading(batches, most) {
  const n = batches.length;
  if (n < FEWEST || batches.every((value) => value === 0)) return null;
  const rest = withoutCurve(batches, CURVE);
  const lag = [0, 1, 2, 3].map((k) => {
    let sum = 0;
    for (let i = k; i < n; i++) sum += rest[i] * rest[i - k];
    return sum / n;
  });
  if (lag[0] < 1e-9 * squares(batches) || lag[1] / lag[0] <= CLEARLY / Math.sqrt(n)) return null;
  const paces = [lag[1] / lag[0]];
  if (lag[1] + lag[2] > 0) paces.push((lag[2] + lag[3]) / (lag[1] + lag[2]));
  const corrected = paces.map((share) => share + (CAUTION * (CURVE + 1 + (CURVE + 3) * share)) / n);
  const pace = Math.min(SLOWEST, Math.max(...corrected));
  const worth = (n * (1 - pace)) / (1 + pace);
  const taken = Math.min(0.7, (CURVE + 1) / Math.max(worth, 1));
  const variance = (n * (lag[0] + (2 * lag[1]) / (1 - pace))) / (1 - taken);
  return { variance, freedom: Math.min(most, Math.max(1.5, worth - 1)) };
}

const levelled = (batches) => (batches.length >= FEWEST_OF_LINE ? withoutCurve(batches, 1) : batches);

// Batches less the polynomial of this degree that fits them best.
function withoutCurve(batches, degree) {
  const rest = Float64Array.from(batches);
  for (const one of basis(batches.length, degree)) {
    const share = dot(one, rest);
    for (let i = 0; i < rest.length; i++) rest[i] -= share * one[i];
  }
  return rest;
}

// Orthonormal polynomials up to a degree, at evenly spaced places (Gram and Schmidt, twice for the rounding).
const bases = new Map();
function basis(n, degree) {
  const name = `${n} ${degree}`;
  if (bases.has(name)) return bases.get(name);
  const found = [];
  for (let power = 0; power <= degree; power++) {
    const one = Float64Array.from({ length: n }, (_, i) => (-1 + (2 * i) / (n - 1)) ** power);
    for (const other of [...found, ...found]) {
      const share = dot(other, one);
      for (let i = 0; i < n; i++) one[i] -= share * other[i];
    }
    const size = Math.sqrt(squares(one));
    found.push(one.map((value) => value / size));
  }
  bases.set(name, found);
  return found;
}
