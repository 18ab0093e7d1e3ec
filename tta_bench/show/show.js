"use strict";
// Filters cards by class, moves between them with arrow keys, and enlarges one with Enter or a click.
const find = (id) => document.getElementById(id);
for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
const cards = [...document.querySelectorAll(".cards li")];
const visible = () => cards.filter((card) => !card.hidden);

function filter() {
  const wanted = find("class").value;
  for (const card of cards) card.hidden = wanted !== "" && card.dataset.class !== wanted;
  for (const list of document.querySelectorAll(".cards")) list.nextElementSibling.hidden = [...list.children].some((card) => !card.hidden);
  find("shown").textContent = wanted === "" ? "" : `${visible().length} of ${cards.length} images`;
}

// Cards in a row share their top; up and down keep the column as far as the next row reaches.
function next(card, key) {
  const all = visible(), place = all.indexOf(card);
  if (key === "ArrowRight") return all[place + 1];
  if (key === "ArrowLeft") return all[place - 1];
  const { top, left } = card.getBoundingClientRect();
  const down = key === "ArrowDown";
  const beyond = all.map((other) => ({ other, box: other.getBoundingClientRect() }))
    .filter(({ box }) => (down ? box.top > top : box.top < top));
  if (!beyond.length) return undefined;
  const row = down ? Math.min(...beyond.map(({ box }) => box.top)) : Math.max(...beyond.map(({ box }) => box.top));
  const near = beyond.filter(({ box }) => box.top === row);
  return near.reduce((best, one) => (Math.abs(one.box.left - left) < Math.abs(best.box.left - left) ? one : best)).other;
}

document.addEventListener("keydown", (event) => {
  const card = event.target.closest(".cards li");
  if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") { card.classList.toggle("large"); return; }
  if (!event.key.startsWith("Arrow")) return;
  event.preventDefault();
  next(card, event.key)?.focus();
});
document.addEventListener("click", (event) => event.target.closest(".cards li")?.classList.toggle("large"));
find("class").addEventListener("change", filter);
