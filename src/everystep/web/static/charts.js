// @ts-check
/** What every report shares: swatches, curves of agents, and charts with the controls of their sections. */
import { Curves, dark, dress, floats } from "./curves.js";

/**
 * @typedef {{name: string, section: string, title: string, style: string, x: string, y: string, fromZero: boolean}} Axes
 * @typedef {Axes & {references: {value: number, name: string}[], episodes: number[], faint?: number,
 *   bands: Record<string, {mean: string, low?: string, high?: string}>, seedX: number[], seeds: Record<string, string>}} CurvesPanel
 * @typedef {{setLog(log: boolean): void, setShown?(agent: string, shown: boolean): void, setSeedsShown?(shown: boolean): void}} Drawn
 * @typedef {(element: HTMLElement, panel: any) => Drawn} Draw
 */

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** @param {string} key @param {string} value @returns {HTMLElement} */
export function marked(key, value) {
  return /** @type {HTMLElement} */ (document.querySelector(`[data-${key}="${CSS.escape(value)}"]`));
}

/** Show the colours of agents beside their names, now and whenever the colour scheme changes. */
export function keepSwatches() {
  colourSwatches();
  dark.addEventListener("change", colourSwatches);
}

function colourSwatches() {
  for (const swatch of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-colour]"))) {
    dress(swatch, swatch.dataset.colour ?? "", swatch.dataset.dash ?? "");
  }
}

/** Rows of equal length as one line, with NaN between rows. @param {number[]} x @param {Numbers} rows */
function joinedRows(x, rows) {
  const n = x.length;
  const seeds = rows.length / n;
  const across = new Float64Array(seeds * (n + 1)).fill(NaN);
  const up = new Float64Array(seeds * (n + 1)).fill(NaN);
  for (let s = 0; s < seeds; s += 1) {
    for (let i = 0; i < n; i += 1) {
      across[s * (n + 1) + i] = x[i];
      up[s * (n + 1) + i] = rows[s * n + i];
    }
  }
  return { across, up };
}

/** All agents in one chart: means, intervals and single seeds.
 * @param {HTMLElement} element @param {CurvesPanel} panel @param {Look[]} agents @returns {Drawn} */
export function drawCurves(element, panel, agents) {
  const chart = new Curves(element, agents, panel);
  for (const { label } of agents) {
    const { mean, low, high } = panel.bands[label];
    const ends = low && high ? { low: floats(low, "f8"), high: floats(high, "f8") } : {}; // of one seed there are none
    chart.setBand(label, { x: panel.episodes, mean: floats(mean, "f8"), ...ends });
    if (!(label in panel.seeds)) continue;
    const { across, up } = joinedRows(panel.seedX, floats(panel.seeds[label], "f4"));
    chart.setSeeds(label, across, up);
  }
  return chart;
}

/** Draw all charts, by style, and connect the controls of their sections.
 * @param {Axes[]} all @param {Record<string, Draw>} styles */
export function drawCharts(all, styles) {
  const panels = all.filter(({ style }) => style in styles);
  const charts = panels.map((panel) => ({ section: panel.section, chart: styles[panel.style](marked("chart", panel.name), panel) }));
  for (const controls of document.querySelectorAll("[data-controls]")) {
    const own = charts.filter(({ section }) => section === /** @type {HTMLElement} */ (controls).dataset.controls);
    for (const input of controls.querySelectorAll("input")) {
      input.addEventListener("change", () => {
        for (const { chart } of own) {
          if (input.type === "radio") chart.setLog(input.value === "log");
          else if (input.dataset.agent !== undefined) chart.setShown?.(input.dataset.agent, input.checked);
          else chart.setSeedsShown?.(input.checked);
        }
      });
    }
  }
}
