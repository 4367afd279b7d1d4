"""A learner on a walk, and episodes behind its shield."""

from environments_for_tests.walks import Walk

import everystep as es


def beyond_five(seen, action, after, info):
    return (after - 5.5) / 6


OPTIONS = {"constraint": beyond_five, "horizon": 6, "length": 20}


def learner(agent="lsvi-ae", first=0, **options):
    return es.Learner(Walk(first), agent, **(OPTIONS | options))


def episode(env, ask, seed=None):
    """The info of every step of an episode in which `ask(observation)` is asked for."""
    (x, _), over, infos = env.reset(seed=seed), False, []
    while not over:
        before = x
        x, reward, terminated, truncated, info = env.step(ask(x))
        over = terminated or truncated
        infos.append({**info, "before": before, "after": x, "reward": reward})
    return infos
