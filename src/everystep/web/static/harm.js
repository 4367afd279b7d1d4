// @ts-check
/**
 * Harm-to-go, on maps with states that have no safe action (see harm.py): the exact G*_h(x, a), from which the viable
 * states follow, and what an agent believes. x is a state: on a racetrack a cell and a velocity.
 */

/** @param {string} text base64 of little-endian numbers @returns {ArrayBuffer} */
function decoded(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}

/** An amount of harm with two decimals; a positive one is never shown as 0. @param {number} amount */
export function harmText(amount) {
  if (amount === 0) return "0";
  return amount < 0.005 ? "< 0.01" : amount.toFixed(2);
}

/** The exact harm-to-go on a map. */
export class Harm {
  /** @param {Scene} scene @param {SceneHarm} harm */
  constructor(scene, harm) {
    this.velocities = harm.velocities;
    this.actions = harm.actions;
    this.names = scene.actions.map(({ name }) => name);
    this.cells = scene.width * scene.height;
    this.steps = harm.steps;
    this.states = harm.states;
    this.atStart = harm.at_start;
    this.values = new Float32Array(decoded(harm.value));
    this.moves = new Uint8Array(decoded(harm.moves));
    this.size = this.moves.length; // S * A
    const A = this.actions;
    this.least = Float32Array.from({ length: this.values.length / A }, (_, i) => Math.min(...this.values.subarray(i * A, (i + 1) * A)));
    this.most = this.least.reduce((top, each) => Math.max(top, each), 0);
  }

  /** The state of a cell at a velocity, -1 for a wall. @param {number} cell @param {number} velocity */
  state(cell, velocity) {
    return this.states[velocity * this.cells + cell];
  }

  /** The velocity of a state in a cell. @param {number} cell @param {number} x */
  velocityOf(cell, x) {
    return this.velocities[this.velocities.findIndex((_, v) => this.state(cell, v) === x)];
  }

  /** G*_h(x, a). @param {number} h from 1 @param {number} x @param {number} a */
  ofAction(h, x, a) {
    return this.values[this.steps[Math.min(h, this.steps.length) - 1] * this.size + x * this.actions + a];
  }

  /** C*_h(x). @param {number} h from 1 @param {number} x */
  toGo(h, x) {
    return this.least[(this.steps[Math.min(h, this.steps.length) - 1] * this.size) / this.actions + x];
  }

  /** The number of the move that an action is. @param {number} x @param {number} a */
  move(x, a) {
    return a < this.actions ? this.moves[x * this.actions + a] : a;
  }
}

/** What an agent believes after a frame: its plan by states, and Ghat, if it looks ahead. */
export class HarmBelief {
  /** @param {Harm} exact @param {Frame} frame */
  constructor(exact, frame) {
    this.exact = exact;
    this.states = exact.size / exact.actions;
    this.plan = new Uint8Array(decoded(frame.actions ?? ""));
    this.ofPlan = frame.harm?.of_plan ?? false;
    /** @type {Map<number, number> | null} */
    this.positive = null;
    if (!frame.harm) return;
    const values = new Float32Array(decoded(frame.harm.value));
    this.positive = new Map(Array.from(new Uint32Array(decoded(frame.harm.at)), (at, i) => [at, values[i]]));
  }

  /** The action of the plan, or 255 for a distribution. @param {number} h from 1 @param {number} x */
  action(h, x) {
    return this.plan[(Math.min(h, this.exact.steps.length) - 1) * this.states + x];
  }

  /** Ghat_h(x, a); null for an agent that does not look ahead. @param {number} h from 1 @param {number} x @param {number} a */
  ofAction(h, x, a) {
    if (!this.positive) return null;
    return this.positive.get(((Math.min(h, this.exact.steps.length) - 1) * this.states + x) * this.exact.actions + a) ?? 0;
  }

  /** C_h(x). @param {number} h from 1 @param {number} x */
  toGo(h, x) {
    if (!this.positive) return null;
    if (this.ofPlan) return this.ofAction(h, x, this.action(h, x));
    let least = Infinity;
    for (let a = 0; a < this.exact.actions && least > 0; a += 1) least = Math.min(least, this.ofAction(h, x, a) ?? 0);
    return least;
  }
}

/** A table of the harm that each action of a state leads to. @param {Harm} exact @param {HarmBelief | null} belief @param {number} h @param {number} x */
export function harmTable(exact, belief, h, x) {
  const table = document.createElement("table");
  table.className = "harm-table";
  const row = (/** @type {string[]} */ texts, /** @type {"td" | "th"} */ tag, chosen = false) => {
    const line = document.createElement("tr");
    if (chosen) line.className = "chosen";
    texts.forEach((text, i) => {
      const cell = document.createElement(i === 0 ? "th" : tag);
      cell.textContent = text;
      if (i > 0) cell.className = "number";
      line.append(cell);
    });
    table.append(line);
  };
  const ofAgent = (/** @type {number | null} */ amount) => (amount === null ? "–" : harmText(amount));
  row(["harm of", "estimated Ĝ", "exact G*"], "th");
  for (let a = 0; a < exact.actions; a += 1) {
    const name = exact.names[exact.move(x, a)];
    const chosen = belief?.action(h, x) === a;
    row([chosen ? `${name} (plan)` : name, ofAgent(belief?.ofAction(h, x, a) ?? null), harmText(exact.ofAction(h, x, a))], "td", chosen);
  }
  row(["harm-to-go C", ofAgent(belief?.toGo(h, x) ?? null), harmText(exact.toGo(h, x))], "td");
  return table;
}

/** Offer the velocities of a map, after the one seen most. @param {HTMLSelectElement} select @param {SceneHarm | undefined} harm @param {string} first */
export function offerVelocities(select, harm, first) {
  const names = harm && harm.velocities.length > 1 ? harm.velocities.map(({ name }) => name) : [];
  select.replaceChildren(...[first, ...names].map((name, i) => new Option(name, i ? String(i - 1) : "")));
}
