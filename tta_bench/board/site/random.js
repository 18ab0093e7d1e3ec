// The draws of numpy's PCG64 generator, bit for bit: the intervals are those of `tta-bench compare`, not others like them.
const WORD = (1n << 64n) - 1n, DOUBLE_WORD = (1n << 128n) - 1n;
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n;

class Generator {
  constructor({ state, inc }) { // hexadecimal, as the site's data has them
    this.state = BigInt(`0x${state}`);
    this.inc = BigInt(`0x${inc}`);
    this.kept = null; // the upper half of the last word, which the next 32-bit draw takes
  }

  word() {
    this.state = (this.state * MULTIPLIER + this.inc) & DOUBLE_WORD;
    const mixed = (this.state >> 64n) ^ (this.state & WORD), turn = this.state >> 122n;
    return ((mixed >> turn) | (mixed << (64n - turn))) & WORD;
  }

  half() {
    if (this.kept !== null) {
      const kept = this.kept;
      this.kept = null;
      return kept;
    }
    const word = this.word();
    this.kept = Number(word >> 32n);
    return Number(word & 0xffffffffn);
  }

  // Whole numbers below `size`, without bias (Lemire, 2019). Numpy draws nothing where there is only one.
  integers(size, count) {
    const found = new Uint32Array(count);
    if (size === 1) return found;
    const threshold = 2 ** 32 % size;
    for (let i = 0; i < count; i++) {
      let product;
      do product = this.half() * size; while (product % 2 ** 32 < threshold); // below 2^53: exact
      found[i] = Math.floor(product / 2 ** 32);
    }
    return found;
  }

  uniform() {
    return Number(this.word() >> 11n) / 2 ** 53;
  }

  // Standard normals by the ziggurat of 256 layers.
  normals(count) {
    return Float64Array.from({ length: count }, () => this.normal());
  }

  normal() {
    const { edge, inner, height, last } = ziggurat();
    for (;;) {
      const word = this.word();
      const layer = Number(word & 255n), sign = (word >> 8n) & 1n ? -1 : 1;
      const share = Number((word >> 9n) & ((1n << 52n) - 1n)) / 2 ** 52;
      const x = share * edge[layer];
      if (x < inner[layer]) return sign * x;
      if (layer === 0) return (word >> 17n) & 1n ? -this.tail(last) : this.tail(last);
      const below = (height[layer - 1] - height[layer]) * this.uniform() + height[layer];
      if (below < Math.exp(-0.5 * x * x)) return sign * x;
    }
  }

  tail(last) {
    for (;;) {
      const x = -Math.log1p(-this.uniform()) / last, y = -Math.log1p(-this.uniform());
      if (y + y > x * x) return last + x;
    }
  }
}

// Layers of equal area under exp(-x²/2): their right edges and heights. Layer 0 is the base and the tail, drawn as a
// rectangle of the same area; the others rise from layer 255, which ends where the tail begins, to the narrow layer 1.
let layers = null;
function ziggurat() {
  if (layers) return layers;
  const last = 3.6541528853610088; // for 256 layers (Marsaglia and Tsang, 2000)
  const edge = new Float64Array(256), height = new Float64Array(256);
  height[255] = Math.exp(-0.5 * last * last);
  let fraction = last; // of the area of the tail, a continued fraction
  for (let term = 200; term > 0; term--) fraction = last + term / fraction;
  const area = height[255] * (last + 1 / fraction);
  edge[255] = last;
  for (let i = 254; i > 0; i--) {
    height[i] = height[i + 1] + area / edge[i + 1];
    edge[i] = Math.sqrt(-2 * Math.log(height[i]));
  }
  height[0] = 1;
  const inner = [last, 0, ...edge.slice(1, 255)]; // where a layer lies wholly below the curve
  edge[0] = area / height[255];
  layers = { edge, inner, height, last };
  return layers;
}
