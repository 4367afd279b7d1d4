// @ts-check
/**
 * The agents side by side: each has a board and running totals, and charts compare all. Every number is kept; the newest
 * is drawn, at most once per animation frame.
 */

import { Board, ViolationCounts } from "./board.js";
import { Curves, dress, onPage } from "./curves.js";

const WINDOW = 20; // episodes in a moving average
const CHART_EVERY = 200; // milliseconds: a chart takes ten times as long to draw as a board, so charts take turns
const POINTS = 300; // of a growing curve: a chart is hardly wider

/** The charts, one record each. @type {{key: string, title: string, caption: string, fromZero: boolean, curve: (lane: Lane) => number[]}[]} */
const CHARTS = [
  {
    key: "value", title: "Value of the policy", caption: "exact; dotted: safe optimum", fromZero: false,
    curve: (lane) => (lane.steady ? lane.columns.value : lane.meanValues),
  },
  {
    key: "recent", title: "Violations per episode", caption: `mean of the last ${WINDOW} episodes`, fromZero: true,
    curve: (lane) => lane.recentMeans,
  },
  { key: "total", title: "Total violations", caption: "cumulative", fromZero: true, curve: (lane) => lane.totals },
];

/** The numbers below each board, one record each. @type {{name: string, violation: boolean, text: (lane: Lane) => string}[]} */
const NUMBERS = [
  { name: "total violations", violation: true, text: (lane) => short(lane.totals.at(-1) ?? 0) },
  { name: "violations per episode", violation: true, text: (lane) => (lane.recentMeans.at(-1) ?? 0).toFixed(2) },
  { name: "mean return so far", violation: false, text: (lane) => (lane.sumOf("return") / lane.totals.length).toFixed(2) },
  { name: "cumulative regret", violation: false, text: (lane) => lane.sumOf("regret").toFixed(1) },
];

/** @param {string} tag @param {string} [text] @param {string} [name] */
function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

const short = (/** @type {number} */ number) => (Number.isInteger(number) ? String(number) : number.toFixed(2));

/** The names, colours and dashes of the agents. @param {Look[]} looks */
function legend(looks) {
  const row = element("p", "", "legend");
  for (const { title, colour, dash } of looks) {
    const name = element("span", title, "name");
    const swatch = element("span", "", "swatch");
    dress(swatch, colour, dash);
    name.prepend(swatch);
    row.append(name);
  }
  return row;
}

class Lane {
  /** @param {HTMLElement} parent @param {Look} look @param {Scene} scene */
  constructor(parent, look, scene) {
    this.look = look;
    this.unsafe = new ViolationCounts(scene);
    this.steady = scene.top_speed === 1; // a racetrack's car arrives or does not, so that plain values jump
    /** @type {Columns} */
    this.columns = { return: [], value: [], regret: [], violation: [], expected_violation: [], unsafe_steps: [] };
    /** @type {number[]} violations per episode, mean of the last WINDOW */
    this.recentMeans = [];
    /** @type {number[]} cumulative violations */
    this.totals = [];
    /** @type {number[]} values, mean of the last WINDOW */
    this.meanValues = [];
    this.sumOfValues = 0; // of the last WINDOW
    /** @type {LaneFrame | null} */
    this.newest = null;
    /** @type {Violation[]} since the last drawn frame */
    this.newViolations = [];
    const card = element("article", "", "card lane");
    card.style.setProperty("--colour", onPage(look.colour));
    const board = element("div");
    this.numbers = element("dl");
    this.cells = NUMBERS.map(({ name, violation }) => {
      const value = element("dd", "–", violation ? "violation" : "");
      this.numbers.append(element("dt", name), value);
      return value;
    });
    card.append(element("h3", look.title), board, this.numbers);
    parent.append(card);
    this.board = new Board(board, scene, { label: look.title, interactive: true });
  }

  /** @param {LaneFrame} frame */
  take(frame) {
    for (const [name, values] of Object.entries(frame.curves)) {
      this.columns[/** @type {keyof Columns} */ (name)].push(...values);
    }
    for (const violation of frame.curves.violation ?? []) {
      this.totals.push((this.totals.at(-1) ?? 0) + violation);
      const k = this.totals.length;
      const before = k > WINDOW ? this.totals[k - 1 - WINDOW] : 0;
      this.recentMeans.push((this.totals[k - 1] - before) / Math.min(k, WINDOW));
    }
    const { value } = this.columns;
    for (let k = this.meanValues.length; k < value.length; k += 1) {
      this.sumOfValues += value[k] - (k >= WINDOW ? value[k - WINDOW] : 0);
      this.meanValues.push(this.sumOfValues / Math.min(k + 1, WINDOW));
    }
    this.unsafe.add(frame.violations);
    this.newViolations.push(...frame.violations);
    this.newest = frame;
  }

  /** The sum of a column since the first episode. @param {"return" | "regret"} column */
  sumOf(column) {
    return this.newest?.totals[column] ?? 0;
  }

  draw() {
    if (!this.newest) return;
    this.board.show({ ...this.newest, violations: this.newViolations }, this.unsafe);
    this.newViolations = [];
    if (!this.totals.length) return;
    NUMBERS.forEach(({ text }, i) => (this.cells[i].textContent = text(this)));
  }
}

export class Lanes {
  /** @param {{lanes: HTMLElement, charts: HTMLElement, look: HTMLElement, harm: HTMLElement}} at */
  constructor(at) {
    this.at = at;
    /** @type {Map<string, Lane>} */
    this.lanes = new Map();
    /** @type {Map<string, Curves>} */
    this.charts = new Map();
    this.run = 0;
    this.waiting = false;
    this.charted = 0; // time of the last drawn chart
    this.turn = 0; // the next chart to draw
    this.shown = 0; // frames drawn on the boards
    this.layers = { arrows: true, marks: true, route: true, harm: true };
    this.step = 1;
    /** @type {number | null} the velocity whose plan is drawn; null: the one seen most */
    this.velocity = null;
    /** @type {{lane: Lane, cell: number} | null} the cell that was looked at */
    this.looked = null;
    at.lanes.addEventListener("look", (event) => this.#read(event));
  }

  /** Begin a run with new boards and empty curves. @param {Ready} ready */
  begin(ready) {
    this.run = ready.run;
    this.looked = null;
    this.velocity = null;
    this.at.lanes.replaceChildren();
    this.at.harm.replaceChildren();
    for (const chart of this.charts.values()) chart.end();
    this.at.lanes.dataset.count = String(ready.agents.length);
    this.at.charts.replaceChildren(legend(ready.agents));
    this.lanes = new Map(ready.agents.map((look) => [look.label, new Lane(this.at.lanes, look, ready.scene)]));
    const best = ready.scene.optimal_value;
    this.charts = new Map(
      CHARTS.map(({ key, title, caption, fromZero }) => {
        const card = element("section", "", "card");
        const heading = element("h3", `${title} `);
        const averaged = key === "value" && ready.scene.top_speed > 1;
        heading.append(element("small", averaged ? `${caption}; mean of the last ${WINDOW} episodes` : caption));
        const chart = element("div");
        card.append(heading, chart);
        this.at.charts.append(card);
        const references = key === "value" && best !== null ? [{ value: best, name: "" }] : [];
        return [key, new Curves(chart, ready.agents, { title, height: 240, fromZero, references })];
      }),
    );
    this.setLayers(this.layers);
    this.setStep(this.step);
    this.take(ready.frames);
  }

  /** @param {Record<string, LaneFrame>} frames */
  take(frames) {
    for (const [label, frame] of Object.entries(frames)) this.lanes.get(label)?.take(frame);
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.shown += 1;
      for (const lane of this.lanes.values()) lane.draw();
      this.#showHarm();
      if (performance.now() - this.charted >= CHART_EVERY) this.#chartNext();
    });
  }

  /** Draw all charts with every episode. */
  chart() {
    for (const record of CHARTS) this.#draw(record, Infinity);
    this.#describe();
  }

  #chartNext() {
    this.turn = (this.turn + 1) % CHARTS.length;
    this.#draw(CHARTS[this.turn], POINTS);
  }

  /** @param {typeof CHARTS[number]} record @param {number} points the largest number, evenly spread, with the newest */
  #draw({ key, curve: curveOf }, points) {
    this.charted = performance.now();
    for (const [label, lane] of this.lanes) {
      const curve = curveOf(lane);
      const stride = Math.max(1, Math.ceil(curve.length / points));
      const shown = Array.from({ length: Math.ceil(curve.length / stride) }, (_, i) => curve.length - 1 - i * stride).reverse();
      this.charts.get(key)?.setBand(label, { x: shown.map((i) => i + 1), mean: shown.map((i) => curve[i]) });
    }
  }

  /** All numbers of the run so far, as received. @returns {Record<string, Columns>} */
  numbers() {
    return Object.fromEntries([...this.lanes].map(([label, lane]) => [label, lane.columns]));
  }

  /** @param {{arrows?: boolean, marks?: boolean, route?: boolean, harm?: boolean}} layers */
  setLayers(layers) {
    this.layers = { ...this.layers, ...layers };
    for (const { board } of this.lanes.values()) board.setLayers(this.layers);
  }

  /** @param {number} step from 1 */
  setStep(step) {
    this.step = step;
    for (const { board } of this.lanes.values()) board.setStep(step);
    this.#describe();
  }

  /** @param {number | null} velocity */
  setVelocity(velocity) {
    this.velocity = velocity;
    for (const { board } of this.lanes.values()) board.setVelocity(velocity);
    this.#describe();
  }

  /** @param {Event} event */
  #read(event) {
    const { cell } = /** @type {CustomEvent} */ (event).detail;
    const lane = [...this.lanes.values()].find(({ board }) => board.element === event.target);
    if (!lane || cell === null) return;
    this.looked = { lane, cell };
    this.#describe();
  }

  /** The text about the cell that was looked at. */
  #describe() {
    if (!this.looked) return;
    const { lane, cell } = this.looked;
    this.at.look.textContent = `${lane.look.title}: ${lane.board.describe(cell)}`;
    this.#showHarm();
  }

  /** The harm of each action at that cell. */
  #showHarm() {
    const table = this.looked?.lane.board.harmOfActions(this.looked.cell);
    if (table) this.at.harm.replaceChildren(table);
    else this.at.harm.replaceChildren();
  }
}
