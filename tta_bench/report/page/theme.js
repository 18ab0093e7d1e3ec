// Light and dark: the reader's choice, else the system's.
const theme = find("theme");
const isDark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
function paint() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
}
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("tta-bench-theme", document.documentElement.dataset.theme); } catch { /* private window */ }
  paint();
});
try {
  const kept = localStorage.getItem("tta-bench-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch { /* private window */ }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
theme.hidden = false;
paint();
