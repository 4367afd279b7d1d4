// @ts-check
/** The report: boards and charts from the JSON in the page. charts.py lists the charts; `STYLES` draws them. */
import { ARROW, BOLT, Board, DIAMOND, MARKS, ViolationCounts } from "./board.js";
import { byId, drawCharts, drawCurves, keepSwatches, marked } from "./charts.js";
import { dark, drawn, floats, keepDrawn, onPage, plain, theme } from "./curves.js";
import { harmText, offerVelocities } from "./harm.js";

/**
 * @typedef {import("./charts.js").Axes} Axes
 * @typedef {import("./charts.js").CurvesPanel} CurvesPanel
 * @typedef {import("./charts.js").Drawn} Drawn
 * @typedef {Axes & {agent: string, episodes: number[], z: string[][]}} StepsPanel
 * @typedef {Axes & {agent?: string, states: string[], actions: string[], top: number, exact: string, believed?: string,
 *   chosen?: string, plan?: string}} StripPanel
 * @typedef {{episodes: number, agents: Look[], charts: Axes[], scene: Scene | null, films: Record<string, Frame[]>}} Content
 */

/** @param {string} id */
const input = (id) => /** @type {HTMLInputElement} */ (byId(id));

/** @type {Content} */
const content = JSON.parse(byId("content").textContent ?? "");
const { agents, scene } = content;

// --- charts -----------------------------------------------------------------------------------------------------------
/** A hue from step 1 to the last; lightness changes monotonically, for colour-blind readers. @param {number} share */
function ofStep(share) {
  return `hsl(${250 - 190 * share} ${55 + 25 * share}% ${(dark.matches ? 68 : 32) + (dark.matches ? 8 : 16) * share}%)`;
}

/** One agent: a line for each constraint and step, and their means. @param {HTMLElement} element @param {StepsPanel} panel @returns {Drawn} */
function drawSteps(element, panel) {
  let log = false;
  const { episodes } = panel;
  const lines = panel.z.map((steps) => steps.map((numbers) => floats(numbers, "f8")));
  const { colour } = /** @type {Look} */ (agents.find((agent) => agent.label === panel.agent));
  const draw = () => {
    const traces = lines.flatMap((steps, i) => {
      const which = lines.length > 1 ? `, constraint ${i + 1}` : "";
      const hovertemplate = "episode %{x}: %{y:.4~g}";
      const thin = steps.map((y, h) => ({
        x: episodes,
        y,
        mode: "lines",
        opacity: 0.55,
        line: { width: 1.2, color: ofStep(steps.length > 1 ? h / (steps.length - 1) : 0) },
        name: `step ${h + 1}${which}`,
        hovertemplate,
      }));
      const mean = episodes.map((_, k) => steps.reduce((sum, y) => sum + y[k], 0) / steps.length);
      const line = { width: 2.6, color: onPage(colour) };
      return [...thin, { x: episodes, y: mean, mode: "lines", line, name: `mean${which}`, hovertemplate }];
    });
    const layout = theme({ x: panel.x, y: panel.y, log, height: 300, fromZero: panel.fromZero });
    drawn(element, traces, { ...layout, hovermode: "closest" });
  };
  keepDrawn(element, draw);
  return {
    setLog(chosen) {
      log = chosen;
      draw();
    },
  };
}

/** Harm-to-go by state and step: exact, or as an agent believes. @param {HTMLElement} element @param {StripPanel} panel @returns {Drawn} */
function drawStrip(element, panel) {
  const { states, actions } = panel;
  const exact = floats(panel.exact, "f4");
  const believed = panel.believed ? floats(panel.believed, "f4") : null;
  const chosen = panel.chosen ? floats(panel.chosen, "f4") : null;
  const plan = panel.plan ? floats(panel.plan, "f4") : null;
  const H = exact.length / states.length;
  const rows = (/** @type {(at: number) => any} */ of) =>
    Array.from({ length: H }, (_, h) => states.map((_, x) => of(h * states.length + x)));
  const text = rows((at) => {
    const lines = [`step ${Math.floor(at / states.length) + 1}: ${states[at % states.length]}`];
    lines.push(`${exact[at] > 0 ? "not viable" : "viable"}, least harm-to-go ${harmText(exact[at])}`);
    if (believed && chosen && plan) {
      lines.push(`the agent estimates ${harmText(believed[at])}`);
      lines.push(`its action, ${actions[plan[at]] ?? "a distribution"}: ${harmText(chosen[at])}`);
    }
    return lines.map(plain).join("<br>");
  });
  const shown = believed ?? exact;
  const draw = () => {
    const layout = theme({ x: panel.x, y: panel.y, log: false, height: 300 });
    const [low, high] = dark.matches ? ["#5a3a78", "#e9d2ff"] : ["#dcc6f0", "#4d0f7d"];
    const trace = {
      type: "heatmap",
      name: panel.agent ?? "exact",
      x: states.map((_, x) => x),
      y: Array.from({ length: H }, (_, h) => h + 1),
      z: rows((at) => (shown[at] > 0 ? shown[at] : null)),
      text,
      zmin: 0,
      zmax: panel.top,
      xgap: states.length > 100 ? 0 : 0.5,
      ygap: 0.5,
      colorscale: [[0, low], [1, high]],
      colorbar: { thickness: 10, outlinewidth: 0, tickfont: layout.font, len: 1, xpad: 4 },
      hoverongaps: true,
      hovertemplate: "%{text}<extra></extra>",
    };
    const yaxis = { ...layout.yaxis, range: [H + 0.5, 0.5], showgrid: false, zeroline: false };
    const xaxis = { ...layout.xaxis, range: [-0.5, states.length - 0.5], showgrid: false, zeroline: false };
    drawn(element, [trace], { ...layout, hovermode: "closest", xaxis, yaxis });
  };
  keepDrawn(element, draw);
  return { setLog() {} };
}

/** How panels are drawn, by style. The player draws timelines itself. @type {Record<string, import("./charts.js").Draw>} */
const STYLES = { curves: (element, panel) => drawCurves(element, panel, agents), steps: drawSteps, strip: drawStrip };

/** The colours of steps, beside the charts that use them. */
function showRamps() {
  const ramp = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(ofStep).join(",")})`;
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".ramp.steps"))) {
    element.style.setProperty("background", ramp);
  }
}

// --- the player -------------------------------------------------------------------------------------------------------
/** @param {Scene} map @param {Violation} violation */
function describeViolation(map, [episode, h, x, a, amount]) {
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
    board.setLayers({ route: false, marks: input("show-marks").checked });
    return { label, board, totals: /** @type {HTMLElement} */ (card.querySelector(".totals")) };
  });
  const slider = input("moment");
  slider.max = String(last);
  const timeline = drawTimeline(map, films);

  /** @type {(() => void) | null} describes again the cell that was looked at */
  let again = null;
  /** @param {number} at */
  const show = (at) => {
    const moment = Math.min(Math.max(at, 0), last);
    slider.value = String(moment);
    const { episode } = content.films[films[0].label][moment];
    const text = `after ${episode.toLocaleString("en")} of ${content.episodes.toLocaleString("en")} episodes`;
    byId("now").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    for (const { label, board, totals } of boards) {
      const film = content.films[label];
      const counts = new ViolationCounts(map);
      for (const frame of film.slice(0, moment + 1)) counts.add(frame.violations);
      board.show(film[moment], counts);
      showTotals(totals, film[moment], film[Math.max(moment - 1, 0)]);
    }
    timeline.mark(episode);
    again?.();
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
  byId("forward").addEventListener("click", () => goTo(Number(slider.value) + 1));
  byId("next-unsafe").addEventListener("click", () => {
    const now = Number(slider.value);
    const isUnsafe = (/** @type {number} */ at) => films.some(({ label }) => content.films[label][at].violations.length > 0);
    for (let at = now + 1; at <= last; at += 1) {
      if (isUnsafe(at)) {
        goTo(at);
        return;
      }
    }
  });
  timeline.onPick((episode) => goTo(content.films[films[0].label].findIndex((frame) => frame.episode >= episode)));
  const step = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (byId("step")));
  const looked = byId("looked");
  step.addEventListener("change", () => {
    for (const { board } of boards) board.setStep(Number(step.value));
    again?.();
  });
  for (const layer of map.harm ? ["arrows", "marks", "route", "harm"] : ["arrows", "marks", "route"]) {
    const box = input(`show-${layer}`);
    box.addEventListener("change", () => {
      const other = { marks: "harm", harm: "marks" }[layer]; // on a racetrack they would be drawn over each other
      const clash = other && map.harm && map.top_speed > 1 && box.checked ? other : null;
      if (clash) input(`show-${clash}`).checked = false;
      for (const { board } of boards) board.setLayers({ [layer]: box.checked, ...(clash ? { [clash]: false } : {}) });
    });
  }
  const velocity = /** @type {HTMLSelectElement | null} */ (document.getElementById("velocity"));
  if (velocity) {
    offerVelocities(velocity, map.harm, "seen most");
    velocity.addEventListener("change", () => {
      for (const { board } of boards) board.setVelocity(velocity.value === "" ? null : Number(velocity.value));
      again?.();
    });
  }
  /** @param {Board} board @param {number} cell */
  const describe = (board, cell) => {
    looked.textContent = `${board.options.label}. ${board.describe(cell)}`;
    if (!map.harm) return;
    const table = board.harmOfActions(cell);
    byId("harm-of-actions").replaceChildren(...(table ? [table] : []));
    again = () => describe(board, cell);
  };
  for (const { board } of boards) {
    board.element.addEventListener("look", (event) => {
      const { cell } = /** @type {CustomEvent<{cell: number | null}>} */ (event).detail;
      if (cell !== null) describe(board, cell);
    });
  }
  legend();
  show(last); // the final moment; Play starts at the beginning
  const [looksAhead] = boards.filter(({ label }) => content.films[label][last].harm);
  if (looksAhead) describe(looksAhead.board, map.starts[0]);
}

/** @param {HTMLElement} list @param {Frame} frame @param {Frame} before */
function showTotals(list, { episode, totals }, before) {
  const number = (/** @type {number} */ value, digits = 0) =>
    value.toLocaleString("en", { maximumFractionDigits: 1, minimumFractionDigits: digits });
  const rows = [
    ["total violations", number(totals.violation)],
    ["new violations", number(totals.violation - before.totals.violation)],
    ["mean return so far", number(episode ? totals.return / episode : 0, 1)],
  ];
  list.replaceChildren(
    ...rows.map(([key, value]) => {
      const row = document.createElement("div");
      const term = document.createElement("dt");
      const definition = document.createElement("dd");
      term.textContent = key;
      definition.textContent = value;
      row.append(term, definition);
      return row;
    }),
  );
}

const TIMELINE_COLUMNS = 1000; // the largest number; more columns than pixels are not visible

/** Every unsafe step by episode and step, one row for each agent. @param {Scene} map @param {Look[]} films */
function drawTimeline(map, films) {
  const panel = /** @type {Axes} */ (content.charts.find(({ style }) => style === "timeline"));
  const element = marked("chart", panel.name);
  element.setAttribute("role", "figure");
  element.setAttribute("aria-label", panel.title);
  const rowHeight = 0.8;
  let now = 0;
  let listening = false;
  /** @type {(episode: number) => void} */
  let pick = () => {};
  const height = 60 + 64 * films.length;
  const all = films.map(({ label }) => content.films[label].flatMap((frame) => frame.violations));
  // An image, because thousands of markers would take a second to draw.
  const width = Math.ceil(content.episodes / TIMELINE_COLUMNS);
  const columns = Math.ceil(content.episodes / width);
  const across = Array.from({ length: columns }, (_, i) => (i + 0.5) * width + 0.5);
  const images = all.map((violations) => {
    const times = Array.from({ length: map.horizon }, () => new Array(columns).fill(null));
    const texts = Array.from({ length: map.horizon }, () => new Array(columns).fill(""));
    for (const each of violations) {
      const [row, column] = [each[1] - 1, Math.floor((each[0] - 1) / width)];
      times[row][column] = (times[row][column] ?? 0) + 1;
      texts[row][column] = texts[row][column] ? `${times[row][column]} unsafe steps, the last: ${describeViolation(map, each)}` : describeViolation(map, each);
    }
    return { times, texts };
  });
  const draw = () => {
    const traces = films.map(({ label, colour }, row) => ({
      type: "heatmap",
      name: label,
      x: across,
      y: Array.from({ length: map.horizon }, (_, h) => films.length - 1 - row + (rowHeight * (h + 0.5)) / map.horizon),
      z: images[row].times,
      text: images[row].texts,
      zmin: 0,
      zmax: 1,
      colorscale: [[0, onPage(colour)], [1, onPage(colour)]],
      showscale: false,
      hoverongaps: false,
      hovertemplate: "%{text}<extra></extra>",
    }));
    const layout = theme({ x: panel.x, y: panel.y, log: false, height });
    const line = { type: "line", yref: "paper", y0: 0, y1: 1, x0: now, x1: now, line: { width: 1.5, color: layout.font.color } };
    drawn(element, traces, {
      ...layout,
      hovermode: "closest",
      xaxis: { ...layout.xaxis, range: [0, content.episodes + 1] },
      yaxis: {
        ...layout.yaxis,
        range: [-0.08, films.length],
        tickvals: films.map((_, row) => films.length - 1 - row + rowHeight / 2),
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
  keepDrawn(element, draw);
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

/** The marks of the board with their meanings. */
function legend() {
  const list = byId("legend");
  const entry = (/** @type {Element | null} */ mark, /** @type {string} */ meaning) => {
    const item = document.createElement("li");
    if (mark) item.append(mark);
    item.append(meaning);
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
  const where = scene && scene.top_speed > 1 ? "plan at the velocity seen there most" : "plan";
  entry(picture(ARROW, "arrow"), `${where} (pale where never visited)`);
  entry(picture(MARKS[1], "mark safe", 2), "certified safe");
  entry(picture(MARKS[2], "mark unsafe", 2), "certified unsafe");
  if (scene && scene.top_speed > 1) entry(null, "marks: each move from the cell, where it leads; line: the path of the plan");
  else entry(picture(MARKS[0], "mark unknown", 2), "unknown");
  entry(picture(BOLT, "bolt recent"), "unsafe step (pale: at an earlier moment)");
  if (!scene?.harm) return;
  const each = scene.top_speed > 1 ? ", one per velocity, where it leads" : "";
  const diamond = picture(DIAMOND, "harm", 2);
  diamond.querySelector("path")?.setAttribute("fill-opacity", "0");
  entry(diamond, `not viable at this step${each}`);
  entry(picture(DIAMOND, "harm", 2), "and the agent estimates harm");
  entry(picture("M-4.5,-4.5h9v9h-9z", "dead-end"), "not viable: the state whose plan is drawn");
}

keepSwatches();
showRamps();
drawCharts(content.charts, STYLES);
if (scene) {
  const map = document.getElementById("map");
  const viable = document.getElementById("viable");
  if (map) new Board(map, viable ? { ...scene, harm: undefined } : scene, { label: "The problem", truth: true });
  if (viable) {
    const board = new Board(viable, scene, { label: "Viable states" });
    board.setLayers({ route: false });
    const step = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (byId("viable-step")));
    step.addEventListener("change", () => board.setStep(Number(step.value)));
  }
  if (Object.keys(content.films).length) player(scene);
}
