// @ts-check
/** Charts of how well networks predict: named lines, the reliability of imagined violations, and what labels were worth. */
import { drawn, keepDrawn, onPage, plain, theme } from "./curves.js";

/**
 * @typedef {import("./charts.js").Axes & {steps: number[], lines: {name: string, colour: string, dash: string,
 *   values: (number | null)[]}[]}} LinesPanel
 * @typedef {import("./charts.js").Axes & {points: {imagined: number, came: number, count: number}[], colour: string,
 *   tolerance: number}} ReliabilityPanel
 * @typedef {import("./charts.js").Axes & {bars: {name: string, held: number, count: number, kind: string}[]}} LabelsPanel
 */

/** A line above the drawing, which has room for names. */
const LEGEND = { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom" };

/** Draw by a function of the scale, and again whenever it, the width or the colours change.
 * @param {HTMLElement} element @param {{title: string}} panel @param {(log: boolean) => void} draw
 * @returns {import("./charts.js").Drawn} */
function scaled(element, panel, draw) {
  let log = false;
  element.setAttribute("role", "figure");
  element.setAttribute("aria-label", panel.title);
  keepDrawn(element, () => draw(log));
  return {
    setLog(/** @type {boolean} */ chosen) {
      log = chosen;
      draw(log);
    },
  };
}

/** Some named lines over steps. @param {HTMLElement} element @param {LinesPanel} panel */
export function drawLines(element, panel) {
  return scaled(element, panel, (log) => {
    const layout = theme({ x: panel.x, y: panel.y, log, height: 300, fromZero: panel.fromZero });
    const traces = panel.lines.map(({ name, colour, dash, values }) => ({
      x: panel.steps, y: values, name: plain(name), mode: "lines", connectgaps: true,
      line: { color: onPage(colour), width: 2, dash }, hovertemplate: `${plain(name)}: %{y:.3~g}<extra></extra>`,
    }));
    drawn(element, traces, { ...layout, margin: { ...layout.margin, t: 30 }, showlegend: true, legend: LEGEND });
  });
}

/** Imagined violations against those that came, on logarithmic axes. @param {HTMLElement} element @param {ReliabilityPanel} panel */
export function drawReliability(element, panel) {
  const most = Math.max(...panel.points.map(({ count }) => count));
  const least = panel.tolerance / 20; // where smaller numbers are drawn, 0 among them
  const top = Math.max(...panel.points.map(({ imagined, came }) => Math.max(imagined, came)), 10 * panel.tolerance) * 2;
  return scaled(element, panel, () => {
    const layout = theme({ x: panel.x, y: panel.y, log: false, height: 300 });
    const ink = layout.font.color;
    const range = [Math.log10(least) - 0.15, Math.log10(top)];
    const axis = { type: "log", range, dtick: 1, exponentformat: "power" };
    const shown = (/** @type {number} */ value) => Math.max(value, least);
    const traces = [
      { x: [least, top], y: [least, top], mode: "lines", line: { color: ink, width: 1, dash: "dot" }, hoverinfo: "skip" },
      {
        x: panel.points.map(({ imagined }) => shown(imagined)), y: panel.points.map(({ came }) => shown(came)), mode: "markers",
        marker: {
          color: onPage(panel.colour), opacity: 0.8, line: { width: 0 },
          size: panel.points.map(({ count }) => 6 + 20 * Math.sqrt(count / most)),
        },
        text: panel.points.map(({ imagined, came, count }) =>
          `imagined ${imagined.toPrecision(2)}<br>came ${came.toPrecision(2)}<br>${count} steps`),
        hovertemplate: "%{text}<extra></extra>",
      },
    ];
    const at = Math.log10(panel.tolerance);
    drawn(element, traces, {
      ...layout, hovermode: "closest", xaxis: { ...layout.xaxis, ...axis }, yaxis: { ...layout.yaxis, ...axis },
      shapes: ["x", "y"].map((way) => ({
        type: "line", xref: way === "x" ? "x" : "paper", yref: way === "x" ? "paper" : "y", line: { color: ink, width: 1, dash: "dash" },
        ...(way === "x" ? { x0: panel.tolerance, x1: panel.tolerance, y0: 0, y1: 1 } : { x0: 0, x1: 1, y0: panel.tolerance, y1: panel.tolerance }),
      })),
      annotations: [
        { text: "tolerance", x: at, y: 1, xref: "x", yref: "paper", xanchor: "left", yanchor: "top", showarrow: false, font: { size: 11 } },
        { text: "as imagined", x: Math.log10(top) - 0.1, y: Math.log10(top) - 0.1, xref: "x", yref: "y", xanchor: "right", yanchor: "bottom", showarrow: false, font: { size: 11 } },
      ],
    });
  });
}

/** How often what a label says came true. @param {HTMLElement} element @param {LabelsPanel} panel */
export function drawLabels(element, panel) {
  const colourOf = (/** @type {string} */ kind) => getComputedStyle(document.documentElement).getPropertyValue(`--${kind}`).trim();
  return scaled(element, panel, () => {
    const layout = theme({ x: panel.x, y: panel.y, log: false, height: 300 });
    const share = (/** @type {{held: number, count: number}} */ { held, count }) => (count ? held / count : 0);
    const traces = [{
      type: "bar", x: panel.bars.map(({ name }) => plain(name)), y: panel.bars.map(share), width: 0.6,
      marker: { color: panel.bars.map(({ kind }) => colourOf(kind)) }, textposition: "outside", cliponaxis: false,
      text: panel.bars.map((bar) => (bar.count ? `${(100 * share(bar)).toFixed(0)} %<br>${bar.held} of ${bar.count}` : "none")),
      hoverinfo: "skip",
    }];
    drawn(element, traces, {
      ...layout, margin: { ...layout.margin, t: 36 }, yaxis: { ...layout.yaxis, range: [0, 1.02], tickformat: ".0%" },
    });
  });
}
