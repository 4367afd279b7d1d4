// @ts-check
/** The playground: sends the visitor's commands to the server and shows its messages. */

import { Form } from "./form.js";
import { offerVelocities } from "./harm.js";
import { Lanes } from "./lanes.js";
import { Painting } from "./painting.js";
import { asFile, command, download, link, linked } from "./sharing.js";

const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
const CHECK_DELAY = 200; // milliseconds without a change before the map is checked

/** @template {HTMLElement} T @param {string} id @param {new () => T} kind @returns {T} */
function part(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

const button = (/** @type {string} */ id) => part(id, HTMLButtonElement);
const input = (/** @type {string} */ id) => part(id, HTMLInputElement);
const status = part("status", HTMLElement);
const verdict = part("verdict", HTMLElement);
const painting = new Painting(
  {
    editor: part("editor", HTMLElement),
    tools: part("tools", HTMLElement),
    preset: part("preset", HTMLSelectElement),
    rows: input("map-rows"),
    columns: input("map-columns"),
  },
  changed,
);
const form = new Form(part("settings", HTMLFormElement), part("agents", HTMLElement), changed);
const lanes = new Lanes({
  lanes: part("lanes", HTMLElement),
  charts: part("charts", HTMLElement),
  look: part("look", HTMLElement),
  harm: part("harm-of-actions", HTMLElement),
});
const socket = new WebSocket(`ws://${location.host}/learn`);
socket.binaryType = "arraybuffer";

const state = {
  /** @type {"idle" | "preparing" | "playing" | "paused" | "finished"} */
  phase: "idle",
  /** @type {"idle" | "playing" | "paused" | "finished"} the phase before a run was requested */
  before: "idle",
  episodes: 1,
  episode: 0,
  checks: 0, // the number sent so far
  opening: -1, // the check whose settings will fill the form
  bytes: 16_384, // the largest message; the server sends its limit
  stepping: false, // one episode was requested and has not arrived
  /** @type {number | undefined} */
  timer: undefined,
  /** @type {AgentOffer[]} */
  agents: [],
  exported: "",
  hidMarks: false, // certificates, because harm-to-go is drawn in their place
  /** @type {Partial<Record<"lake" | "racetrack", PlaygroundRequest>>} what the page shows when a kind of map is chosen */
  kinds: {},
  /** @type {{at: number, episode: number}[]} of the last second */
  recent: [],
};

// --- to the server ----------------------------------------------------------------------------------------------------
/** @param {object} message */
function send(message) {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/** @returns {PlaygroundRequest} */
function currentRequest() {
  return { kind: painting.kind, name: input("name").value, rows: painting.rows, ...form.read() };
}

/** Have the server check settings. @param {unknown} settings @param {boolean} opening whether they come from a link or a file */
function check(settings, opening = false) {
  if (opening && new Blob([JSON.stringify(settings)]).size > state.bytes - 100) {
    showStatus(`These settings take more than ${state.bytes} bytes and are refused.`, true);
    return;
  }
  state.checks += 1;
  if (opening) state.opening = state.checks;
  send({ command: "check", number: state.checks, settings });
}

function changed() {
  part("command", HTMLElement).textContent = command(currentRequest(), state.agents);
  clearTimeout(state.timer);
  state.timer = setTimeout(() => check(currentRequest()), CHECK_DELAY);
}

// --- from the server --------------------------------------------------------------------------------------------------
/** @param {string} sentence @param {boolean} bad */
function showStatus(sentence, bad = false) {
  status.textContent = sentence;
  status.classList.toggle("bad", bad);
}

/** @param {typeof state.phase} phase */
function enter(phase) {
  state.phase = phase;
  state.stepping = false;
  const begun = phase === "playing" || phase === "paused";
  button("pause").disabled = !begun;
  button("pause").textContent = phase === "paused" ? "Continue" : "Pause";
  button("step").disabled = phase === "preparing" || phase === "finished";
  button("restart").disabled = phase === "idle" || phase === "preparing";
  button("export").disabled = !(phase === "finished" || (phase === "paused" && state.episode > 0));
  document.body.dataset.phase = phase;
}

/** @param {number} episode */
function reached(episode) {
  state.episode = episode;
  const now = performance.now();
  state.recent = [...state.recent.filter(({ at }) => now - at < 1000), { at: now, episode }];
  const [first] = state.recent;
  const rate = now > first.at ? ((episode - first.episode) * 1000) / (now - first.at) : 0;
  const pace = state.phase === "playing" && rate > 0 ? `, ${Math.round(rate)} per second` : "";
  part("progress", HTMLProgressElement).value = episode / state.episodes;
  part("episode", HTMLOutputElement).value = `episode ${episode} of ${state.episodes}${pace}`;
}

/** @param {PlaygroundRequest} request */
function fill(request) {
  painting.set(request.rows, request.kind);
  document.body.dataset.kind = request.kind;
  input(`kind-${request.kind}`).checked = true;
  input("name").value = request.name;
  form.write(request);
  part("command", HTMLElement).textContent = command(currentRequest(), state.agents);
}

/** @param {Verdict} message */
function showVerdict(message) {
  if (message.number === state.opening) fill(message.settings);
  else if (message.number !== state.checks) return; // the map has changed since
  verdict.classList.toggle("bad", message.event === "infeasible");
  if (message.event === "infeasible") {
    painting.refused();
    verdict.textContent = message.sentence;
  } else {
    painting.understood(message.scene, message.cells);
    const worth = message.scene.optimal_value === null ? "" : `Safe optimum ${message.scene.optimal_value.toFixed(3)} (dotted).`;
    verdict.textContent = [worth, ...message.remarks].join(" ");
  }
}

/** Whether a message is about the run on display, and no other run was requested since. @param {{run: number}} message */
function current(message) {
  return message.run === lanes.run && state.phase !== "preparing";
}

/** A run cannot start. @param {string} sentence */
function runRefused(sentence) {
  showStatus(sentence, true);
  enter("idle");
}

/** Whether certificates and harm-to-go would be drawn over each other, as on racetracks. */
const clashing = () => "velocities" in part("running", HTMLElement).dataset;

/** Controls of harm-to-go, on maps that have it. @param {Scene} scene */
function showHarmControls(scene) {
  const { dataset } = part("running", HTMLElement);
  delete dataset.harm;
  delete dataset.velocities;
  if (scene.harm) dataset.harm = "";
  if (scene.harm && scene.harm.velocities.length > 1) dataset.velocities = "";
  offerVelocities(part("velocity", HTMLSelectElement), scene.harm, "seen most");
  const marks = input("show-marks");
  if (clashing() && input("show-harm").checked && marks.checked) {
    marks.checked = false;
    state.hidMarks = true;
  } else if (!clashing() && state.hidMarks) {
    marks.checked = true;
    state.hidMarks = false;
  }
  lanes.setLayers({ marks: input("show-marks").checked });
}

/** @param {ServerMessage} message */
function receive(message) {
  switch (message.event) {
    case "hello": {
      state.bytes = message.limits.message_bytes;
      state.agents = message.agents;
      form.offer(message);
      painting.offer(message.kinds, message.limits.side);
      state.kinds = message.kinds;
      const shared = linked(location.hash);
      if (shared === undefined) showStatus("The settings in the link cannot be read; this is the paper's lake.", true);
      else showStatus("Ready.");
      fill(message.defaults);
      check(message.defaults);
      if (shared) check(shared, true);
      document.body.dataset.connected = "yes";
      enableRunning();
      break;
    }
    case "scene":
      showVerdict(message);
      break;
    case "infeasible":
      if (message.run === undefined) showVerdict(message);
      else runRefused(message.sentence);
      break;
    case "refused":
      if (message.run !== undefined) runRefused(message.sentence);
      else {
        showStatus(message.sentence, true);
        if (state.opening === state.checks) {
          state.opening = -1; // keep the settings of the page
          check(currentRequest());
        }
        if (state.phase === "preparing") enter(state.before); // the previous run continues
      }
      break;
    case "preparing":
      showStatus(`Compiling ${message.agents.length === 1 ? "the agent" : `${message.agents.length} agents`} for this size, horizon and model: a few seconds, once.`);
      break;
    case "ready":
      state.episodes = message.episodes;
      state.recent = [];
      part("empty", HTMLElement).hidden = true;
      part("running", HTMLElement).hidden = false;
      input("plan-step").max = String(message.scene.horizon);
      showHarmControls(message.scene);
      lanes.begin(message);
      enter("playing");
      reached(0);
      showStatus([`Learning on “${message.scene.name}”, seed ${message.settings.seed}.`, ...message.remarks].join(" "));
      break;
    case "frame":
      if (message.run === lanes.run) {
        lanes.take(message.agents);
        reached(message.episode);
        state.stepping = false;
      }
      send({ command: "received", frame: message.frame });
      break;
    case "paused":
    case "finished":
      if (!current(message)) break;
      enter(message.event);
      reached(message.episode);
      lanes.chart();
      showStatus(message.event === "paused" ? "Paused." : "All episodes are done.");
      break;
    case "exporting":
      showStatus("Writing the run folder with its figures …");
      break;
    case "exported":
      state.exported = message.name;
      showStatus(`Exported: ${message.name}, ${Math.ceil(message.bytes / 1024)} KB.`);
      break;
  }
}

socket.addEventListener("message", ({ data }) => {
  if (typeof data === "string") receive(JSON.parse(data));
  else download(state.exported, new Blob([data], { type: "application/zip" }));
});
socket.addEventListener("close", ({ reason }) => {
  enter("idle");
  for (const id of ["run", "step", "restart", "export"]) button(id).disabled = true;
  showStatus(`The connection to the server is closed${reason ? `: ${reason}` : ""}. Start the server again and reload this page.`, true);
});

// --- from the visitor -------------------------------------------------------------------------------------------------
function start() {
  clearTimeout(state.timer);
  check(currentRequest());
  state.before = state.phase === "preparing" ? "idle" : state.phase;
  enter("preparing");
  showStatus("Preparing …");
  send({ command: "start", settings: currentRequest() });
}

button("run").addEventListener("click", start);
button("pause").addEventListener("click", () => {
  const resume = state.phase === "paused";
  send({ command: resume ? "play" : "pause" });
  if (!resume) return;
  enter("playing");
  showStatus("Continued.");
});
button("step").addEventListener("click", () => {
  if (state.stepping) return; // a key held down repeats faster than episodes run
  if (state.phase === "idle") {
    start();
    send({ command: "pause" });
  }
  state.stepping = true;
  send({ command: "step" });
});
button("restart").addEventListener("click", () => {
  enter("preparing");
  send({ command: "restart" });
});
button("export").addEventListener("click", () => send({ command: "export" }));

const speed = input("speed");
speed.max = String(SPEEDS.length - 1);
speed.value = String(SPEEDS.indexOf(200));
const showSpeed = () => {
  part("speed-shown", HTMLOutputElement).value = `${SPEEDS[Number(speed.value)]} episodes/s`;
};
speed.addEventListener("input", () => {
  showSpeed();
  send({ command: "speed", rate: SPEEDS[Number(speed.value)] });
});
showSpeed();

/** Enable the run buttons when Plotly, which is large, and the engine are loaded; the lake can be painted before. */
function enableRunning() {
  const missing = document.readyState !== "complete" || !document.body.dataset.connected || socket.readyState !== WebSocket.OPEN;
  button("run").disabled = missing;
  button("step").disabled = missing;
}
window.addEventListener("load", enableRunning);
for (const kind of /** @type {const} */ (["lake", "racetrack"])) {
  input(`kind-${kind}`).addEventListener("change", () => {
    state.kinds[painting.kind] = currentRequest(); // it returns with its kind
    const request = state.kinds[kind];
    if (!request) return;
    fill(request);
    check(request);
  });
}
if (window.matchMedia("(max-width: 900px)").matches) part("more", HTMLDetailsElement).open = false; // shows the run button without scrolling
input("name").addEventListener("input", changed);
input("plan-step").addEventListener("input", () => lanes.setStep(Math.max(1, input("plan-step").valueAsNumber || 1)));
part("velocity", HTMLSelectElement).addEventListener("change", () => {
  const chosen = part("velocity", HTMLSelectElement).value;
  lanes.setVelocity(chosen === "" ? null : Number(chosen));
});
for (const layer of ["arrows", "marks", "route", "harm"]) {
  input(`show-${layer}`).addEventListener("change", ({ target }) => {
    const { checked } = /** @type {HTMLInputElement} */ (target);
    const other = { marks: "harm", harm: "marks" }[layer];
    const clash = other && checked && clashing() ? other : null;
    if (clash) input(`show-${clash}`).checked = false;
    lanes.setLayers({ [layer]: checked, ...(clash ? { [clash]: false } : {}) });
  });
}

button("copy-link").addEventListener("click", async () => {
  const address = link(currentRequest());
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(address);
    showStatus("The link is copied.");
  } catch {
    showStatus("The link is in the address bar.");
  }
});
button("save-file").addEventListener("click", () => download("lake.json", asFile(currentRequest())));
button("open-file").addEventListener("click", () => input("file").click());
input("file").addEventListener("change", async () => {
  const [file] = input("file").files ?? [];
  input("file").value = "";
  if (!file) return;
  try {
    if (file.size > state.bytes) throw new Error();
    check(JSON.parse(await file.text()), true);
  } catch {
    showStatus(`The file cannot be read: it must be JSON of at most ${state.bytes} bytes, as this page saves it.`, true);
  }
});
window.addEventListener("hashchange", () => {
  const shared = linked(location.hash);
  if (shared) check(shared, true);
  else if (shared === undefined) showStatus("The settings in the link cannot be read.", true);
});

/** For the console: all numbers of the run, its number, and the number of drawn frames. */
Object.assign(window, { everystep: { numbers: () => lanes.numbers(), run: () => lanes.run, frames: () => lanes.shown } });
