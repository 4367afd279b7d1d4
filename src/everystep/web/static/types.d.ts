/** The data that Python passes to the pages (see watch.py), and the part of Plotly that they use. */

interface SceneAction {
  name: string;
  down: number;
  right: number;
}

interface Scene {
  name: string;
  rows: string[];
  width: number;
  height: number;
  horizon: number;
  starts: number[];
  goals: number[];
  hazards: number[];
  walls: number[];
  heights: number[] | null;
  /** what actions do on the map; on a racetrack, moves by up to top_speed cells */
  actions: SceneAction[];
  top_speed: number;
  /** base64 of bytes (S * A): 1 where an action is truly safe at every step */
  safe: string;
  /** the most likely path of the safe optimal policy, H + 1 states; empty if there is none */
  route: number[];
  optimal_value: number | null;
  /** only where some state has no safe action */
  harm?: SceneHarm;
}

/** The exact harm-to-go G*_h(x, a), by states x and actions a of the problem. */
interface SceneHarm {
  /** which of the tables in `value` each step has */
  steps: number[];
  /** base64 of floats (tables * S * A) */
  value: string;
  /** what the states of a cell differ in; one without a name where a state is a cell */
  velocities: SceneAction[];
  /** the velocity of the start */
  at_start: number;
  /** (velocities * cells): the state, or -1 */
  states: number[];
  /** their number */
  actions: number;
  /** base64 of bytes (S * A): the move that an action is */
  moves: string;
}

/** [episode, step, state, action, amount]; episode and step from 1. */
type Violation = [number, number, number, number, number];

interface Frame {
  episode: number;
  visits: number[];
  /** base64 of bytes (H * S): the action of the plan at each step and state */
  policy: string;
  /** base64 of bytes (S * A): 0 unknown, 1 safe, 2 unsafe, 3 no such move; null for agents without a cost model */
  labels: string | null;
  /** the cells of the most likely episode of the plan; null on a lake, where arrows show it */
  path: number[] | null;
  violations: Violation[];
  totals: Record<string, number>;
  /** only if the scene has `harm`: base64 of bytes (H * S), the action of the plan at each step and state */
  actions?: string;
  /** the state of each cell whose plan is drawn, or -1 */
  typical?: number[];
  /** positive Ghat_h(x, a): base64 of their places in (H, S, A) and of floats; null for agents that do not look ahead */
  harm?: { at: string; value: string; of_plan: boolean } | null;
}

/** The colour and dash of an agent, the same on every page and in every figure. */
interface Look {
  label: string;
  title: string;
  colour: string;
  dash: string;
}

type Numbers = number[] | Float64Array | Float32Array | Int32Array;

interface Band {
  x: Numbers;
  mean: Numbers;
  low?: Numbers;
  high?: Numbers;
}

declare const Plotly: {
  purge(element: HTMLElement): void;
  react(element: HTMLElement, traces: object[], layout: object, config: object): Promise<unknown>;
  relayout(element: HTMLElement, changes: object): Promise<unknown>;
};
