// @ts-check
/** The report: what Python put into the page as JSON, on boards and charts. */
import { ARROW, BOLT, Board, Harm, MARKS } from "./board.js";
import { Curves, dark, dress, drawn, floats, onPage, onWidth, plain, theme } from "./curves.js";

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

function colourSwatches() {
  for (const swatch of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-colour]"))) {
    dress(swatch, swatch.dataset.colour ?? "", swatch.dataset.dash ?? "");
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
  return `hsl(${250 - 190 * share} ${55 + 25 * share}% ${(dark.matches ? 68 : 32) + (dark.matches ? 8 : 16) * share}%)`;
}

function prices() {
  let log = false;
  const ramp = document.getElementById("steps");
  ramp?.style.setProperty("background", `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(ofStep).join(",")})`);
  const draws = Object.entries(content.prices).map(([label, { x, z }]) => {
    const element = marked("price", label);
    const lines = z.map((steps) => steps.map((each) => floats(each, "f8")));
    const { colour } = /** @type {Look} */ (agents.find((agent) => agent.label === label));
    const draw = () => {
      const traces = lines.flatMap((steps, i) => {
        const which = lines.length > 1 ? `, constraint ${i + 1}` : "";
        const hovertemplate = "episode %{x}: %{y:.4~g}";
        const each = steps.map((y, h) => ({
          x,
          y,
          mode: "lines",
          opacity: 0.55,
          line: { width: 1.2, color: ofStep(steps.length > 1 ? h / (steps.length - 1) : 0) },
          name: `step ${h + 1}${which}`,
          hovertemplate,
        }));
        const mean = x.map((_, k) => steps.reduce((sum, y) => sum + y[k], 0) / steps.length);
        const bold = { x, y: mean, mode: "lines", line: { width: 2.6, color: onPage(colour) }, name: `mean${which}`, hovertemplate };
        return [...each, bold];
      });
      const layout = theme({ x: "episode k", y: "Z", log, height: 300 });
      drawn(element, traces, { ...layout, hovermode: "closest" });
    };
    draw();
    onWidth(element, draw);
    dark.addEventListener("change", draw);
    return draw;
  });
  onScale("price-scale", (chosen) => {
    log = chosen;
    draws.forEach((draw) => draw());
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
    const board = new Board(/** @type {HTMLElement} */ (card.querySelector(".map")), map, { label: title, most, interactive: true });
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
    const words = `after ${episode.toLocaleString("en")} of ${content.episodes.toLocaleString("en")} episodes`;
    byId("now").textContent = words;
    slider.setAttribute("aria-valuetext", words);
    for (const { label, board, totals } of boards) {
      const film = content.films[label];
      const harm = new Harm(map);
      for (const frame of film.slice(0, moment + 1)) harm.add(frame.violations);
      board.show(film[moment], harm);
      showTotals(totals, film[moment], film[Math.max(moment - 1, 0)]);
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
  show(last); // what became of everybody; Play starts at the beginning
}

/** @param {HTMLElement} list @param {Frame} frame @param {Frame} before */
function showTotals(list, { episode, totals }, before) {
  const number = (/** @type {number} */ value, digits = 0) =>
    value.toLocaleString("en", { maximumFractionDigits: 1, minimumFractionDigits: digits });
  const rows = [
    ["harm in all", number(totals.violation)],
    ["harm just now", number(totals.violation - before.totals.violation)],
    ["reward an episode so far", number(episode ? totals.return / episode : 0, 1)],
  ];
  list.replaceChildren(
    ...rows.map(([key, value]) => {
      const row = document.createElement("div");
      const term = document.createElement("dt");
      const said = document.createElement("dd");
      term.textContent = key;
      said.textContent = value;
      row.append(term, said);
      return row;
    }),
  );
}

const MOMENTS_ACROSS = 1000; // of the picture of unsafe steps: more columns than pixels show nothing more

/** Every unsafe step by episode and step, agents above each other. @param {Scene} map @param {Look[]} films */
function momentsOfHarm(map, films) {
  const element = byId("when");
  const room = 0.8;
  let now = 0;
  let listening = false;
  /** @type {(episode: number) => void} */
  let pick = () => {};
  const height = 60 + 64 * films.length;
  const all = films.map(({ label }) => content.films[label].flatMap((frame) => frame.violations));
  // An image: thousands of markers would take a second to draw.
  const width = Math.ceil(content.episodes / MOMENTS_ACROSS);
  const columns = Math.ceil(content.episodes / width);
  const across = Array.from({ length: columns }, (_, i) => (i + 0.5) * width + 0.5);
  const images = all.map((violations) => {
    const times = Array.from({ length: map.horizon }, () => new Array(columns).fill(null));
    const words = Array.from({ length: map.horizon }, () => new Array(columns).fill(""));
    for (const each of violations) {
      const [row, column] = [each[1] - 1, Math.floor((each[0] - 1) / width)];
      times[row][column] = (times[row][column] ?? 0) + 1;
      words[row][column] = words[row][column] ? `${times[row][column]} unsafe steps, the last: ${told(map, each)}` : told(map, each);
    }
    return { times, words };
  });
  const draw = () => {
    const traces = films.map(({ label, colour }, row) => ({
      type: "heatmap",
      name: label,
      x: across,
      y: Array.from({ length: map.horizon }, (_, h) => films.length - 1 - row + (room * (h + 0.5)) / map.horizon),
      z: images[row].times,
      text: images[row].words,
      zmin: 0,
      zmax: 1,
      colorscale: [[0, onPage(colour)], [1, onPage(colour)]],
      showscale: false,
      hoverongaps: false,
      hovertemplate: "%{text}<extra></extra>",
    }));
    const layout = theme({ x: "episode", y: "", log: false, height });
    const line = { type: "line", yref: "paper", y0: 0, y1: 1, x0: now, x1: now, line: { width: 1.5, color: layout.font.color } };
    drawn(element, traces, {
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
    });
    if (!listening) {
      listening = true;
      const chart = /** @type {any} */ (element);
      chart.on("plotly_click", (/** @type {{points: {x: number}[]}} */ event) => pick(event.points[0].x));
    }
  };
  draw();
  onWidth(element, draw);
  dark.addEventListener("change", draw);
  return {
    /** @param {number} episode */
    mark(episode) {
      now = episode;
      const ready = element.classList.contains("js-plotly-plot");
      if (ready) Plotly.relayout(element, { "shapes[0].x0": episode, "shapes[0].x1": episode });
    },
    /** @param {(episode: number) => void} picked */
    onPick(picked) {
      pick = picked;
    },
  };
}

/** A name short enough for the side of an axis. @param {string} title */
function shortened(title) {
  return plain(title.length > 18 ? `${title.slice(0, 17)}…` : title);
}

/** The marks of the board, each beside what it means. */
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

dark.addEventListener("change", colourSwatches);
colourSwatches();
learningCurves();
if (scene) {
  const map = document.getElementById("map");
  if (map) new Board(map, scene, { label: "The problem", truth: true });
  if (Object.keys(content.films).length) player(scene);
}
prices();
