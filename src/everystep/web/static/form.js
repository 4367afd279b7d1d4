// @ts-check
/** The form of settings, filled from a request and read as one. Empty fields mean `auto` and are not sent. */

import { dress } from "./curves.js";

const NUMBERS = /** @type {const} */ (["slip", "top_speed", "failure", "horizon", "episodes", "seed"]);
const WIDTHS = /** @type {const} */ (["beta", "lam", "beta_cost", "lam_cost"]);
const SHARED = /** @type {const} */ (["share_values", "share_costs"]);
/** @type {Record<string, string>} */
const COST_NAMES = {
  auto: "counts per state-action pair",
  gp: "Gaussian process over target cells",
  "gp(rbf(2, on=landing))": "Gaussian process, smooth over targets",
  "gp(rbf(2, on=position)*categorical)": "Gaussian process, smooth over positions",
};

export class Form {
  /** @param {HTMLFormElement} form @param {HTMLElement} agents @param {() => void} changed */
  constructor(form, agents, changed) {
    this.form = form;
    this.agents = agents;
    this.most = 4;
    /** @type {PlaygroundRequest["kind"]} */
    this.kind = "lake";
    form.addEventListener("input", () => {
      this.#show();
      changed();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** @param {Hello} hello */
  offer(hello) {
    this.most = hello.limits.agents;
    for (const { label, title, colour, dash, needs, summary, required } of hello.agents) {
      const row = document.createElement("label");
      const input = Object.assign(document.createElement("input"), { type: "checkbox", name: "agent", value: label });
      input.dataset.safe = required.safe_action ? "yes" : ""; // requires a safe action in every state
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      dress(swatch, colour, dash);
      const name = document.createElement("span");
      name.textContent = title;
      const about = document.createElement("small");
      about.textContent = needs === "nothing" ? summary : `${summary}; requires ${needs}`;
      row.append(input, swatch, name, about);
      this.agents.append(row);
    }
    for (const [name, help] of Object.entries(hello.settings)) this.#input(name).title = help;
    for (const model of hello.cost_models) this.#select("cost").add(new Option(COST_NAMES[model] ?? model, model));
  }

  /** @param {PlaygroundRequest} request */
  write(request) {
    this.kind = request.kind;
    for (const name of NUMBERS) this.#input(name).value = String(request[name]);
    const { settings } = request;
    const text = (/** @type {number | "auto" | undefined} */ value) => (value === undefined || value === "auto" ? "" : String(value));
    for (const name of WIDTHS) this.#input(name).value = text(settings[name]);
    for (const name of SHARED) {
      const value = settings[name];
      this.#select(name).value = value === true ? "yes" : value === false ? "no" : "auto";
    }
    this.#input("optimism").value = String(settings.optimism ?? 1);
    this.#select("cost").value = settings.cost ?? "auto";
    this.#select("known_safe").value = settings.known_safe ?? "none";
    this.#input("react").checked = settings.react ?? false;
    for (const box of this.#boxes()) box.checked = request.agents.includes(box.value);
    this.#show();
  }

  /** Everything except the map. @returns {Omit<PlaygroundRequest, "kind" | "name" | "rows">} */
  read() {
    const number = (/** @type {string} */ name) => this.#input(name).valueAsNumber;
    /** @type {Settings} */
    const settings = {};
    for (const name of WIDTHS) if (this.#input(name).value !== "") settings[name] = number(name);
    for (const name of SHARED) {
      const { value } = this.#select(name);
      if (value !== "auto") settings[name] = value === "yes";
    }
    if (number("optimism") !== 1) settings.optimism = number("optimism");
    if (this.#select("cost").value !== "auto") settings.cost = this.#select("cost").value;
    if (this.#select("known_safe").value !== "none") settings.known_safe = this.#select("known_safe").value;
    if (this.#input("react").checked) settings.react = true;
    const agents = this.#boxes().filter((box) => box.checked).map((box) => box.value);
    return {
      slip: number("slip"), top_speed: number("top_speed"), failure: number("failure"), horizon: number("horizon"),
      episodes: number("episodes"), seed: number("seed"), agents, settings,
    };
  }

  #show() {
    const shown = /** @type {HTMLOutputElement} */ (this.form.elements.namedItem("optimism_shown"));
    shown.value = this.#input("optimism").valueAsNumber.toFixed(2);
    const full = this.#boxes().filter((box) => box.checked).length >= this.most;
    for (const box of this.#boxes()) {
      const impossible = this.kind === "racetrack" && box.dataset.safe === "yes"; // at some velocities no action is safe
      box.disabled = !box.checked && (full || impossible);
      box.title = impossible ? "requires a safe action in every state, which a racetrack does not have" : "";
    }
  }

  /** @param {string} name */
  #input(name) {
    return /** @type {HTMLInputElement} */ (this.form.elements.namedItem(name));
  }

  /** @param {string} name */
  #select(name) {
    return /** @type {HTMLSelectElement} */ (this.form.elements.namedItem(name));
  }

  #boxes() {
    return /** @type {HTMLInputElement[]} */ ([...this.agents.querySelectorAll("input")]);
  }
}
