"""Algorithm 1 of the paper in the plainest form, however slow: the reference for the compiled program.

Written from the paper's text alone, with explicit loops, explicit Gram matrices and one linear solve for each of
them; a Gaussian process is conditioned on all observations again every time. No code is shared with the program, not
even a helper.
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
    cost_models=None,
    radius_gp=None,
    known_safe=None,
    react=False,
    ahead=None,
    violation_price=0.0,
):
    """Play `episodes` episodes and return all plans, observations and prices.

    P (H, S, A, S), r (H, S, A), g (m, H, S, A) are means; phi (S, A, d) features; `start` is a state.
    transition (K, H): uniforms; the next state is the first y with u below P(0) + ... + P(y).
    priority (K, H, S, A): among the actions that tie for the best score, the one with the highest priority is played.
    reward_seen (H, S, A, S): the reward observed on arrival; without it, the mean reward is observed.
    cost_noise (K, H, m): added to the mean to make the observed cost.
    floor: k -> eta_k; penalty: "rectified" (Z starts at 1), "queue" or "none" (Z starts at 0).
    cost_models: for each constraint features (S, A, d), or the kernel of a Gaussian process (S * A, S * A); else phi.
    beta_cost, lam_cost: one number, or one for each constraint.
    radius_gp: (B, sigma, p) of the printed radius of a Gaussian process; without it beta_cost alone is the radius.
    known_safe (S, A): pairs whose ghat is at most 0, whatever was observed.
    react: at every step the action is chosen again, with the costs of the episode's earlier steps.
    ahead: the harm that a decision leads to is priced instead of the cost of this step: a dictionary with `mode`
        ("least", "plan", or "marked" for SUCBVI), `events`, `tolerance`, `weights` (m,), `beta` and `cap`.
    violation_price: the reward is learnt less this times the violation of the step.
    """
    H, K = horizon, episodes
    S, A, d = phi.shape
    m = g.shape[0]
    assert P.shape == (H, S, A, S)
    assert r.shape == (H, S, A)
    assert g.shape == (m, H, S, A)

    models = [phi] * m if cost_models is None else cost_models
    beta_cost, lam_cost = np.broadcast_to(beta_cost, m), np.broadcast_to(lam_cost, m)

    def estimate(seen):
        """ghat (m, S, A) from the rows seen."""
        ghat = np.zeros((m, S, A))
        for i in range(m):
            pairs = [(x, a) for _, x, a, _, _, _ in seen]
            costs = np.array([cost[i] for _, _, _, _, cost, _ in seen])
            if models[i].ndim == 3:
                mean, sd = ridge(models[i], lam_cost[i], pairs, costs)
                radius = beta_cost[i]
            else:
                mean, sd, gain = gaussian_process(models[i], lam_cost[i], [x * A + a for x, a in pairs], costs)
                mean, sd = mean.reshape(S, A), sd.reshape(S, A)
                radius = beta_cost[i]
                if radius_gp is not None:
                    B, sigma, p = radius_gp
                    estimators = m if share_costs else m * H  # all of which must be right
                    radius = beta_cost[i] * (B + sigma * np.sqrt(2 * (gain + 1 + np.log(2 * estimators / p))))
            ghat[i] = mean - optimism * radius * sd
        if known_safe is not None:
            for x in range(S):
                for a in range(A):
                    if known_safe[x, a]:
                        ghat[:, x, a] = np.minimum(ghat[:, x, a], 0.0)
        return ghat

    def best(Q, ghat, Z, priority, after=None):
        """argmax_a {Q(a) - sum_i Z_i [ghat_i(a)]_+} at one state, or with the avoidable harm in place of ghat."""
        score = np.zeros(A)
        if ahead is not None:
            G = led_to(ghat, after)
            least = min(G) + (0.0 if ahead["mode"] == "marked" else ahead["tolerance"])
        for a in range(A):
            priced = 0.0
            if ahead is not None:
                priced = Z[0] * max(G[a] - least, 0.0)
            else:
                for i in range(m):
                    priced += Z[i] * (max(ghat[i, a], 0.0) if rectify else ghat[i, a])
            score[a] = Q[a] - priced
        return choose(score, priority)

    def led_to(ghat, after):
        """The harm that each action of a state leads to: that of this step and what comes after."""
        G = np.zeros(A)
        for a in range(A):
            for i in range(m):
                G[a] += ahead["weights"][i] * max(ghat[i, a], 0.0)
            G[a] += after[a]
            if ahead["mode"] != "marked":
                G[a] = min(max(G[a], 0.0), ahead["cap"])
        return G

    Z = {"rectified": 1.0, "fixed": 1e6}.get(penalty, 0.0) * np.ones((m if ahead is None else 1, H))
    data = []  # (h, x, a, reward, cost, x_next), oldest first
    out = {
        "state": np.zeros((K, H), int),
        "action": np.zeros((K, H), int),
        "reward": np.zeros((K, H)),
        "cost": np.zeros((K, H, m)),
        "price": np.zeros((K, m if ahead is None else 1, H)),
        "V1": np.zeros(K),
        "policy": np.zeros((K, H, S), int),
        "Q": np.zeros((K, H, S, A)),
        "ghat": np.zeros((K, m, H, S, A)),
        "after": np.zeros((K, H, S, A)),
        "C": np.zeros((K, H, S)),
    }

    for k in range(1, K + 1):
        out["price"][k - 1] = Z

        # Backward pass: h = H, H-1, ..., 1.
        V_next = np.zeros(S)
        C_next = np.zeros(S)
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
                    if violation_price == 0.0:  # the one departure from the text: rewards in [0, 1] have values above 0
                        Q[x, a] = max(Q[x, a], 0.0)

            if not share_costs or h == H - 1:  # otherwise it is that of the step after
                ghat = estimate([row for row in data if share_costs or row[0] == h])

            after = out["after"][k - 1, h]
            if ahead is not None:
                target = np.zeros(d)
                for _, x, a, _, _, x_next in seen:
                    target = target + phi[x, a] * C_next[x_next]
                w = np.linalg.solve(Lambda, target)
                for x in range(S):
                    for a in range(A):
                        after[x, a] = w @ phi[x, a] - ahead.get("beta", 0.0) * norm[x, a]
                        if ahead["mode"] == "marked":
                            after[x, a] = any(C_next[y] > 0 for _, x2, a2, _, _, y in seen if (x2, a2) == (x, a))

            V, C = np.zeros(S), np.zeros(S)
            for x in range(S):
                a_x = best(Q[x], ghat[:, x], Z[:, h], priority[k - 1, h, x], after[x])
                out["policy"][k - 1, h, x] = a_x
                V[x] = Q[x, a_x]
                if ahead is not None:
                    G = led_to(ghat[:, x], after[x])
                    C[x] = {"least": min(G), "plan": G[a_x], "marked": float(min(G) > 0)}[ahead["mode"]]
            C_next = out["C"][k - 1, h] = C
            out["Q"][k - 1, h] = Q
            out["ghat"][k - 1, :, h] = ghat
            V_next = V
        out["V1"][k - 1] = V_next[start]

        # Forward pass: h = 1, ..., H.
        x = start
        episode = []
        for h in range(H):
            a = out["policy"][k - 1, h, x]
            if react:
                newest = estimate([row for row in data + episode if share_costs or row[0] == h])
                planned = out["Q"][k - 1, h, x], out["after"][k - 1, h, x]
                a = best(planned[0], newest[:, x], Z[:, h], priority[k - 1, h, x], planned[1])
            y = draw(P[h, x, a], transition[k - 1, h])
            reward = r[h, x, a] if reward_seen is None else reward_seen[h, x, a, y]
            cost = g[:, h, x, a] if cost_noise is None else g[:, h, x, a] + cost_noise[k - 1, h]
            out["state"][k - 1, h] = x
            out["action"][k - 1, h] = a
            out["reward"][k - 1, h] = reward
            out["cost"][k - 1, h] = cost
            harm = [max(each, 0.0) for each in cost]
            if ahead is not None and ahead["mode"] != "marked" and ahead["events"]:
                cost = np.array(harm)
            episode.append((h, x, a, reward - violation_price * sum(harm), cost, y))
            x = y
        data += episode

        # The prices of the next episode.
        Z = Z.copy()
        for i in range(len(Z)):
            for h in range(H):
                observed = out["cost"][k - 1, h, i]
                if ahead is not None:
                    observed = sum(ahead["weights"][j] * max(out["cost"][k - 1, h, j], 0.0) for j in range(m))
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


def ridge(phi, lam, pairs, costs):
    """The least-squares estimate at every (x, a) and its norm, from the costs seen at some pairs (x, a)."""
    S, A, d = phi.shape
    Lambda = lam * np.eye(d)
    target = np.zeros(d)
    for (x, a), cost in zip(pairs, costs, strict=True):
        Lambda = Lambda + np.outer(phi[x, a], phi[x, a])
        target = target + phi[x, a] * cost
    theta = np.linalg.solve(Lambda, target)
    mean = np.zeros((S, A))
    for x in range(S):
        for a in range(A):
            mean[x, a] = theta @ phi[x, a]
    return mean, norms(Lambda, phi)


def gaussian_process(kernel, lam, seen, costs):
    """Mean and standard deviation at every point, and the information gained, from the costs seen at some points.

    mean(y) = k(y)^T (K + lam I)^-1 c,   var(y) = k(y, y) - k(y)^T (K + lam I)^-1 k(y),   1/2 ln det(I + K / lam)
    """
    points, n = len(kernel), len(seen)
    if n == 0:
        return np.zeros(points), np.sqrt(np.diag(kernel)), 0.0
    K = kernel[np.ix_(seen, seen)]
    V = K + lam * np.eye(n)
    solved = np.linalg.solve(V, np.column_stack([kernel[seen], costs]))
    weights = solved[:, -1]
    mean, sd = np.zeros(points), np.zeros(points)
    for y in range(points):
        k = kernel[seen, y]
        mean[y] = k @ weights
        sd[y] = np.sqrt(max(kernel[y, y] - k @ solved[:, y], 0.0))
    sign, log_det = np.linalg.slogdet(np.eye(n) + K / lam)
    assert sign > 0
    return mean, sd, log_det / 2


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
