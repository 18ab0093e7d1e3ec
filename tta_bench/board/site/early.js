// Before anything is painted: the colours that the reader chose.
try {
  const kept = localStorage.getItem("tta-bench-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch { /* private window */ }
