// @ts-check
/** Settings as a link, as a file, and as a command. What comes back from a link or a file is checked by the server. */

/** The link that opens this page with these settings. @param {Wish} wish */
export function link(wish) {
  const raw = new TextEncoder().encode(JSON.stringify(wish));
  const text = btoa(String.fromCharCode(...raw)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return `${location.origin}${location.pathname}#${text}`;
}

/** What the fragment of a link holds; null of none, undefined of one that holds nothing. @param {string} fragment @returns {unknown} */
export function linked(fragment) {
  const text = fragment.replace(/^#/, "");
  if (!text) return null;
  try {
    const raw = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(raw)) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Hand the visitor a file. @param {string} name @param {Blob} content */
export function download(name, content) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(content);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

/** @param {Wish} wish */
export function asFile(wish) {
  return new Blob([`${JSON.stringify(wish, null, 2)}\n`], { type: "application/json" });
}

/** What to type to run the same without a browser. @param {Wish} wish @returns {string} */
export function command(wish) {
  const quoted = (/** @type {unknown} */ value) => (/^[\w.=-]+$/.test(String(value)) ? String(value) : `'${value}'`);
  const told = wish.agents.filter((name) => /^r?slucb-qvi$/.test(name)).map((name) => `--set ${name}.safe_action=safest`);
  const set = Object.entries(wish.settings).map(([key, value]) => `--set ${quoted(`${key}=${value}`)}`);
  const usual = wish.slip === 0.1;
  const problem = usual ? "map.txt" : "problem.npz";
  const lines = [
    `everystep run --problem ${problem}${usual ? ` --horizon ${wish.horizon}` : ""}`,
    `  --agents ${wish.agents.join(",")} --episodes ${wish.episodes}`,
    `  --seeds 1 --seed0 ${wish.seed} ${[...told, ...set, "--out out/mine"].join(" ")}`,
  ];
  const hint = usual ? "# map.txt holds the rows of the map:" : "# problem.npz is in the exported run folder, because of the slip";
  return `${hint}\n${usual ? wish.rows.map((row) => `#   ${row}`).join("\n") + "\n" : ""}${lines.join(" \\\n")}`;
}
