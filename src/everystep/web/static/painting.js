// @ts-check
/** The editor of the map, a lake or a racetrack: a board, painting tools, the size, and example maps. */

import { Board } from "./board.js";

/** @typedef {"lake" | "racetrack"} Kind */
const WALL = { letter: "#", name: "wall", sign: "■" };
const ENDS = [{ letter: "S", name: "start", sign: "S" }, { letter: "G", name: "goal", sign: "G" }];
/** The tools of each kind of map; the first is chosen at the beginning, `free` is what else a cell is. */
const KINDS = {
  lake: { label: "Your lake", free: "F", tools: [{ letter: "H", name: "hazard", sign: "▨" }, WALL, { letter: "F", name: "ice", sign: "□" }, ...ENDS] },
  racetrack: { label: "Your racetrack", free: ".", tools: [WALL, { letter: ".", name: "track", sign: "□" }, ...ENDS] },
};
const ACTIONS = [
  { name: "left", down: 0, right: -1 },
  { name: "down", down: 1, right: 0 },
  { name: "right", down: 0, right: 1 },
  { name: "up", down: -1, right: 0 },
];
/** @type {Record<Kind, Record<string, string[]>>} */
const MAPS = {
  lake: {
    "a cliff": ["FFFFFFFFFF", "FFFFFFFFFF", "FFFFFFFFFF", "SHHHHHHHHG"],
    "two ways around": ["FFFFFFF", "FHHHHHF", "S#####G", "FHFFFHF", "FFFHFFF"],
    "a room with doors": ["SFF#FFFF", "FFF#FHFF", "FFFFFFHF", "FHF#FFFF", "##F#F###", "FFFFFFFF", "FFH#FHFF", "FFF#FFFG"],
    "open ice": ["SFFFFFFF", ...Array(6).fill("FFFFFFFF"), "FFFFFFFG"],
  },
  racetrack: {
    "a straight": ["############", "#S........G#", "############"],
    "a hairpin": ["############", "#S.........#", "#..........#", "########...#", "########...#", "#..........#", "#G.........#", "############"],
    "a chicane": ["############", "#S....#....#", "#...#.#....#", "#...#...#..#", "#...#...#..#", "#...#...#.G#", "############"],
    "the small track": ["##########", "#S...#...#", "#....#...#", "#........#", "#....#..G#", "##########"],
  },
};

/** The scene of a map that the server has not checked yet. @param {string[]} rows @returns {Scene} */
function sketch(rows) {
  const letters = rows.join("");
  const cellsWith = (/** @type {string} */ letter) => [...letters].flatMap((found, x) => (found === letter ? [x] : []));
  return {
    name: "", rows, width: rows[0].length, height: rows.length, horizon: 1, starts: cellsWith("S"), goals: cellsWith("G"),
    hazards: cellsWith("H"), walls: cellsWith("#"), heights: null, actions: ACTIONS, top_speed: 1, safe: "", route: [], optimal_value: null,
  };
}

export class Painting {
  /**
   * @param {{editor: HTMLElement, tools: HTMLElement, preset: HTMLSelectElement, rows: HTMLInputElement, columns: HTMLInputElement}} at
   * @param {() => void} changed called after a change of the map
   */
  constructor(at, changed) {
    this.at = at;
    this.changed = changed;
    /** @type {Kind} */
    this.kind = "lake";
    this.tool = "";
    /** @type {string[]} */
    this.rows = ["SG"];
    this.maps = MAPS;
    this.side = 20;
    this.board = new Board(at.editor, sketch(this.rows), { label: KINDS.lake.label, interactive: true });
    this.#offerTools();
    at.editor.addEventListener("cell", (event) => this.#paint(/** @type {CustomEvent} */ (event).detail));
    at.preset.addEventListener("change", () => {
      if (at.preset.value) this.#alter(this.maps[this.kind][at.preset.value]);
    });
    for (const input of [at.rows, at.columns]) input.addEventListener("change", () => this.#resize());
  }

  /** @param {Record<Kind, PlaygroundRequest>} defaults the maps that the page starts with @param {number} side */
  offer(defaults, side) {
    this.side = side;
    this.maps = {
      lake: { "the paper's lake": defaults.lake.rows, ...MAPS.lake },
      racetrack: { "a bend": defaults.racetrack.rows, ...MAPS.racetrack },
    };
    this.#offerMaps();
  }

  /** Show these rows. @param {string[]} rows @param {Kind} [kind] */
  set(rows, kind = this.kind) {
    if (kind !== this.kind) {
      this.kind = kind;
      this.board.options.label = KINDS[kind].label;
      this.#offerTools();
      this.#offerMaps();
    }
    this.rows = [...rows];
    this.at.rows.value = String(rows.length);
    this.at.columns.value = String(rows[0].length);
    this.board.setScene(sketch(this.rows));
  }

  /** Show the checked map, with marks on the cells without a safe action. @param {Scene} scene @param {number[]} cells */
  understood(scene, cells) {
    this.board.setScene(scene);
    this.board.setNotes(cells);
  }

  /** Show a map that cannot be run. */
  refused() {
    this.board.setScene(sketch(this.rows));
  }

  /** @param {string[]} rows */
  #alter(rows) {
    this.set(rows);
    this.changed();
  }

  /** @param {{cell: number, drag: boolean}} detail */
  #paint({ cell }) {
    const width = this.rows[0].length;
    const cells = [...this.rows.join("")];
    if (cells[cell] === this.tool) return;
    if (this.tool === "S" && this.kind === "lake") cells.forEach((letter, x) => letter === "S" && (cells[x] = "F")); // a lake has one start
    cells[cell] = this.tool;
    this.at.preset.value = "";
    this.#alter(this.rows.map((_, i) => cells.slice(i * width, (i + 1) * width).join("")));
  }

  /** Crop the map or add free cells; a start and a goal are restored if they were cropped. */
  #resize() {
    const whole = (/** @type {HTMLInputElement} */ input) => Math.min(Math.max(Math.round(Number(input.value)) || 1, 1), this.side);
    const [height, width] = [whole(this.at.rows), whole(this.at.columns)];
    const rows = Array.from({ length: height }, (_, i) => (this.rows[i] ?? "").slice(0, width).padEnd(width, KINDS[this.kind].free));
    const cells = [...rows.join("")];
    if (!cells.includes("S")) cells[0] = "S";
    if (!cells.includes("G") && cells.length > 1) cells[cells.at(-1) === "S" ? cells.length - 2 : cells.length - 1] = "G";
    this.at.preset.value = "";
    this.#alter(rows.map((_, i) => cells.slice(i * width, (i + 1) * width).join("")));
  }

  #offerMaps() {
    this.at.preset.length = 1;
    for (const name of Object.keys(this.maps[this.kind])) this.at.preset.add(new Option(name, name));
  }

  #offerTools() {
    const { tools } = KINDS[this.kind];
    this.tool = tools[0].letter;
    this.at.tools.replaceChildren();
    this.at.tools.style.setProperty("--tools", String(tools.length));
    for (const { letter, name, sign } of tools) {
      const label = document.createElement("label");
      label.className = letter === "#" ? "wall" : letter === "." ? "F" : letter;
      const input = Object.assign(document.createElement("input"), { type: "radio", name: "tool", value: letter });
      input.checked = letter === this.tool;
      input.addEventListener("change", () => (this.tool = letter));
      const mark = document.createElement("b");
      mark.textContent = sign;
      mark.setAttribute("aria-hidden", "true");
      label.append(input, mark, name);
      this.at.tools.append(label);
    }
  }
}
