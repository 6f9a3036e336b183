// Text of the dashboard's charts in the theme's colour: the library's own grey can not be read on dark ground.
const INK = { light: "#475569", dark: "#cbd5e1" };

function paint() {
  if (typeof Chart === "undefined") return;
  Chart.defaults.color = document.documentElement.classList.contains("dark") ? INK.dark : INK.light;
  for (const chart of Object.values(Chart.instances)) chart.update();
}

window.addEventListener("load", paint);
new MutationObserver(paint).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
