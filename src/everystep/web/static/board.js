// @ts-check
/**
 * The map of a problem on a grid as SVG, and one frame of an agent on it:
 *
 *   shade    number of visits of a cell (logarithmic)        arrow   action of the plan at the chosen step
 *   marks    one per action, on the side of its direction: dot certified safe, cross certified unsafe, ring unknown
 *   bolts    unsafe steps, on the side of their direction: bright since the previous frame, pale before
 *
 * On a racetrack an action is a move by several cells: its mark is that far from the centre, as on a map of the cells
 * around, and moves whose safety is unknown have none. A line shows where the plan leads, with a dot after each step.
 *
 * Where some state has no safe action (`scene.harm`): a diamond for each state that is not viable at the chosen step,
 * larger for more harm and filled as far as the agent estimates it. On a racetrack it is where the velocity of the state leads, and the reader may
 * choose the velocity whose plan is drawn; a dashed frame says that the state whose plan is drawn is not viable.
 *
 * Colours are CSS variables (see board.css), so dark mode needs no code. No text is ever inserted as HTML.
 *
 * Events on the element of the board: "look" {cell, or null} under the pointer or the cursor, and, if `interactive`,
 * "cell" {cell, drag} when a cell is pressed, dragged over, or chosen with Enter or Space; the arrow keys move the cursor.
 */

import { Harm, HarmBelief, harmTable, harmText } from "./harm.js";

const SVG = "http://www.w3.org/2000/svg";
const UNIT = 24;
const LABELS = ["unknown", "safe", "unsafe"];
const FEW = 9; // actions that have a large mark each

/** @param {number} r */
const dot = (r) => `M${-r},0a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0`;
export const ARROW = "M-4.2,0H1.2M4.6,0L0.6,-2.7V2.7Z";
export const MARKS = [dot(0.9), dot(1.7), "M-1.9,-1.9L1.9,1.9M1.9,-1.9L-1.9,1.9"];
const SMALL_MARKS = ["", dot(0.8), "M-1,-1L1,1M1,-1L-1,1"];
export const DIAMOND = "M0,-1.9L1.9,0L0,1.9L-1.9,0Z";
export const BOLT = "M0.9,-5L-3.2,0.9H-0.4L-0.9,5L3.2,-0.9H0.4Z";

/** @param {string} text base64 @returns {Uint8Array} */
function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) out[i] = raw.charCodeAt(i);
  return out;
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {Element} [parent]
 * @returns {SVGElement}
 */
function shape(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  parent?.append(element);
  return element;
}

/** The number of unsafe steps so far by state and action, summed over frames. */
export class ViolationCounts {
  /** @param {Scene} scene */
  constructor(scene) {
    this.actions = scene.actions.length;
    this.times = new Uint32Array(scene.width * scene.height * this.actions);
  }

  /** @param {Violation[]} violations */
  add(violations) {
    for (const [, , x, a] of violations) this.times[x * this.actions + a] += 1;
  }
}

export class Board {
  /**
   * @param {HTMLElement} element where to draw
   * @param {Scene} scene
   * @param {{label?: string, interactive?: boolean, most?: number, truth?: boolean}} [options]
   *   `most`: visits at the darkest shade; `truth`: cross out the unsafe actions, until a frame is shown
   */
  constructor(element, scene, options = {}) {
    this.element = element;
    this.options = options;
    this.step = 1;
    this.cursor = scene.starts[0] ?? 0;
    this.marksShown = true;
    this.arrowsShown = true;
    this.harmShown = true;
    /** @type {number | null} the velocity whose plan is drawn; null: in each cell the one that was visited most */
    this.velocity = null;
    /** @type {Harm | null} */
    this.harm = null;
    /** @type {HarmBelief | null} */
    this.belief = null;
    this.harmDrawn = "";
    /** @type {Frame | null} */
    this.frame = null;
    /** @type {ViolationCounts | null} */
    this.unsafe = null;
    element.classList.add("board");
    this.svg = /** @type {SVGSVGElement} */ (shape("svg", {}));
    element.append(this.svg);
    this.#listen();
    this.setScene(scene);
  }

  /** Draw another map, or a changed one, without a frame. @param {Scene} scene */
  setScene(scene) {
    this.scene = scene;
    this.frame = null;
    this.harm = scene.harm ? new Harm(scene, scene.harm) : null;
    this.belief = null;
    this.harmDrawn = "";
    this.velocity = null;
    this.unsafe = null;
    this.cursor = Math.min(this.cursor, scene.width * scene.height - 1);
    const { svg } = this;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `-1 -1 ${scene.width * UNIT + 2} ${scene.height * UNIT + 2}`);
    svg.setAttribute("role", this.options.interactive ? "application" : "img");
    if (this.options.interactive) svg.setAttribute("tabindex", "0");
    this.#name();
    this.#hatching();
    const layer = (/** @type {string} */ name) => shape("g", { class: name }, svg);
    const ground = layer("ground");
    const special = layer("special");
    this.routeLayer = layer("route");
    const arrows = layer("arrows");
    this.pathLayer = layer("path");
    const marks = layer("marks");
    this.harmLayer = layer("harms");
    this.bolts = layer("bolts");
    this.notes = layer("notes");
    this.cells = scene.rows.flatMap((row, i) => [...row].map((letter, j) => this.#cell(letter, i, j, ground, special)));
    this.drawn = this.cells.map((_, x) => ({
      heat: "",
      arrow: shape("path", { class: "arrow", visibility: "hidden" }, arrows),
      turned: "",
      marks: scene.actions.map((_, a) => shape("path", { class: "mark", visibility: "hidden", ...this.#side(x, a, 8.6) }, marks)),
      labels: scene.actions.map(() => -1),
    }));
    this.#route();
    this.#terrain();
    this.cursorBox = shape("rect", { class: "cursor", width: UNIT, height: UNIT, rx: 3 }, svg);
    this.#placeCursor();
    this.#drawHarm();
  }

  /** Show a frame; `unsafe` counts the unsafe steps of all frames up to it. @param {Frame} frame @param {ViolationCounts} [unsafe] */
  show(frame, unsafe) {
    this.frame = frame;
    this.unsafe = unsafe ?? null;
    this.belief = this.harm ? new HarmBelief(this.harm, frame) : null;
    this.cells?.forEach((cell) => cell.style.setProperty("--height", "0"));
    this.#name();
    this.redraw();
  }

  /** @param {number} step from 1 */
  setStep(step) {
    this.step = step;
    this.redraw();
  }

  /** Choose the velocity whose plan is drawn; null: in each cell the one that was visited most. @param {number | null} velocity */
  setVelocity(velocity) {
    this.velocity = velocity;
    this.redraw();
  }

  /** Choose what is drawn. @param {{marks?: boolean, arrows?: boolean, route?: boolean, harm?: boolean}} what */
  setLayers(what) {
    this.marksShown = what.marks ?? this.marksShown;
    this.arrowsShown = what.arrows ?? this.arrowsShown;
    this.harmShown = what.harm ?? this.harmShown;
    if (what.route !== undefined) this.routeLayer?.setAttribute("visibility", what.route ? "visible" : "hidden");
    this.redraw();
  }

  /** Mark cells, such as those without a safe action. @param {number[]} cells */
  setNotes(cells) {
    this.notes?.replaceChildren();
    for (const x of cells) {
      const { left, top } = this.#corner(x);
      shape("rect", { class: "note", x: left + 1.5, y: top + 1.5, width: UNIT - 3, height: UNIT - 3, rx: 3 }, this.notes);
    }
  }

  /** A description of a cell. @param {number} x @returns {string} */
  describe(x) {
    const scene = /** @type {Scene} */ (this.scene);
    const kind = { S: "start", G: "goal", H: "hazard", "#": "wall" }[this.#letter(x)] ?? "free";
    const place = `Row ${Math.floor(x / scene.width) + 1}, column ${(x % scene.width) + 1} (${kind})`;
    const { frame } = this;
    if (kind === "wall") return place;
    if (!frame) return this.harm ? `${[place, ...this.#harmFacts(x)].join(" · ")}.` : place;
    const facts = [place, `${frame.visits[x]} visits`];
    const action = scene.actions[this.#planned(x)];
    const which = this.velocity === null ? "the most frequent velocity" : "the chosen velocity";
    const when = this.#many() ? `plan at step ${this.step} and ${which}` : `plan at step ${this.step}`;
    facts.push(`${when}: ${action ? action.name : "a distribution"}`);
    facts.push(...this.#harmFacts(x));
    const labels = this.#labels();
    const A = scene.actions.length;
    if (labels) {
      for (const i of [1, 2]) {
        const names = scene.actions.filter((_, a) => labels[x * A + a] === i).map((each) => each.name);
        if (names.length) facts.push(`certified ${LABELS[i]}: ${this.#many() ? `${names.length} of ${A} moves` : names.join(", ")}`);
      }
    }
    if (this.unsafe) {
      const times = scene.actions.reduce((sum, _, a) => sum + (this.unsafe?.times[x * A + a] ?? 0), 0);
      if (times) facts.push(`${times} unsafe ${times === 1 ? "step" : "steps"} from here so far`);
    }
    return `${facts.join(" · ")}.`;
  }

  /** A table of the harm that each action leads to at a cell, or null where there is none. @param {number} x */
  harmOfActions(x) {
    const state = this.#state(x);
    return this.harm && state >= 0 ? harmTable(this.harm, this.belief, this.step, state) : null;
  }

  redraw() {
    this.#drawHarm();
    const { frame, scene } = this;
    if (!frame || !scene || !this.drawn) return;
    const labels = this.#labels();
    const A = scene.actions.length;
    const most = Math.log1p(this.options.most ?? frame.visits.reduce((top, each) => Math.max(top, each), 1));
    this.drawn.forEach((drawn, x) => {
      if (this.#letter(x) === "#") return;
      const heat = (Math.log1p(frame.visits[x]) / most).toFixed(3);
      if (heat !== drawn.heat) {
        drawn.heat = heat;
        this.cells?.[x].style.setProperty("--heat", heat);
      }
      const isGoal = this.#letter(x) === "G";
      const planned = this.#planned(x);
      const turned = `${planned}${frame.visits[x] ? "" : "?"}${this.arrowsShown && !isGoal ? "" : "-"}`;
      if (turned !== drawn.turned) {
        drawn.turned = turned;
        this.#turn(drawn.arrow, x, planned, frame.visits[x] > 0, this.arrowsShown && !isGoal);
      }
      for (let a = 0; a < A; a += 1) {
        const label = labels && this.marksShown && !isGoal ? labels[x * A + a] : -1;
        if (label !== drawn.labels[a]) {
          drawn.labels[a] = label;
          this.#mark(drawn.marks[a], label);
        }
      }
    });
    this.#drawBolts();
    this.pathLayer?.replaceChildren();
    if (frame.path && this.arrowsShown) this.#line(frame.path, this.pathLayer);
  }

  // --- parts ----------------------------------------------------------------------------------------------------------
  /** @param {number} x */
  #letter(x) {
    const scene = /** @type {Scene} */ (this.scene);
    return scene.rows[Math.floor(x / scene.width)][x % scene.width];
  }

  #policy() {
    const frame = /** @type {Frame & {bytes?: Uint8Array}} */ (this.frame);
    frame.bytes ??= bytes(frame.policy);
    return frame.bytes;
  }

  #labels() {
    const frame = /** @type {Frame & {marks?: Uint8Array}} */ (this.frame);
    if (frame.labels === null) return null;
    frame.marks ??= bytes(frame.labels);
    return frame.marks;
  }

  /** The index of (step, x) in the policy. @param {number} x */
  #at(x) {
    const scene = /** @type {Scene} */ (this.scene);
    return (Math.min(this.step, scene.horizon) - 1) * scene.width * scene.height + x;
  }

  /** The move of the plan that is drawn in a cell. @param {number} x */
  #planned(x) {
    const { harm, belief } = this;
    if (!harm || !belief || this.velocity === null) return this.#policy()[this.#at(x)];
    const state = this.#state(x);
    return state < 0 ? 255 : harm.move(state, belief.action(this.step, state));
  }

  /** The state of a cell that is drawn and described. @param {number} x */
  #state(x) {
    const { harm, frame } = this;
    if (!harm) return x;
    return this.velocity === null && frame?.typical ? frame.typical[x] : harm.state(x, this.velocity ?? harm.atStart);
  }

  /** @param {number} x */
  #harmFacts(x) {
    const { harm, belief, step } = this;
    const state = this.#state(x);
    if (!harm || state < 0) return [];
    const exact = harm.toGo(step, state);
    const believed = belief?.toGo(step, state) ?? null;
    const name = harm.velocityOf(x, state)?.name;
    const velocity = name && (name === "at rest" ? "at rest: " : `velocity ${name}: `);
    const facts = [`${velocity || ""}${exact > 0 ? "not viable" : "viable"}, least harm-to-go ${harmText(exact)}`];
    if (believed !== null) facts.push(`the agent estimates ${harmText(believed)}`);
    if (harm.velocities.length > 1) {
      const dead = harm.velocities.filter((_, v) => harm.toGo(step, harm.state(x, v)) > 0).length;
      facts.push(`${dead} of ${harm.velocities.length} velocities here are not viable`);
    }
    return facts;
  }

  /** A diamond for each state that is not viable, or believed so; a frame where that is the state whose plan is drawn. */
  #drawHarm() {
    const { harm, belief, step, harmLayer } = this;
    if (!harm || !harmLayer || !this.cells) return;
    /** @type {{x: number, v: number, exact: number, fill: number}[]} */
    const found = [];
    /** @type {{x: number, exact: number}[]} */
    const framed = [];
    this.cells.forEach((_, x) => {
      if (!this.harmShown || harm.state(x, 0) < 0) return;
      harm.velocities.forEach((_, v) => {
        const state = harm.state(x, v);
        const exact = harm.toGo(step, state);
        const believed = belief?.toGo(step, state) ?? 0;
        if (exact > 0 || believed > 0) found.push({ x, v, exact, fill: exact > 0 ? Math.min(1, believed / exact) : 1 });
      });
      const exact = harm.toGo(step, this.#state(x));
      if ((this.frame || this.velocity !== null) && exact > 0) framed.push({ x, exact });
    });
    const key = JSON.stringify([found, framed]);
    if (key === this.harmDrawn) return;
    this.harmDrawn = key;
    harmLayer.replaceChildren();
    const share = (/** @type {number} */ exact) => 0.3 + 0.7 * Math.min(1, exact / harm.most);
    for (const { x, exact } of framed) {
      const { left, top } = this.#corner(x);
      const box = { x: left + 1.6, y: top + 1.6, width: UNIT - 3.2, height: UNIT - 3.2, rx: 2.5 };
      shape("rect", { class: "dead-end", ...box, "stroke-opacity": share(exact).toFixed(2) }, harmLayer);
    }
    const fastest = /** @type {Scene} */ (this.scene).top_speed;
    const single = harm.velocities.length === 1;
    for (const { x, v, exact, fill } of found) {
      const { left, top } = this.#corner(x);
      const { down, right } = single ? { down: -fastest, right: fastest } : harm.velocities[v];
      const place = `translate(${left + UNIT / 2 + (right * 8.8) / fastest} ${top + UNIT / 2 + (down * 8.8) / fastest})`;
      const size = (single ? 1.3 : Math.min(1, 2 / fastest)) * (exact > 0 ? share(exact) : 0.3);
      const look = { class: exact > 0 ? "harm" : "harm mistaken", "fill-opacity": fill.toFixed(2) };
      shape("path", { ...look, d: DIAMOND, transform: `${place} scale(${size.toFixed(2)})` }, harmLayer);
    }
  }

  /** @param {number} x */
  #corner(x) {
    const { width } = /** @type {Scene} */ (this.scene);
    return { left: (x % width) * UNIT, top: Math.floor(x / width) * UNIT };
  }

  /** The point at distance `far` from the centre of a cell, in the direction of an action; nearer for slow moves. @param {number} x @param {number} a @param {number} far */
  #side(x, a, far) {
    const { left, top } = this.#corner(x);
    const { actions, top_speed: fastest } = /** @type {Scene} */ (this.scene);
    const { down, right } = actions[a];
    return { transform: `translate(${left + UNIT / 2 + (right * far) / fastest} ${top + UNIT / 2 + (down * far) / fastest})` };
  }

  /** Whether the actions have small marks. */
  #many() {
    return /** @type {Scene} */ (this.scene).actions.length > FEW;
  }

  #name() {
    const { scene, frame, svg } = this;
    if (!scene) return;
    const who = this.options.label ? `${this.options.label}: ` : "";
    const what = `map of ${scene.name}, ${scene.height} by ${scene.width} cells`;
    svg.setAttribute("aria-label", `${who}${what}${frame ? `, after ${frame.episode} episodes` : ""}`);
  }

  #hatching() {
    const defs = shape("defs", {}, this.svg);
    this.hatch = `hatch-${Math.random().toString(36).slice(2)}`;
    const pattern = shape("pattern", { id: this.hatch, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, defs);
    shape("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 5 }, pattern);
  }

  /**
   * @param {string} letter
   * @param {number} i
   * @param {number} j
   * @param {Element} ground
   * @param {Element} special
   */
  #cell(letter, i, j, ground, special) {
    const box = { x: j * UNIT + 0.75, y: i * UNIT + 0.75, width: UNIT - 1.5, height: UNIT - 1.5, rx: 2.5 };
    const cell = shape("rect", { ...box, class: letter === "#" ? "cell wall" : "cell" }, ground);
    const kind = { S: "start", G: "goal", H: "hazard" }[letter];
    if (kind) {
      const inner = { x: box.x + 1, y: box.y + 1, width: box.width - 2, height: box.height - 2, rx: 2 };
      const drawn = shape("rect", { ...inner, class: kind }, special);
      if (kind === "hazard") drawn.setAttribute("fill", `url(#${this.hatch})`);
      if (kind !== "hazard") {
        shape("text", { class: "letter", x: box.x + 3.2, y: box.y + 8.2 }, special).textContent = letter;
      }
    }
    return cell;
  }

  /** Heights as shades, and the truly unsafe actions; a frame hides both. */
  #terrain() {
    const scene = /** @type {Scene} */ (this.scene);
    const { heights } = scene;
    if (heights) {
      const [low, high] = [Math.min(...heights), Math.max(...heights)];
      const share = (/** @type {number} */ height) => (high > low ? (height - low) / (high - low) : 0).toFixed(3);
      this.cells?.forEach((cell, x) => cell.style.setProperty("--height", share(heights[x])));
    }
    if (!this.options.truth) return;
    const safe = bytes(scene.safe);
    this.drawn?.forEach(({ marks, labels }, x) =>
      marks.forEach((mark, a) => {
        labels[a] = this.#letter(x) === "#" || safe[x * marks.length + a] ? -1 : 2;
        this.#mark(mark, labels[a]);
      }),
    );
  }

  #route() {
    this.#line(/** @type {Scene} */ (this.scene).route, this.routeLayer);
  }

  /** A line through cells; on a racetrack with a dot on each. @param {number[]} cells @param {Element} [parent] */
  #line(cells, parent) {
    const middle = (/** @type {number} */ x) => {
      const { left, top } = this.#corner(x);
      return { cx: left + UNIT / 2, cy: top + UNIT / 2 };
    };
    const points = cells.map(middle);
    shape("polyline", { points: points.map(({ cx, cy }) => `${cx},${cy}`).join(" ") }, parent);
    if (this.#many()) for (const at of points) shape("circle", { ...at, r: 2 }, parent);
  }

  /** @param {SVGElement} arrow @param {number} x @param {number} a @param {boolean} seen @param {boolean} shown */
  #turn(arrow, x, a, seen, shown) {
    const move = /** @type {Scene} */ (this.scene).actions[a];
    arrow.setAttribute("visibility", shown && move ? "visible" : "hidden");
    if (!move) return;
    const { left, top } = this.#corner(x);
    const stays = move.down === 0 && move.right === 0;
    const angle = (Math.atan2(move.down, move.right) * 180) / Math.PI;
    arrow.setAttribute("class", seen ? "arrow" : "arrow unseen");
    arrow.setAttribute("d", stays ? "M-2.5,-2.5h5v5h-5z" : ARROW);
    const fastest = /** @type {Scene} */ (this.scene).top_speed;
    const size = fastest === 1 ? "" : ` scale(${0.5 + (0.75 * Math.max(Math.abs(move.down), Math.abs(move.right))) / fastest})`;
    arrow.setAttribute("transform", `translate(${left + UNIT / 2} ${top + UNIT / 2}) rotate(${angle})${size}`);
  }

  /** @param {SVGElement} mark @param {number} label */
  #mark(mark, label) {
    const shown = this.#many() ? label === 1 || label === 2 : label >= 0;
    mark.setAttribute("visibility", shown ? "visible" : "hidden");
    if (!shown) return;
    mark.setAttribute("class", `mark ${LABELS[label]}${this.#many() ? " small" : ""}`);
    mark.setAttribute("d", this.#many() ? SMALL_MARKS[label] : MARKS[label]);
  }

  #drawBolts() {
    const scene = /** @type {Scene} */ (this.scene);
    this.bolts?.replaceChildren();
    const A = scene.actions.length;
    const recent = new Set((this.frame?.violations ?? []).map(([, , x, a]) => x * A + a));
    const pairs = new Set(recent);
    this.unsafe?.times.forEach((times, at) => times && pairs.add(at));
    for (const at of pairs) {
      const { transform } = this.#side(Math.floor(at / A), at % A, 11.6);
      const [kind, size] = recent.has(at) ? ["bolt recent", this.#many() ? 0.8 : 1.2] : ["bolt", this.#many() ? 0.4 : 0.8];
      shape("path", { class: kind, d: BOLT, transform: `${transform} scale(${size})` }, this.bolts);
    }
  }

  #placeCursor() {
    const { left, top } = this.#corner(this.cursor);
    this.cursorBox?.setAttribute("x", String(left));
    this.cursorBox?.setAttribute("y", String(top));
  }

  /** @param {string} name @param {object} detail */
  #dispatch(name, detail) {
    this.element.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
  }

  /** The cell at a point on the screen, or null. @param {PointerEvent} event @returns {number | null} */
  #under(event) {
    const scene = /** @type {Scene} */ (this.scene);
    const box = this.svg.getScreenCTM();
    if (!box) return null;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(box.inverse());
    const [j, i] = [Math.floor(x / UNIT), Math.floor(y / UNIT)];
    return i >= 0 && j >= 0 && i < scene.height && j < scene.width ? i * scene.width + j : null;
  }

  #listen() {
    const { svg } = this;
    let drawing = false;
    /** @type {number | null} */
    let last = null;
    const press = (/** @type {PointerEvent} */ event, /** @type {boolean} */ drag) => {
      const cell = this.#under(event);
      if (cell === null || (drag && cell === last)) return;
      last = cell;
      this.cursor = cell;
      this.#placeCursor();
      this.#dispatch("cell", { cell, drag });
    };
    svg.addEventListener("pointerdown", (event) => {
      if (this.options.interactive && event.button === 0) {
        drawing = true;
        svg.setPointerCapture(event.pointerId);
        press(event, false);
      }
      this.#dispatch("look", { cell: this.#under(event) });
    });
    svg.addEventListener("pointermove", (event) => {
      if (drawing) press(event, true);
      this.#dispatch("look", { cell: this.#under(event) });
    });
    const stop = () => {
      drawing = false;
      last = null;
    };
    svg.addEventListener("pointerup", stop);
    svg.addEventListener("pointercancel", stop);
    svg.addEventListener("pointerleave", () => this.#dispatch("look", { cell: null }));
    svg.addEventListener("keydown", (event) => {
      const scene = /** @type {Scene} */ (this.scene);
      if (!this.options.interactive) return;
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        this.#dispatch("cell", { cell: this.cursor, drag: false });
        return;
      }
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!move) return;
      event.preventDefault();
      const inside = (/** @type {number} */ at, /** @type {number} */ size) => Math.min(Math.max(at, 0), size - 1);
      const i = inside(Math.floor(this.cursor / scene.width) + move[0], scene.height);
      const j = inside((this.cursor % scene.width) + move[1], scene.width);
      this.cursor = i * scene.width + j;
      this.#placeCursor();
      this.#dispatch("look", { cell: this.cursor });
    });
  }
}
