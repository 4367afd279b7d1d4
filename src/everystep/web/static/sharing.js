// @ts-check
/** A request as a link, as a file, and as a command. The server checks what comes from a link or a file. */

/** The link that opens this page with these settings. @param {PlaygroundRequest} request */
export function link(request) {
  const raw = new TextEncoder().encode(JSON.stringify(request));
  const text = btoa(String.fromCharCode(...raw)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return `${location.origin}${location.pathname}#${text}`;
}

/** The content of a link's fragment; null without a fragment, undefined if it cannot be read. @param {string} fragment @returns {unknown} */
export function linked(fragment) {
  const text = fragment.replace(/^#/, "");
  if (!text) return null;
  try {
    const raw = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(raw)) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Offer a file for download. @param {string} name @param {Blob} content */
export function download(name, content) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(content);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

/** @param {PlaygroundRequest} request */
export function asFile(request) {
  return new Blob([`${JSON.stringify(request, null, 2)}\n`], { type: "application/json" });
}

/**
 * The command that runs the same without a browser.
 * @param {PlaygroundRequest} request
 * @param {AgentOffer[]} agents
 * @returns {string}
 */
export function command(request, agents) {
  const quoted = (/** @type {unknown} */ value) => (/^[\w.=-]+$/.test(String(value)) ? String(value) : `'${value}'`);
  const required = agents
    .filter(({ label }) => request.agents.includes(label))
    .flatMap(({ label, required: own }) => Object.entries(own).map(([key, value]) => `--set ${label}.${key}=${value}`));
  const set = Object.entries(request.settings).map(([key, value]) => `--set ${quoted(`${key}=${value}`)}`);
  const track = request.kind === "racetrack";
  const usual = track ? request.top_speed === 2 && request.failure === 0 : request.slip === 0.1;
  const map = track ? "map.track" : "map.txt";
  const problem = usual ? map : "problem.npz";
  const lines = [
    `everystep run --problem ${problem}${usual ? ` --horizon ${request.horizon}` : ""}`,
    `  --agents ${request.agents.join(",")} --episodes ${request.episodes}`,
    `  --seeds ${request.seed}:${request.seed + 1} ${[...required, ...set, "--out out/mine"].join(" ")}`,
  ];
  const other = track ? "the top speed and failures" : "the slip";
  const hint = usual ? `# ${map} holds the rows of the map:` : `# problem.npz is in the exported run folder; a map file cannot hold ${other}`;
  return `${hint}\n${usual ? request.rows.map((row) => `#   ${row}`).join("\n") + "\n" : ""}${lines.join(" \\\n")}`;
}
