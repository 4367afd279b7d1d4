/** The messages of the playground's server (see sessions.py), and a visitor's request (see protocol.py). */

interface Settings {
  beta?: number | "auto";
  lam?: number | "auto";
  beta_cost?: number | "auto";
  lam_cost?: number | "auto";
  optimism?: number;
  share_values?: boolean | "auto";
  share_costs?: boolean | "auto";
  cost?: string;
  known_safe?: string;
  react?: boolean;
}

interface PlaygroundRequest {
  kind: "lake" | "racetrack";
  name: string;
  rows: string[];
  /** on a lake */
  slip: number;
  /** on a racetrack */
  top_speed: number;
  failure: number;
  horizon: number;
  agents: string[];
  episodes: number;
  seed: number;
  settings: Settings;
}

interface Limits {
  side: number;
  horizon: number;
  top_speed: number;
  episodes: number;
  agents: number;
  name: number;
  rate: number;
  visitors: number;
  message_bytes: number;
}

interface AgentOffer extends Look {
  needs: string;
  summary: string;
  /** settings that it requires on any lake */
  required: Record<string, string>;
}

/** The columns of the episodes since the previous frame. */
type Columns = Record<"return" | "value" | "regret" | "violation" | "expected_violation" | "unsafe_steps", number[]>;

type LaneFrame = Frame & { curves: Partial<Columns> };

type Hello = { event: "hello"; limits: Limits; agents: AgentOffer[]; settings: Record<string, string>; cost_models: string[];
  defaults: PlaygroundRequest; kinds: Record<"lake" | "racetrack", PlaygroundRequest> };
type Verdict =
  | { event: "scene"; number: number; settings: PlaygroundRequest; scene: Scene; remarks: string[]; cells: number[] }
  | { event: "infeasible"; number: number; run?: number; settings: PlaygroundRequest; sentence: string };
type Ready = {
  event: "ready"; run: number; settings: PlaygroundRequest; scene: Scene; remarks: string[]; agents: Look[]; episodes: number;
  frames: Record<string, LaneFrame>;
};

type ServerMessage =
  | Hello
  | Verdict
  | { event: "refused"; run?: number; sentence: string }
  | { event: "preparing"; run: number; agents: string[] }
  | Ready
  | { event: "frame"; run: number; frame: number; episode: number; agents: Record<string, LaneFrame> }
  | { event: "paused"; run: number; episode: number }
  | { event: "finished"; run: number; episode: number }
  | { event: "exporting" }
  | { event: "exported"; name: string; bytes: number };
