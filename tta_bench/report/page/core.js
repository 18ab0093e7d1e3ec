const DATA = JSON.parse(find("data").textContent);
const METHODS = DATA.methods;
const AVERAGE = DATA.tasks.length; // scores hold the tasks, then their average
const redraws = []; // charts, drawn again when order, filter or width change
const redraw = () => redraws.forEach((draw) => draw());
const interval = (span) => (span ? `, 95 % ${span}` : "");

for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
