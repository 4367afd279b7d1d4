// @ts-check
/** The report: what Python put into the page as JSON, on boards and charts. */
import { ARROW, BOLT, Board, Harm, MARKS } from "./board.js";
import { Curves, floats, onPage, theme } from "./curves.js";

/**
 * @typedef {{name: string, title: string, y: string, fromZero: boolean, references: {value: number, name: string}[],
 *   episodes: number[], bands: Record<string, {mean: string, low: string, high: string}>, seedX: number[],
 *   seeds: Record<string, string>}} Chart
 * @typedef {{episodes: number, agents: Look[], curves: Chart[], scene: Scene | null, films: Record<string, Frame[]>,
 *   prices: Record<string, {x: number[], z: string[][]}>}} Content
 */

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** @param {string} id */
const input = (id) => /** @type {HTMLInputElement} */ (byId(id));
/** @param {string} key @param {string} value @returns {HTMLElement} */
function marked(key, value) {
  return /** @type {HTMLElement} */ (document.querySelector(`[data-${key}="${CSS.escape(value)}"]`));
}

/** @type {Content} */
const content = JSON.parse(byId("content").textContent ?? "");
const { agents, scene } = content;
const scheme = window.matchMedia("(prefers-color-scheme: dark)");

function colourSwatches() {
  for (const swatch of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-colour]"))) {
    swatch.style.setProperty("--agent", onPage(swatch.dataset.colour ?? ""));
  }
}

/** Rows of equal length as one line, broken by NaN between them. @param {number[]} x @param {Numbers} rows */
function broken(x, rows) {
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

/** @param {string} name of radio buttons @param {(log: boolean) => void} chosen */
function onScale(name, chosen) {
  for (const radio of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll(`[name="${name}"]`))) {
    radio.addEventListener("change", () => chosen(radio.value === "log"));
  }
}

// --- curves -----------------------------------------------------------------------------------------------------------
function learningCurves() {
  const charts = content.curves.map((told) => {
    const chart = new Curves(marked("chart", told.name), agents, told);
    for (const { label } of agents) {
      const { mean, low, high } = told.bands[label];
      chart.setBand(label, { x: told.episodes, mean: floats(mean, "f8"), low: floats(low, "f8"), high: floats(high, "f8") });
      const { across, up } = broken(told.seedX, floats(told.seeds[label], "f4"));
      chart.setSeeds(label, across, up);
    }
    return chart;
  });
  onScale("scale", (log) => charts.forEach((chart) => chart.setLog(log)));
  const singles = input("single-seeds");
  singles.addEventListener("change", () => charts.forEach((chart) => chart.setSeedsShown(singles.checked)));
  for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("[data-agent]"))) {
    box.addEventListener("change", () => charts.forEach((chart) => chart.setShown(box.dataset.agent ?? "", box.checked)));
  }
}

/** A hue from step 1 to the last, told apart by colour-blind readers: lightness changes all the way. @param {number} share */
function ofStep(share) {
  return `hsl(${250 - 190 * share} ${55 + 25 * share}% ${(scheme.matches ? 68 : 32) + (scheme.matches ? 8 : 16) * share}%)`;
}

function prices() {
  let log = false;
  const drawn = Object.entries(content.prices).map(([label, { x, z }]) => {
    const element = marked("price", label);
    const lines = z.map((steps) => steps.map((each) => floats(each, "f8")));
    const draw = () => {
      const traces = lines.flatMap((steps, i) =>
        steps.map((y, h) => ({
          x,
          y,
          mode: "lines",
          line: { width: 1.4, color: ofStep(steps.length > 1 ? h / (steps.length - 1) : 0) },
          name: `step ${h + 1}${lines.length > 1 ? `, constraint ${i + 1}` : ""}`,
          hovertemplate: "episode %{x}: %{y:.4~g}",
        })),
      );
      const layout = theme({ x: "episode k", y: "Z", log, height: 300 });
      Plotly.react(element, traces, { ...layout, hovermode: "closest" }, { displaylogo: false, displayModeBar: false });
    };
    new ResizeObserver(draw).observe(element);
    scheme.addEventListener("change", draw);
    return draw;
  });
  onScale("price-scale", (chosen) => {
    log = chosen;
    drawn.forEach((draw) => draw());
  });
}

// --- the player -------------------------------------------------------------------------------------------------------
/** @param {Scene} map @param {Violation} violation */
function told(map, [episode, h, x, a, amount]) {
  const place = `row ${Math.floor(x / map.width) + 1}, column ${(x % map.width) + 1}`;
  return `episode ${episode}, step ${h}: ${place}, ${map.actions[a].name} (g = ${amount.toPrecision(3)})`;
}

/** @param {Scene} map */
function player(map) {
  const films = agents.filter(({ label }) => content.films[label]);
  const last = content.films[films[0].label].length - 1;
  const most = Math.max(...films.flatMap(({ label }) => content.films[label][last].visits));
  const boards = films.map(({ label, title }) => {
    const card = marked("board", label);
    const board = new Board(/** @type {HTMLElement} */ (card.querySelector(".map")), map, { label: title, most });
    board.setLayers({ route: false });
    return { label, board, totals: /** @type {HTMLElement} */ (card.querySelector(".totals")) };
  });
  const slider = input("moment");
  slider.max = String(last);
  const when = momentsOfHarm(map, films);

  /** @param {number} at */
  const show = (at) => {
    const moment = Math.min(Math.max(at, 0), last);
    slider.value = String(moment);
    const { episode } = content.films[films[0].label][moment];
    const words = `after ${episode.toLocaleString("en")} of ${content.episodes.toLocaleString("en")}`;
    byId("now").textContent = words;
    slider.setAttribute("aria-valuetext", `${words} episodes`);
    for (const { label, board, totals } of boards) {
      const film = content.films[label];
      const harm = new Harm(map);
      for (const frame of film.slice(0, moment + 1)) harm.add(frame.violations);
      board.show(film[moment], harm);
      showTotals(totals, film[moment]);
    }
    when.mark(episode);
  };

  let timer = 0;
  const play = byId("play");
  const stop = () => {
    window.clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  };
  const start = () => {
    if (Number(slider.value) === last) show(0);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = window.setInterval(() => {
      show(Number(slider.value) + 1);
      if (Number(slider.value) === last) stop();
    }, 140);
  };
  const goTo = (/** @type {number} */ at) => {
    stop();
    show(at);
  };
  play.addEventListener("click", () => (timer ? stop() : start()));
  slider.addEventListener("input", () => goTo(Number(slider.value)));
  byId("back").addEventListener("click", () => goTo(Number(slider.value) - 1));
  byId("forth").addEventListener("click", () => goTo(Number(slider.value) + 1));
  byId("next-harm").addEventListener("click", () => {
    const now = Number(slider.value);
    const harmful = (/** @type {number} */ at) => films.some(({ label }) => content.films[label][at].violations.length > 0);
    for (let at = now + 1; at <= last; at += 1) {
      if (harmful(at)) {
        goTo(at);
        return;
      }
    }
  });
  when.onPick((episode) => goTo(content.films[films[0].label].findIndex((frame) => frame.episode >= episode)));
  const step = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (byId("step")));
  step.addEventListener("change", () => boards.forEach(({ board }) => board.setStep(Number(step.value))));
  for (const layer of ["arrows", "marks", "route"]) {
    const box = input(`show-${layer}`);
    box.addEventListener("change", () => boards.forEach(({ board }) => board.setLayers({ [layer]: box.checked })));
  }
  const looked = byId("looked");
  for (const { board } of boards) {
    board.element.addEventListener("look", (event) => {
      const { cell } = /** @type {CustomEvent<{cell: number | null}>} */ (event).detail;
      if (cell !== null) looked.textContent = `${board.options.label}. ${board.describe(cell)}`;
    });
  }
  legend();
  show(0);
}

/** @param {HTMLElement} list @param {Frame} frame */
function showTotals(list, { episode, totals, violations }) {
  const number = (/** @type {number} */ value) => value.toLocaleString("en", { maximumFractionDigits: 1 });
  const rows = [
    ["harm in all", number(totals.violation), ""],
    ["just now", number(violations.reduce((sum, [, , , , amount]) => sum + amount, 0)), ""],
    ["reward an episode", number(episode ? totals.return / episode : 0), "harm"],
  ];
  list.replaceChildren(
    ...rows.map(([key, value, kind]) => {
      const row = document.createElement("div");
      if (kind) row.className = kind;
      const term = document.createElement("dt");
      const said = document.createElement("dd");
      term.textContent = key;
      said.textContent = value;
      row.append(term, said);
      return row;
    }),
  );
}

/** Every unsafe step as a point, agents above each other. @param {Scene} map @param {Look[]} films */
function momentsOfHarm(map, films) {
  const element = byId("when");
  const room = 0.8;
  let now = 0;
  const height = 60 + 64 * films.length;
  const all = films.map(({ label }) => content.films[label].flatMap((frame) => frame.violations));
  const draw = () => {
    const traces = films.map(({ label, colour }, row) => ({
      x: all[row].map(([episode]) => episode),
      y: all[row].map(([, h]) => films.length - 1 - row + (room * h) / map.horizon),
      text: all[row].map((each) => told(map, each)),
      name: label,
      mode: "markers",
      type: "scatter",
      marker: { size: 4, color: onPage(colour), opacity: 0.55, symbol: "line-ns-open", line: { width: 1 } },
      hovertemplate: "%{text}<extra></extra>",
    }));
    const layout = theme({ x: "episode", y: "", log: false, height });
    const line = { type: "line", yref: "paper", y0: 0, y1: 1, x0: now, x1: now, line: { width: 1.5, color: layout.font.color } };
    Plotly.react(
      element,
      traces,
      {
        ...layout,
        hovermode: "closest",
        xaxis: { ...layout.xaxis, range: [0, content.episodes + 1] },
        yaxis: {
          ...layout.yaxis,
          range: [-0.08, films.length],
          tickvals: films.map((_, row) => films.length - 1 - row + room / 2),
          ticktext: films.map(({ title }) => shortened(title)),
          showgrid: false,
          zeroline: false,
        },
        shapes: [line],
      },
      { displaylogo: false, displayModeBar: false },
    );
  };
  new ResizeObserver(draw).observe(element);
  scheme.addEventListener("change", draw);
  return {
    /** @param {number} episode */
    mark(episode) {
      now = episode;
      const ready = element.classList.contains("js-plotly-plot");
      if (ready) Plotly.relayout(element, { "shapes[0].x0": episode, "shapes[0].x1": episode });
    },
    /** @param {(episode: number) => void} picked */
    onPick(picked) {
      draw();
      const chart = /** @type {any} */ (element);
      chart.on("plotly_click", (/** @type {{points: {x: number}[]}} */ event) => picked(event.points[0].x));
    },
  };
}

/** A name beside an axis, in which Plotly finds no markup. @param {string} title */
function shortened(title) {
  const cut = title.length > 18 ? `${title.slice(0, 17)}…` : title;
  return cut.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The marks of the board, explained by a board of one cell each. */
function legend() {
  const list = byId("legend");
  const entry = (/** @type {Element | null} */ mark, /** @type {string} */ words) => {
    const item = document.createElement("li");
    if (mark) item.append(mark);
    item.append(words);
    list.append(item);
  };
  const picture = (/** @type {string} */ d, /** @type {string} */ kind, zoom = 1) => {
    const holder = document.createElement("span");
    holder.className = "board";
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `${-6 / zoom} ${-6 / zoom} ${12 / zoom} ${12 / zoom}`);
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", d);
    path.setAttribute("class", kind);
    svg.append(path);
    holder.append(svg);
    return holder;
  };
  const ramp = document.createElement("span");
  ramp.className = "ramp";
  entry(ramp, "visits, few to many (logarithmic)");
  entry(picture(ARROW, "arrow"), "plan (pale where never visited)");
  entry(picture(MARKS[1], "mark safe", 2), "certified safe");
  entry(picture(MARKS[2], "mark unsafe", 2), "certified unsafe");
  entry(picture(MARKS[0], "mark unknown", 2), "unknown");
  entry(picture(BOLT, "bolt recent"), "unsafe step (pale: before this moment)");
}

scheme.addEventListener("change", colourSwatches);
colourSwatches();
learningCurves();
if (scene) {
  const map = document.getElementById("map");
  if (map) new Board(map, scene, { label: "The problem" });
  if (Object.keys(content.films).length) player(scene);
}
prices();
