"""Time rlberry-scool's exact planner and its UCBVI on a problem given as arrays. Runs in the peers' interpreter.

    python peer_planner.py problem.npz --what ValueIteration|UCBVI|UCBVI-RTDP [--episodes 1]

The file holds P (S, A, S), r (S, A), start and horizon; all three programs want P in this form. ValueIterationAgent
with a horizon is backward induction without constraints. UCBVIAgent plans backward over all steps and states after
every episode, as LSVI-AE does before one; with real-time dynamic programming (RTDP) it updates V only at the states of
the episode. Prints JSON: the seconds of a plan and the mean of its V_1 over states, or the seconds of an episode; and
the peak memory of the process in bytes.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # one core, like what it is compared with

import argparse
import json
import resource
from importlib import metadata

import numpy as np
import rlberry
from peer_lsvi import Problem, seconds
from rlberry_scool.agents.dynprog import ValueIterationAgent
from rlberry_scool.agents.ucbvi import UCBVIAgent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", help="an .npz file with P, r, start and horizon")
    parser.add_argument("--what", choices=("ValueIteration", "UCBVI", "UCBVI-RTDP"), required=True)
    parser.add_argument("--episodes", type=int, default=1, help="of UCBVI")
    args = parser.parse_args()
    rlberry.logger.setLevel("ERROR")

    given = np.load(args.problem, allow_pickle=False)
    start, horizon = int(given["start"]), int(given["horizon"])
    problem = Problem(given["r"], given["P"], start)
    found = {"version": metadata.version("rlberry-scool")}
    if args.what == "ValueIteration":
        planner = ValueIterationAgent(problem, gamma=1.0, horizon=horizon)
        found |= {"seconds": seconds(planner.fit), "value": float(planner.V[0].mean())}
    else:
        agent = UCBVIAgent(problem, gamma=1.0, horizon=horizon, real_time_dp=args.what == "UCBVI-RTDP")
        agent.reseed(0)
        play = lambda: [agent._run_episode() for _ in range(args.episodes)]
        found |= {"seconds": seconds(play) / args.episodes}
    print(json.dumps(found | {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
