"""Algorithm 1 of the paper once more, as slow and plain as it can be: what the compiled program is held against.

Written from the paper's text alone, with explicit loops, explicit Gram matrices and one linear solve for each of
them. Nothing here is shared with the program, not even a helper.
"""

import numpy as np


def run(
    P,
    r,
    g,
    phi,
    start,
    horizon,
    episodes,
    *,
    transition,
    priority,
    reward_seen=None,
    cost_noise=None,
    beta,
    lam,
    beta_cost,
    lam_cost,
    cap,
    floor,
    optimism=1.0,
    share_values,
    share_costs,
    penalty,
    rectify=True,
):
    """Play `episodes` episodes and return everything that was planned, seen and priced.

    P (H, S, A, S), r (H, S, A), g (m, H, S, A) are means; phi (S, A, d) features; `start` is a state.
    transition (K, H): uniforms; the next state is the first y with u below P(0) + ... + P(y).
    priority (K, H, S, A): among the actions that tie for the best score, the one with the highest is played.
    reward_seen (H, S, A, S): the reward observed on arrival, otherwise the mean is.
    cost_noise (K, H, m): added to the mean to make the observed cost.
    floor: k -> eta_k; penalty: "rectified" (Z starts at 1), "queue" or "none" (Z starts at 0).
    """
    H, K = horizon, episodes
    S, A, d = phi.shape
    m = g.shape[0]
    assert P.shape == (H, S, A, S)
    assert r.shape == (H, S, A)
    assert g.shape == (m, H, S, A)

    Z = np.ones((m, H)) if penalty == "rectified" else np.zeros((m, H))
    data = []  # (h, x, a, reward, cost, x_next), oldest first
    out = {
        "state": np.zeros((K, H), int),
        "action": np.zeros((K, H), int),
        "reward": np.zeros((K, H)),
        "cost": np.zeros((K, H, m)),
        "price": np.zeros((K, m, H)),
        "V1": np.zeros(K),
        "policy": np.zeros((K, H, S), int),
        "Q": np.zeros((K, H, S, A)),
        "ghat": np.zeros((K, m, H, S, A)),
    }

    for k in range(1, K + 1):
        out["price"][k - 1] = Z

        # Backward pass: h = H, H-1, ..., 1.
        V_next = np.zeros(S)
        for h in reversed(range(H)):
            seen = [row for row in data if share_values or row[0] == h]
            Lambda = lam * np.eye(d)
            target = np.zeros(d)
            for _, x, a, reward, _, x_next in seen:
                Lambda = Lambda + np.outer(phi[x, a], phi[x, a])
                target = target + phi[x, a] * (reward + V_next[x_next])
            w = np.linalg.solve(Lambda, target)
            norm = norms(Lambda, phi)
            Q = np.zeros((S, A))
            for x in range(S):
                for a in range(A):
                    Q[x, a] = min(w @ phi[x, a] + beta * norm[x, a], cap)

            seen = [row for row in data if share_costs or row[0] == h]
            Lambda = lam_cost * np.eye(d)
            target = np.zeros((m, d))
            for _, x, a, _, cost, _ in seen:
                Lambda = Lambda + np.outer(phi[x, a], phi[x, a])
                for i in range(m):
                    target[i] = target[i] + phi[x, a] * cost[i]
            norm = norms(Lambda, phi)
            ghat = np.zeros((m, S, A))
            for i in range(m):
                theta = np.linalg.solve(Lambda, target[i])
                for x in range(S):
                    for a in range(A):
                        ghat[i, x, a] = theta @ phi[x, a] - optimism * beta_cost * norm[x, a]

            V = np.zeros(S)
            for x in range(S):
                score = np.zeros(A)
                for a in range(A):
                    harm = 0.0
                    for i in range(m):
                        harm += Z[i, h] * (max(ghat[i, x, a], 0.0) if rectify else ghat[i, x, a])
                    score[a] = Q[x, a] - harm
                a_x = choose(score, priority[k - 1, h, x])
                out["policy"][k - 1, h, x] = a_x
                V[x] = Q[x, a_x]
            out["Q"][k - 1, h] = Q
            out["ghat"][k - 1, :, h] = ghat
            V_next = V
        out["V1"][k - 1] = V_next[start]

        # Forward pass: h = 1, ..., H.
        x = start
        episode = []
        for h in range(H):
            a = out["policy"][k - 1, h, x]
            y = draw(P[h, x, a], transition[k - 1, h])
            reward = r[h, x, a] if reward_seen is None else reward_seen[h, x, a, y]
            cost = g[:, h, x, a] if cost_noise is None else g[:, h, x, a] + cost_noise[k - 1, h]
            out["state"][k - 1, h] = x
            out["action"][k - 1, h] = a
            out["reward"][k - 1, h] = reward
            out["cost"][k - 1, h] = cost
            episode.append((h, x, a, reward, cost, y))
            x = y
        data += episode

        # The prices of the next episode.
        Z = Z.copy()
        for i in range(m):
            for h in range(H):
                observed = out["cost"][k - 1, h, i]
                if penalty == "rectified":
                    Z[i, h] = max(Z[i, h] + max(observed, 0.0), floor(k))
                elif penalty == "queue":
                    Z[i, h] = max(Z[i, h] + observed, 0.0)
    return out


def norms(Lambda, phi):
    """||phi(x, a)||_{Lambda^-1} for every (x, a)."""
    S, A, d = phi.shape
    solved = np.linalg.solve(Lambda, phi.reshape(S * A, d).T).T.reshape(S, A, d)
    norm = np.zeros((S, A))
    for x in range(S):
        for a in range(A):
            norm[x, a] = np.sqrt(phi[x, a] @ solved[x, a])
    return norm


def choose(score, priority):
    """The action with the highest priority among those that tie for the best score."""
    best = max(score)
    tied = [a for a in range(len(score)) if best - score[a] <= 1e-9 * max(1.0, abs(best))]
    return max(tied, key=lambda a: priority[a])


def draw(probabilities, u):
    """The first state whose running sum exceeds u; the last possible one should rounding leave u above them all."""
    total = 0.0
    for y, probability in enumerate(probabilities):
        total += probability
        if u < total:
            return y
    return int(np.flatnonzero(probabilities)[-1])


def evaluate(P, r, policy):
    """What a deterministic policy (H, S) is worth from every state when r (H, S, A) is paid: the Bellman equation."""
    H, S = policy.shape
    V = np.zeros(S)
    for h in reversed(range(H)):
        now = np.zeros(S)
        for x in range(S):
            a = policy[h, x]
            now[x] = r[h, x, a] + sum(P[h, x, a, y] * V[y] for y in range(S))
        V = now
    return V
