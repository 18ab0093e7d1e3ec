// Data files are scripts that call boardData(name, content): a page from disk may load scripts, but fetch nothing.
const ROOT = document.documentElement.dataset.root;
const waiting = new Map(), loaded = new Map();
window.boardData = (name, content) => waiting.get(name)?.resolve(content);

function load(name) {
  if (!loaded.has(name)) {
    loaded.set(name, new Promise((resolve, reject) => {
      waiting.set(name, { resolve });
      const script = document.createElement("script");
      script.src = ROOT + name;
      script.addEventListener("error", () => reject(new Error(`${name} cannot be read`)));
      document.head.append(script);
    }));
  }
  return loaded.get(name);
}

const bytesOf = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

// Whether each prediction was right: a bit for each image, the first is the highest.
function bitsOf(text, count) {
  const bytes = bytesOf(text), bits = new Uint8Array(count);
  for (let i = 0; i < count; i++) bits[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return bits;
}

function orderOf(text, count) {
  const { buffer } = bytesOf(text);
  return buffer.byteLength === 2 * count ? new Uint16Array(buffer) : new Uint32Array(buffer);
}

const streamsOf = (suite) => load(`data/${suite}/streams.js`);
const rowOf = (suite, row) => load(`data/${suite}/row-${row}.js`);

// The streams that two rows share, as stats.js takes them: b against a.
async function pairOf(suite, a, b) {
  const [streams, one, other] = await Promise.all([streamsOf(suite), rowOf(suite, a), rowOf(suite, b)]);
  const shared = [...streams.keys()].filter((i) => one.bits[i] && other.bits[i]);
  return Promise.all(shared.map(async (i) => {
    const stream = streams[i], orders = await load(`data/${suite}/${stream.order}.js`);
    const [first, second] = [one, other].map(({ bits }) => bitsOf(bits[i], stream.samples));
    const difference = Int8Array.from(second, (right, k) => right - first[k]);
    return { ...stream, batch: one.batch, difference, index: orderOf(orders[i], stream.samples), a: mean(first), b: mean(second) };
  }));
}
