/** What the playground's server says (see sessions.py), and what a visitor sets (see protocol.py). */

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

interface Wish {
  name: string;
  rows: string[];
  slip: number;
  horizon: number;
  agents: string[];
  episodes: number;
  seed: number;
  settings: Settings;
}

interface Limits {
  side: number;
  horizon: number;
  episodes: number;
  agents: number;
  name: number;
  rate: number;
  visitors: number;
  message_bytes: number;
}

interface Choosable extends Look {
  needs: string;
  summary: string;
}

/** The columns of the episodes since the frame before, an array each. */
type Columns = Record<"return" | "value" | "regret" | "violation" | "expected_violation" | "unsafe_steps", number[]>;

type LaneFrame = Frame & { curves: Partial<Columns> };

type Hello = { say: "hello"; limits: Limits; agents: Choosable[]; cost_models: string[]; defaults: Wish };
type Verdict =
  | { say: "scene"; number: number; settings: Wish; scene: Scene; remarks: string[] }
  | { say: "infeasible"; number: number; run?: number; settings: Wish; sentence: string; cells: number[] };
type Ready = {
  say: "ready"; run: number; settings: Wish; scene: Scene; remarks: string[]; agents: Look[]; episodes: number;
  frames: Record<string, LaneFrame>;
};

type Said =
  | Hello
  | Verdict
  | { say: "refused"; run?: number; sentence: string }
  | { say: "preparing"; run: number; agents: string[] }
  | Ready
  | { say: "frame"; run: number; frame: number; episode: number; agents: Record<string, LaneFrame> }
  | { say: "paused"; run: number; episode: number }
  | { say: "over"; run: number; episode: number }
  | { say: "exporting" }
  | { say: "exported"; name: string; bytes: number };
