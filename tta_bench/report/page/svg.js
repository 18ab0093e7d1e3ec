"use strict";
// Charts as SVG, for the report's page and for the board's site. Strings become text, never markup.
const find = (id) => document.getElementById(id);

function mark(name, attributes, ...content) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...content.filter((part) => part !== null));
  return node;
}

function fill(select, names) {
  names.forEach((name, i) => select.append(new Option(name, i)));
}

const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

// Round steps that cut a range into about `count` parts.
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) || 10);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

const short = (value) => String(+value.toPrecision(6));

// An empty chart as wide as its place: axes, grid, and functions from values to positions.
function chart(host, { about, summary, height, margin, x, y }) {
  const width = Math.max(host.clientWidth, 240);
  const area = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const id = `${host.id}-text`;
  const root = mark("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-desc` },
    mark("title", { id: `${id}-title` }, about), mark("desc", { id: `${id}-desc` }, summary));
  const across = scale(x, area.left, area.right);
  const up = scale(y, area.bottom, area.top);
  for (const value of x.ticks) {
    root.append(mark("line", { class: "grid", x1: across(value), x2: across(value), y1: area.top, y2: area.bottom }),
      mark("text", { x: across(value), y: area.bottom + 17, "text-anchor": "middle" }, short(value)));
  }
  for (const value of y.ticks || []) {
    root.append(mark("line", { class: "grid", x1: area.left, x2: area.right, y1: up(value), y2: up(value) }),
      mark("text", { x: area.left - 7, y: up(value) + 4, "text-anchor": "end" }, short(value)));
  }
  if (x.name) root.append(mark("text", { x: area.right, y: area.bottom + 35, "text-anchor": "end" }, x.name));
  if (y.name) root.append(mark("text", { x: area.left - 7, y: area.top - 10 }, y.name));
  host.replaceChildren(root);
  return { root, area, across, up };
}

function scale({ low, high, log }, from, to) {
  const warp = log ? Math.log : (value) => value;
  return (value) => from + ((warp(value) - warp(low)) / (warp(high) - warp(low) || 1)) * (to - from);
}

// Moves labels apart from top to bottom, so that none covers another.
function apart(labels, gap, bottom) {
  labels.sort((a, b) => a.y - b.y);
  for (let i = 1; i < labels.length; i++) labels[i].y = Math.max(labels[i].y, labels[i - 1].y + gap);
  const over = labels.length ? labels[labels.length - 1].y - bottom : 0;
  if (over > 0) for (let i = labels.length - 1, limit = bottom; i >= 0; i--, limit -= gap) labels[i].y = Math.min(labels[i].y, limit);
  return labels;
}
