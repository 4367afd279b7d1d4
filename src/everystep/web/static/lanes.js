// @ts-check
/**
 * The agents side by side: a board and running totals each, and curves of all. Numbers are kept as they come; what is
 * drawn is the newest of them, at most once an animation frame.
 */

import { Board, Harm } from "./board.js";
import { Curves, dress, onPage } from "./curves.js";

const LATELY = 20; // episodes over which harm and reward are averaged
const LATEST_HARM = `harm, last ${LATELY}`;
const LATEST_REWARD = `reward, last ${LATELY}`;
const CHART_EVERY = 200; // milliseconds: a chart takes ten times as long to draw as a board, so they take turns
const POINTS = 300; // of a curve while it grows: a chart is hardly wider
const CHARTS = [
  { key: "value", title: "Value of the plan", note: "exact; dotted: the best safe one" },
  { key: "lately", title: "Harm of an episode", note: `mean of the last ${LATELY}` },
  { key: "harm", title: "Harm in all", note: "since the first episode" },
];

/** @param {string} tag @param {string} [text] @param {string} [name] */
function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
const short = (/** @type {number} */ number) => (Number.isInteger(number) ? String(number) : number.toFixed(2));

/** Which curve is whose. @param {Look[]} looks */
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
    this.harm = new Harm(scene);
    /** @type {Columns} */
    this.columns = { return: [], value: [], regret: [], violation: [], expected_violation: [], unsafe_steps: [] };
    /** @type {number[]} */
    this.lately = [];
    /** @type {number[]} */
    this.total = [];
    /** @type {LaneFrame | null} */
    this.newest = null;
    /** @type {Violation[]} since the frame that was drawn */
    this.recent = [];
    const card = element("article", "", "card lane");
    card.style.setProperty("--colour", onPage(look.colour));
    const board = element("div");
    this.numbers = element("dl");
    this.cells = Object.fromEntries(
      ["harm in all", LATEST_HARM, "reward in all", LATEST_REWARD].map((name) => {
        const value = element("dd", "–", name.startsWith("harm") ? "harm" : "");
        this.numbers.append(element("dt", name), value);
        return [name, value];
      }),
    );
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
      this.total.push((this.total.at(-1) ?? 0) + violation);
      const k = this.total.length;
      const before = k > LATELY ? this.total[k - 1 - LATELY] : 0;
      this.lately.push((this.total[k - 1] - before) / Math.min(k, LATELY));
    }
    this.harm.add(frame.violations);
    this.recent.push(...frame.violations);
    this.newest = frame;
  }

  draw() {
    if (!this.newest) return;
    this.board.show({ ...this.newest, violations: this.recent }, this.harm);
    this.recent = [];
    const { return: earned } = this.columns;
    const few = Math.min(earned.length, LATELY);
    if (!few) return;
    const rewards = sum(earned.slice(-few)) / few;
    this.cells["harm in all"].textContent = short(this.total.at(-1) ?? 0);
    this.cells[LATEST_HARM].textContent = `${(this.lately.at(-1) ?? 0).toFixed(2)} each`;
    this.cells["reward in all"].textContent = this.newest.totals.return.toFixed(1);
    this.cells[LATEST_REWARD].textContent = `${rewards.toFixed(2)} each`;
  }
}

export class Lanes {
  /** @param {{lanes: HTMLElement, charts: HTMLElement, look: HTMLElement}} at */
  constructor(at) {
    this.at = at;
    /** @type {Map<string, Lane>} */
    this.lanes = new Map();
    /** @type {Map<string, Curves>} */
    this.charts = new Map();
    this.run = 0;
    this.waiting = false;
    this.charted = 0; // when a chart was drawn
    this.turn = 0; // whose turn it is
    this.shown = 0; // frames drawn on the boards
    this.layers = { arrows: true, marks: true, route: true };
    this.step = 1;
    at.lanes.addEventListener("look", (event) => this.#read(event));
  }

  /** Begin a run: fresh boards, empty curves. @param {Ready} ready */
  begin(ready) {
    this.run = ready.run;
    this.at.lanes.replaceChildren();
    for (const chart of this.charts.values()) chart.end();
    this.at.lanes.dataset.count = String(ready.agents.length);
    this.at.charts.replaceChildren(legend(ready.agents));
    this.lanes = new Map(ready.agents.map((look) => [look.label, new Lane(this.at.lanes, look, ready.scene)]));
    const best = ready.scene.optimal_value;
    this.charts = new Map(
      CHARTS.map(({ key, title, note }) => {
        const card = element("section", "", "card");
        const heading = element("h3", `${title} `);
        heading.append(element("small", note));
        const chart = element("div");
        card.append(heading, chart);
        this.at.charts.append(card);
        const references = key === "value" && best !== null ? [{ value: best, name: "" }] : [];
        return [key, new Curves(chart, ready.agents, { title, height: 240, fromZero: key !== "value", references })];
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
      if (performance.now() - this.charted >= CHART_EVERY) this.#chartNext();
    });
  }

  /** Bring all charts up to date, with every episode. */
  chart() {
    for (const key of this.charts.keys()) this.#chart(key, Infinity);
  }

  #chartNext() {
    const keys = [...this.charts.keys()];
    this.turn = (this.turn + 1) % keys.length;
    this.#chart(keys[this.turn], POINTS);
  }

  /** @param {string} key @param {number} points at most, evenly spread, the newest among them */
  #chart(key, points) {
    this.charted = performance.now();
    for (const [label, lane] of this.lanes) {
      const curve = { value: lane.columns.value, lately: lane.lately, harm: lane.total }[key] ?? [];
      const stride = Math.max(1, Math.ceil(curve.length / points));
      const shown = Array.from({ length: Math.ceil(curve.length / stride) }, (_, i) => curve.length - 1 - i * stride).reverse();
      this.charts.get(key)?.setBand(label, { x: shown.map((i) => i + 1), mean: shown.map((i) => curve[i]) });
    }
  }

  /** All numbers of the run so far, as the server sent them. @returns {Record<string, Columns>} */
  numbers() {
    return Object.fromEntries([...this.lanes].map(([label, lane]) => [label, lane.columns]));
  }

  /** @param {{arrows?: boolean, marks?: boolean, route?: boolean}} layers */
  setLayers(layers) {
    this.layers = { ...this.layers, ...layers };
    for (const { board } of this.lanes.values()) board.setLayers(this.layers);
  }

  /** @param {number} step from 1 */
  setStep(step) {
    this.step = step;
    for (const { board } of this.lanes.values()) board.setStep(step);
  }

  /** @param {Event} event */
  #read(event) {
    const { cell } = /** @type {CustomEvent} */ (event).detail;
    const lane = [...this.lanes.values()].find(({ board }) => board.element === event.target);
    if (lane && cell !== null) this.at.look.textContent = `${lane.look.title}: ${lane.board.describe(cell)}`;
  }
}
