// @ts-check
/** The playground: what the visitor does goes to the server, what the server says is shown. */

import { Form } from "./form.js";
import { Lanes } from "./lanes.js";
import { Painting } from "./painting.js";
import { asFile, command, download, link, linked } from "./sharing.js";

const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
const SETTLED = 200; // milliseconds without a change before the map is checked

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
const lanes = new Lanes({ lanes: part("lanes", HTMLElement), charts: part("charts", HTMLElement), look: part("look", HTMLElement) });
const socket = new WebSocket(`ws://${location.host}/learn`);
socket.binaryType = "arraybuffer";

const state = {
  /** @type {"idle" | "preparing" | "playing" | "paused" | "over"} */
  phase: "idle",
  /** @type {"idle" | "playing" | "paused" | "over"} what it was before a run was asked for */
  before: "idle",
  episodes: 1,
  episode: 0,
  checks: 0, // sent so far
  opening: -1, // the check whose settings are to fill the form
  bytes: 16_384, // of a message, at most; the server says
  stepping: false, // one episode was asked for, and is not here yet
  /** @type {number | undefined} */
  timer: undefined,
  exported: "",
  /** @type {{at: number, episode: number}[]} of the last second */
  paced: [],
};

// --- to the server ----------------------------------------------------------------------------------------------------
/** @param {object} message */
function send(message) {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/** @returns {Wish} */
function wished() {
  return { name: input("name").value, rows: painting.rows, ...form.read() };
}

/** Ask what is to be said of settings. @param {unknown} settings @param {boolean} opening whether they came from outside */
function check(settings, opening = false) {
  if (opening && new Blob([JSON.stringify(settings)]).size > state.bytes - 100) {
    say(`These are no settings: they take more than ${state.bytes} bytes.`, true);
    return;
  }
  state.checks += 1;
  if (opening) state.opening = state.checks;
  send({ do: "check", number: state.checks, settings });
}

function changed() {
  part("command", HTMLElement).textContent = command(wished());
  clearTimeout(state.timer);
  state.timer = setTimeout(() => check(wished()), SETTLED);
}

// --- from the server --------------------------------------------------------------------------------------------------
/** @param {string} sentence @param {boolean} bad */
function say(sentence, bad = false) {
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
  button("step").disabled = phase === "preparing" || phase === "over";
  button("restart").disabled = phase === "idle" || phase === "preparing";
  button("export").disabled = !(phase === "over" || (phase === "paused" && state.episode > 0));
  document.body.dataset.phase = phase;
}

/** @param {number} episode */
function reached(episode) {
  state.episode = episode;
  const now = performance.now();
  state.paced = [...state.paced.filter(({ at }) => now - at < 1000), { at: now, episode }];
  const [first] = state.paced;
  const rate = now > first.at ? ((episode - first.episode) * 1000) / (now - first.at) : 0;
  const pace = state.phase === "playing" && rate > 0 ? `, ${Math.round(rate)} a second` : "";
  part("progress", HTMLProgressElement).value = episode / state.episodes;
  part("episode", HTMLOutputElement).value = `episode ${episode} of ${state.episodes}${pace}`;
}

/** @param {Wish} wish */
function fill(wish) {
  painting.set(wish.rows);
  input("name").value = wish.name;
  form.write(wish);
  part("command", HTMLElement).textContent = command(wished());
}

/** @param {Verdict} said */
function judged(said) {
  if (said.number === state.opening) fill(said.settings);
  else if (said.number !== state.checks) return; // the visitor has gone on painting
  verdict.classList.toggle("bad", said.say === "infeasible");
  if (said.say === "infeasible") {
    painting.marked(said.cells);
    verdict.textContent = said.sentence;
  } else {
    painting.understood(said.scene);
    const worth = said.scene.optimal_value === null ? "" : `Best safe value ${said.scene.optimal_value.toFixed(3)} (dotted).`;
    verdict.textContent = [worth, ...said.remarks].join(" ");
  }
}

/** Whether it is said of the run that is shown, and no other was asked for since. @param {{run: number}} said */
function current(said) {
  return said.run === lanes.run && state.phase !== "preparing";
}

/** A run cannot begin. @param {string} sentence */
function stopped(sentence) {
  say(sentence, true);
  enter("idle");
}

/** @param {Said} said */
function heard(said) {
  switch (said.say) {
    case "hello": {
      state.bytes = said.limits.message_bytes;
      form.offer(said);
      painting.offer(said.defaults, said.limits.side);
      const shared = linked(location.hash);
      if (shared === undefined) say("The link holds no settings that can be read; this is the paper's lake.", true);
      else say("Ready.");
      fill(said.defaults);
      check(said.defaults);
      if (shared) check(shared, true);
      document.body.dataset.connected = "yes";
      ready();
      break;
    }
    case "scene":
      judged(said);
      break;
    case "infeasible":
      if (said.run === undefined) judged(said);
      else stopped(said.sentence);
      break;
    case "refused":
      if (said.run !== undefined) stopped(said.sentence);
      else {
        say(said.sentence, true);
        if (state.opening === state.checks) {
          state.opening = -1; // what came from outside is not taken: what is on the page is still there
          check(wished());
        }
        if (state.phase === "preparing") enter(state.before); // what ran before goes on
      }
      break;
    case "preparing":
      say(`Compiling ${said.agents.length === 1 ? "the agent" : `${said.agents.length} agents`} for this size, horizon and model: some seconds, once.`);
      break;
    case "ready":
      state.episodes = said.episodes;
      state.paced = [];
      part("empty", HTMLElement).hidden = true;
      part("running", HTMLElement).hidden = false;
      input("plan-step").max = String(said.scene.horizon);
      lanes.begin(said);
      enter("playing");
      reached(0);
      say([`Learning on “${said.scene.name}”, seed ${said.settings.seed}.`, ...said.remarks].join(" "));
      break;
    case "frame":
      if (said.run === lanes.run) {
        lanes.take(said.agents);
        reached(said.episode);
        state.stepping = false;
      }
      send({ do: "shown", frame: said.frame });
      break;
    case "paused":
      if (!current(said)) break;
      enter("paused");
      reached(said.episode);
      lanes.chart();
      say("Paused.");
      break;
    case "over":
      if (!current(said)) break;
      enter("over");
      reached(said.episode);
      lanes.chart();
      say("All episodes are run.");
      break;
    case "exporting":
      say("Making the run folder, with its figures …");
      break;
    case "exported":
      state.exported = said.name;
      say(`Exported: ${said.name}, ${Math.ceil(said.bytes / 1024)} KB.`);
      break;
  }
}

socket.addEventListener("message", ({ data }) => {
  if (typeof data === "string") heard(JSON.parse(data));
  else download(state.exported, new Blob([data], { type: "application/zip" }));
});
socket.addEventListener("close", ({ reason }) => {
  enter("idle");
  for (const id of ["run", "step", "restart", "export"]) button(id).disabled = true;
  say(`The server has gone${reason ? `: ${reason}` : ""}. Start it again and reload this page.`, true);
});

// --- from the visitor -------------------------------------------------------------------------------------------------
function start() {
  clearTimeout(state.timer);
  check(wished());
  state.before = state.phase === "preparing" ? "idle" : state.phase;
  enter("preparing");
  say("Preparing …");
  send({ do: "start", settings: wished() });
}

button("run").addEventListener("click", start);
button("pause").addEventListener("click", () => {
  const going = state.phase === "paused";
  send({ do: going ? "play" : "pause" });
  if (!going) return;
  enter("playing");
  say("Going on.");
});
button("step").addEventListener("click", () => {
  if (state.stepping) return; // a key that is held down asks more often than episodes come
  if (state.phase === "idle") {
    start();
    send({ do: "pause" });
  }
  state.stepping = true;
  send({ do: "step" });
});
button("restart").addEventListener("click", () => {
  enter("preparing");
  send({ do: "restart" });
});
button("export").addEventListener("click", () => send({ do: "export" }));

const speed = input("speed");
speed.max = String(SPEEDS.length - 1);
speed.value = String(SPEEDS.indexOf(200));
const showSpeed = () => {
  part("speed-shown", HTMLOutputElement).value = `${SPEEDS[Number(speed.value)]} episodes/s`;
};
speed.addEventListener("input", () => {
  showSpeed();
  send({ do: "speed", rate: SPEEDS[Number(speed.value)] });
});
showSpeed();

/** Plotly is large and comes late, and so does the engine: until both are there, there is a lake to paint. */
function ready() {
  const missing = document.readyState !== "complete" || !document.body.dataset.connected || socket.readyState !== WebSocket.OPEN;
  button("run").disabled = missing;
  button("step").disabled = missing;
}
window.addEventListener("load", ready);
if (window.matchMedia("(max-width: 900px)").matches) part("more", HTMLDetailsElement).open = false; // run comes first there
input("name").addEventListener("input", changed);
input("plan-step").addEventListener("input", () => lanes.setStep(Math.max(1, input("plan-step").valueAsNumber || 1)));
for (const layer of ["arrows", "marks", "route"]) {
  input(`show-${layer}`).addEventListener("change", ({ target }) => {
    lanes.setLayers({ [layer]: /** @type {HTMLInputElement} */ (target).checked });
  });
}

button("copy-link").addEventListener("click", async () => {
  const address = link(wished());
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(address);
    say("The link is copied.");
  } catch {
    say("The link is in the address bar.");
  }
});
button("save-file").addEventListener("click", () => download("lake.json", asFile(wished())));
button("open-file").addEventListener("click", () => input("file").click());
input("file").addEventListener("change", async () => {
  const [file] = input("file").files ?? [];
  input("file").value = "";
  if (!file) return;
  try {
    if (file.size > state.bytes) throw new Error();
    check(JSON.parse(await file.text()), true);
  } catch {
    say(`The file holds no settings: it must be JSON of at most ${state.bytes} bytes, as this page saves it.`, true);
  }
});
window.addEventListener("hashchange", () => {
  const shared = linked(location.hash);
  if (shared) check(shared, true);
  else if (shared === undefined) say("The link holds no settings that can be read.", true);
});

/** For the console: all numbers of the run, which run it is, and how many frames were drawn. */
Object.assign(window, { everystep: { numbers: () => lanes.numbers(), run: () => lanes.run, frames: () => lanes.shown } });
