// @ts-check
/** The report of a training: curves over steps, and what the cost model believes. training_charts.py lists the charts. */
import { byId, drawCharts, drawCurves, keepSwatches } from "./charts.js";
import { drawLabels, drawLines, drawReliability } from "./learnt.js";
import { dark, drawn, floats, keepDrawn, plain, theme } from "./curves.js";

/**
 * @typedef {import("./charts.js").Axes & {across: number[], up: number[], cells: boolean, first?: number, labels: string,
 *   lower: string, upper: string, estimate: string, dots: number[][]}} SlicePanel
 * @typedef {{agents: Look[], charts: import("./charts.js").Axes[]}} TrainingContent
 */

/** @type {TrainingContent} */
const shown = JSON.parse(byId("content").textContent ?? "");

const WORDS = ["unsafe", "unknown", "safe"]; // by label, from -1

/** The colour of a kind of belief in the present colour scheme. @param {string} kind */
const colourOf = (kind) => getComputedStyle(document.documentElement).getPropertyValue(`--${kind}`).trim();

/** A number in a few digits. @param {number} value */
const short = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(3))) : "unbounded");

/** What is believed about one action. @param {HTMLElement} element @param {SlicePanel} panel @returns {import("./charts.js").Drawn} */
function drawSlice(element, panel) {
  const { across, up, cells, first = 0 } = panel;
  const [labels, lower, upper, estimate] = [panel.labels, panel.lower, panel.upper, panel.estimate].map((text) => floats(text, "f4"));
  const rows = (/** @type {(at: number) => any} */ of) => up.map((_, i) => across.map((_, j) => of(i * across.length + j)));
  const text = rows((at) => {
    const where = cells ? `state ${first + at}` : [panel.x, panel.y].filter(Boolean).map((name, k) =>
      `${plain(name)}: ${short(k ? up[Math.floor(at / across.length)] : across[at % across.length])}`).join("<br>");
    return `${where}<br>${WORDS[labels[at] + 1]}: estimate ${short(estimate[at])}, ${short(lower[at])} to ${short(upper[at])}`;
  });
  element.setAttribute("role", "figure");
  element.setAttribute("aria-label", `Cost model, ${panel.title}`);
  const draw = () => {
    const [unsafe, unknown, safe] = WORDS.map(colourOf);
    const layout = theme({ x: panel.x, y: panel.y, log: false, height: up.length > 1 ? 300 : 150 });
    /** @type {any[]} */
    const traces = [{
      type: "heatmap", name: panel.title, x: across, y: up, z: rows((at) => labels[at]), text, zmin: -1, zmax: 1,
      colorscale: [[0, unsafe], [1 / 3, unsafe], [1 / 3, unknown], [2 / 3, unknown], [2 / 3, safe], [1, safe]],
      showscale: false, xgap: cells ? 2 : 0, ygap: cells ? 2 : 0, hovertemplate: "%{text}<extra></extra>",
    }];
    if (!cells && up.length > 1) {
      traces.push({
        type: "contour", name: "estimate 0", x: across, y: up, z: rows((at) => estimate[at]), showscale: false, hoverinfo: "skip",
        contours: { start: 0, end: 0, size: 1, coloring: "none" }, line: { color: layout.font.color, width: 1.5, dash: "dash" },
      });
    }
    if (panel.dots.length === 2) {
      traces.push({
        type: "scatter", name: "taken", mode: "markers", x: panel.dots[0], y: panel.dots[1], hoverinfo: "skip",
        marker: { size: 3, color: dark.matches ? "#f4f6f8" : "#1d2227", opacity: 0.45 },
      });
    }
    const bare = { showgrid: false, zeroline: false };
    const ends = (/** @type {number[]} */ points) => {
      const half = points.length > 1 ? (points[1] - points[0]) / 2 : 0.5;
      return [points[0] - half, points[points.length - 1] + half];
    };
    const range = ends(up);
    const yaxis = { ...layout.yaxis, ...bare, range: cells ? range.reverse() : range, ...(up.length > 1 ? {} : { visible: false }) };
    const ticks = cells && across.length <= 16 ? { dtick: 1 } : {};
    drawn(element, traces, {
      ...layout, hovermode: "closest",
      xaxis: { ...layout.xaxis, ...bare, range: ends(across), ...ticks },
      yaxis: { ...yaxis, ...(cells ? { dtick: 1 } : {}) },
    });
  };
  keepDrawn(element, draw);
  return { setLog() {} };
}

keepSwatches();
drawCharts(shown.charts, { curves: (element, panel) => drawCurves(element, panel, shown.agents), slice: drawSlice, lines: drawLines, reliability: drawReliability, labels: drawLabels });
