"""LSVI-NEW in the plainest form, as its formulas are written: loops over triples, sums over all observations.

It shares no code with the library. Arrays have the natural order of axes, (H, S, A) and (S, A, S, d).
"""

import numpy as np
from oracles import lsvi as oracle


def run(
    P,  # (H, S, A, S)
    r,  # (H, S, A)
    cost,  # (m, H, S, A, S), of every triple, threshold included
    tau,  # (m,)
    phi,  # (S, A, S, d)
    start,
    K,
    *,
    seed,  # (S,), the action of each state of the seed, -1 outside it
    safe_action,  # (S,), what to play where nothing is admitted
    phi0,  # (H, d), the known triple of each step
    c0,  # (m, H)
    transition,  # (K, H)
    priority,  # (K, H, S, A)
    noise,  # (K, H, m)
    radius,
    lam_cost,
    e1,
    lam,
    cap,
    e2,  # (H,)
    e3,  # (H,)
    e4,
    seed_episodes,
    share_values,
    share_costs,
    switch=None,
):
    H, S, A, _ = P.shape
    d, m = phi.shape[-1], len(tau)
    support = [[[np.flatnonzero(P[h, x, a]) for a in range(A)] for x in range(S)] for h in range(H)]
    ever = [[np.flatnonzero((P[:, x, a] > 0).any(0)) for a in range(A)] for x in range(S)]

    def expectation(x, a, V):
        """phi_V(x, a)."""
        total = np.zeros(d)
        for y in ever[x][a]:
            total = total + phi[x, a, y] * V[y]
        return total

    def costs(h, rows):
        """gamma (m, d), the highest ctil - tau (m, S, A) and the largest norm (S, A) over each support."""
        length = np.linalg.norm(phi0[h])
        p = phi0[h] / length
        across = np.eye(d) - np.outer(p, p)
        Lambda, target = lam_cost * across, np.zeros((m, d))
        for _, x, a, y, seen, _ in rows:
            perp = across @ phi[x, a, y]
            Lambda = Lambda + np.outer(perp, perp)
            for i in range(m):
                target[i] = target[i] + perp * (seen[i] - phi[x, a, y] @ p / length * c0[i, h])
        inverse = np.linalg.pinv(Lambda, rcond=1e-12, hermitian=True)
        gamma = target @ inverse
        worst, doubt = np.full((m, S, A), -np.inf), np.zeros((S, A))
        for x in range(S):
            for a in range(A):
                for y in support[h][x][a]:
                    perp = across @ phi[x, a, y]
                    norm = np.sqrt(max(perp @ inverse @ perp, 0))
                    doubt[x, a] = max(doubt[x, a], norm)
                    for i in range(m):
                        c = phi[x, a, y] @ p / length * c0[i, h] + gamma[i] @ perp + radius * norm
                        worst[i, x, a] = max(worst[i, x, a], c - tau[i])
        return gamma, worst, doubt

    out = {
        "state": np.zeros((K, H), int),
        "action": np.zeros((K, H), int),
        "policy": np.zeros((K, H, S), int),
        "Q": np.zeros((K, H, S, A)),
        "admitted": np.zeros((K, H, S, A), bool),
        "gamma": np.zeros((K, H, m, d)),
        "w": np.zeros((K, H, d)),
        "planned": np.zeros(K, bool),
    }
    data = []  # (h, x, a, x', cost, V_{h+1} of the plan in force), oldest first
    last = None
    for k in range(1, K + 1):
        matrices, weights = [], []
        for h in range(H):
            Lambda, target = lam * np.eye(d), np.zeros(d)
            for step, x, a, y, _, V_then in data:
                if share_values or step == h:
                    row = expectation(x, a, V_then)
                    Lambda = Lambda + np.outer(row, row)
                    target = target + row * V_then[y]
            matrices.append(Lambda)
            weights.append(np.linalg.solve(Lambda, target))
        size = np.array([np.linalg.slogdet(Lambda)[1] for Lambda in matrices])

        if last is None or switch is None or (size >= last + np.log(switch)).any():
            last = size
            out["planned"][k - 1] = True
            believed = [costs(h, [row for row in data if share_costs or row[0] == h]) for h in range(H)]
            admitted = np.zeros((H, S, A), bool)
            beyond = np.zeros((H, S, A))
            safe, future = [True] * S, [0.0] * S
            for h in reversed(range(H)):
                _, worst, doubt = believed[h]
                now, ahead = [False] * S, [0.0] * S
                for x in range(S):
                    for a in range(A):
                        if k <= seed_episodes:
                            certified = seed[x] == a
                        else:
                            certified = seed[x] == a or all(worst[i, x, a] <= 0 for i in range(m))
                        admitted[h, x, a] = certified and all(safe[y] for y in support[h][x][a])
                        beyond[h, x, a] = max(future[y] for y in support[h][x][a])
                        if admitted[h, x, a]:
                            now[x] = True
                            ahead[x] = max(ahead[x], doubt[x, a], beyond[h, x, a])
                safe, future = now, ahead
            Q, V, policy = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), int)
            for h in reversed(range(H)):
                _, _, doubt = believed[h]
                for x in range(S):
                    for a in range(A):
                        row = expectation(x, a, V[h + 1])
                        norm = np.sqrt(row @ np.linalg.solve(matrices[h], row))
                        bonus = e2[h] * doubt[x, a] + e3[h] * beyond[h, x, a] + e4 * believed[0][2][x, a]
                        Q[h, x, a] = min(cap, r[h, x, a] + weights[h] @ row + e1 * norm + bonus)
                    score = np.where(admitted[h, x], Q[h, x], -np.inf)
                    policy[h, x] = (
                        oracle.choose(score, priority[k - 1, h, x]) if admitted[h, x].any() else safe_action[x]
                    )
                    V[h, x] = Q[h, x, policy[h, x]]
            gamma = np.array([each[0] for each in believed])

        out["Q"][k - 1], out["admitted"][k - 1], out["policy"][k - 1] = Q, admitted, policy
        out["gamma"][k - 1], out["w"][k - 1] = gamma, weights
        x = start
        for h in range(H):
            a = policy[h, x]
            y = oracle.draw(P[h, x, a], transition[k - 1, h])
            out["state"][k - 1, h], out["action"][k - 1, h] = x, a
            data.append((h, x, a, y, cost[:, h, x, a, y] + noise[k - 1, h], V[h + 1]))
            x = y
    return out
