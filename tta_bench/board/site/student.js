// Student's t and the binomial sign test; the counterpart of tta_bench/measure/student.py.
const NORMAL_975 = 1.959963984540054;

// The logarithm of the gamma function: Stirling's series, which is exact to double precision from 12 on.
function logGamma(x) {
  let below = 1;
  for (; x < 12; x++) below *= x;
  const y = 1 / (x * x);
  const series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y * (1 / 1188 - (y * 691) / 360360))))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - Math.log(below);
}

// The regularised incomplete beta function, by its continued fraction (Lentz's method).
function incompleteBeta(a, b, x) {
  if (x <= 0 || x >= 1) return x >= 1 ? 1 : 0;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(b, a, 1 - x);
  const away = (value) => (Math.abs(value) > 1e-300 ? value : 1e-300);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  let c = 1, d = 1 / away(1 - ((a + b) * x) / (a + 1)), fraction = d;
  for (let m = 1; m < 100000; m++) {
    const before = fraction;
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const term of [even, odd]) {
      d = 1 / away(1 + term * d);
      c = away(1 + term / c);
      fraction *= c * d;
    }
    if (Math.abs(fraction - before) <= 1e-16 * Math.abs(fraction)) break;
  }
  return (front * fraction) / a;
}

// The probability that Student's t is at most `t`.
function tBelow(freedom, t) {
  const tail = 0.5 * incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t));
  return t < 0 ? tail : 1 - tail;
}

// Half of a 95 % interval in standard errors: the value that t exceeds with probability 0.025.
const reaches = new Map();
function tReach(freedom) {
  if (reaches.has(freedom)) return reaches.get(freedom);
  let low = 1, high = 2;
  while (tBelow(freedom, -high) > 0.025) [low, high] = [high, 2 * high];
  for (let i = 0; i < 100 && high - low > 1e-14 * high; i++) {
    const middle = (low + high) / 2;
    if (tBelow(freedom, -middle) > 0.025) low = middle; else high = middle;
  }
  reaches.set(freedom, (low + high) / 2);
  return reaches.get(freedom);
}

// The exact two-sided probability that a fair coin splits as unevenly as this.
function signTest(wins, losses) {
  if (wins === losses) return 1;
  const fewer = Math.min(wins, losses), trials = wins + losses;
  if (trials <= 50) { // counted without rounding
    let ways = 1, total = 1;
    for (let k = 0; k < fewer; k++) total += ways = (ways * (trials - k)) / (k + 1);
    return total / 2 ** (trials - 1);
  }
  return Math.min(1, 2 * incompleteBeta(wins + losses - fewer, fewer + 1, 0.5));
}
