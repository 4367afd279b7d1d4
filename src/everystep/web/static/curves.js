// @ts-check
/**
 * Curves of several agents in one chart: a thin layer over Plotly for agents, bands, thin lines of single seeds, linear
 * and logarithmic axes, and the colour scheme. Changes are collected and drawn once per animation frame.
 */

/** Whether the user prefers a dark page. */
export const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** Lighter hues for a dark page; they keep the two blues apart. @type {Record<string, string>} */
const LIGHTER = { "#0072B2": "#4DA8E0", "#D55E00": "#F08A3C", "#009E73": "#2FC79A", "#56B4E9": "#C4E6FB", "#000000": "#F0F2F5" };

/** The colour of an agent in the present colour scheme. @param {string} colour */
export function onPage(colour) {
  return dark.matches ? LIGHTER[colour.toUpperCase()] ?? colour : colour;
}

/** Lengths of Plotly's dashes and gaps, in a swatch. @type {Record<string, string>} */
const DASHES = { dash: "6px,3px", dot: "2px,2px", dashdot: "6px,2px" };

/** Show an agent's colour and dash in the swatch beside its name.
 * @param {HTMLElement} swatch @param {string} colour @param {string} dash */
export function dress(swatch, colour, dash) {
  swatch.style.setProperty("--agent", onPage(colour));
  const [on, off] = (DASHES[dash] ?? dash).split(",").map(parseFloat);
  if (off > 0) {
    swatch.style.setProperty("--on", `${on}px`);
    swatch.style.setProperty("--period", `${on + off}px`);
  }
}

/** @param {string} colour #rrggbb @param {number} alpha */
function transparent(colour, alpha) {
  const channel = (/** @type {number} */ at) => parseInt(colour.slice(at, at + 2), 16);
  return `rgba(${channel(1)},${channel(3)},${channel(5)},${alpha})`;
}

/** Numbers from base64 of little-endian floats. @param {string} text @param {"f8" | "f4"} kind */
export function floats(text, kind) {
  const raw = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  return kind === "f8" ? new Float64Array(raw.buffer) : new Float32Array(raw.buffer);
}

/** Redraw when the width of an element changes. @param {HTMLElement} element @param {() => void} draw */
export function onWidth(element, draw) {
  let width = element.clientWidth;
  const watcher = new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    draw();
  });
  watcher.observe(element);
  return watcher;
}

/**
 * A layout of Plotly in the style of the page.
 * @param {{x: string, y: string, log: boolean, height: number, fromZero?: boolean}} options
 */
export function theme({ x, y, log, height, fromZero = false }) {
  const ink = dark.matches ? "#d7dce2" : "#2b3036";
  const faint = dark.matches ? "#3a424c" : "#e3e5e8";
  const axis = { gridcolor: faint, linecolor: faint, zerolinecolor: faint, automargin: true };
  return {
    height,
    margin: { l: 46, r: 12, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: ink },
    showlegend: false,
    hovermode: "x unified",
    hoverlabel: { bgcolor: dark.matches ? "#1c2128" : "#ffffff", bordercolor: faint, font: { color: ink } },
    dragmode: "zoom",
    uirevision: log ? "log" : "linear",
    xaxis: { ...axis, title: { text: x, standoff: 8 } },
    yaxis: {
      ...axis,
      title: { text: y, standoff: 8 },
      type: log ? "log" : "linear",
      rangemode: fromZero ? "tozero" : "normal",
      ...(log ? { dtick: 1, exponentformat: "power" } : {}),
    },
  };
}

/** Draw now, and again whenever the width of the element or the colour scheme changes. @param {HTMLElement} element @param {() => void} draw */
export function keepDrawn(element, draw) {
  draw();
  onWidth(element, draw);
  dark.addEventListener("change", draw);
}

/** Draw a chart at the present width of its element. @param {HTMLElement} element @param {object[]} traces @param {object} layout */
export function drawn(element, traces, layout) {
  const config = { displaylogo: false, displayModeBar: false, doubleClick: "reset" };
  Plotly.react(element, traces, { ...layout, width: element.clientWidth }, config);
}

export class Curves {
  /**
   * @param {HTMLElement} element where to draw
   * @param {Look[]} agents
   * @param {{title: string, x?: string, y?: string, log?: boolean, fromZero?: boolean, height?: number,
   *   references?: {value: number, name: string}[], faint?: number}} options  faint: the opacity of single seeds
   */
  constructor(element, agents, options) {
    this.element = element;
    this.agents = agents;
    this.options = options;
    this.log = options.log ?? false;
    this.seedsShown = true;
    /** @type {Set<string>} */
    this.hidden = new Set();
    /** @type {Map<string, Band>} */
    this.bands = new Map();
    /** @type {Map<string, {x: Numbers, y: Numbers}>} */
    this.seeds = new Map();
    this.waiting = false;
    element.setAttribute("role", "figure");
    element.setAttribute("aria-label", options.title);
    this.redrawn = () => this.draw();
    dark.addEventListener("change", this.redrawn);
    this.watcher = onWidth(element, this.redrawn);
  }

  /** Remove the chart from the page and stop listening. */
  end() {
    dark.removeEventListener("change", this.redrawn);
    this.watcher.disconnect();
    this.element.remove();
    Plotly.purge(this.element);
  }

  /** Set a mean, with its interval if it has one. @param {string} label @param {Band} band */
  setBand(label, band) {
    this.bands.set(label, band);
    this.draw();
  }

  /** Set all seeds of an agent as one thin line, with NaN between seeds. @param {string} label @param {Numbers} x @param {Numbers} y */
  setSeeds(label, x, y) {
    this.seeds.set(label, { x, y });
    this.draw();
  }

  /** @param {boolean} log */
  setLog(log) {
    this.log = log;
    this.draw();
  }

  /** @param {string} label @param {boolean} shown */
  setShown(label, shown) {
    if (shown) this.hidden.delete(label);
    else this.hidden.add(label);
    this.draw();
  }

  /** @param {boolean} shown */
  setSeedsShown(shown) {
    this.seedsShown = shown;
    this.draw();
  }

  /** Draw at the next animation frame, once for all changes before it. */
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.element.clientWidth > 0) drawn(this.element, this.traces(), this.layout());
    });
  }

  traces() {
    const shown = this.agents.filter(({ label }) => !this.hidden.has(label));
    const seeds = this.seedsShown ? shown.filter(({ label }) => this.seeds.has(label)) : [];
    const thin = seeds.map(({ label, colour }) => ({
      ...this.seeds.get(label),
      name: `${label} seeds`,
      mode: "lines",
      line: { color: transparent(onPage(colour), this.options.faint ?? 0.16), width: 0.8 },
      hoverinfo: "skip",
      connectgaps: false,
    }));
    const bands = shown.flatMap(({ label, colour }) => {
      const band = this.bands.get(label);
      if (!band?.low || !band.high) return [];
      const edge = { x: band.x, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
      return [
        { ...edge, y: band.low, name: `${label} low` },
        { ...edge, y: band.high, name: `${label} high`, fill: "tonexty", fillcolor: transparent(onPage(colour), 0.22) },
      ];
    });
    const means = shown.flatMap(({ label, title, colour, dash }) => {
      const band = this.bands.get(label);
      if (!band) return [];
      const between = band.low && band.high ? "<br>%{customdata[0]:.4~g} to %{customdata[1]:.4~g}" : "";
      return [
        {
          x: band.x,
          y: band.mean,
          name: label,
          mode: "lines",
          line: { color: onPage(colour), width: 2, dash },
          ...(between ? { customdata: Array.from(band.x, (_, i) => [band.low?.[i], band.high?.[i]]) } : {}),
          hovertemplate: `${plain(title)}: %{y:.4~g}${between}<extra></extra>`,
        },
      ];
    });
    return [...thin, ...bands, ...means];
  }

  layout() {
    const { x = "episode", y = "", fromZero = false, height = 300, references = [] } = this.options;
    const layout = theme({ x, y, height, log: this.log, fromZero });
    const { color } = layout.font;
    return {
      ...layout,
      shapes: references.map(({ value }) => ({
        type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { color, width: 1, dash: "dot" },
      })),
      annotations: references.map(({ value, name }, i) => ({
        text: plain(name), xref: "paper", x: 0, xanchor: "left", showarrow: false,
        yanchor: i < references.length - 1 ? "top" : "bottom", // the lowest comes first, so two close labels do not overlap
        y: this.log ? Math.log10(value) : value, font: { size: 11 },
        bgcolor: transparent(dark.matches ? "#1c2128" : "#ffffff", 0.8), borderpad: 1, // legible on top of curves
      })),
    };
  }
}

/** Escape a text for Plotly, which interprets some markup. @param {string} text */
export function plain(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
