"""Our systems: LSVI-AE, lsvi-ahead, and a shield around PPO; with features by hand, and with features="auto"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from application import Application, Choose, Recorder, System

import everystep as es


def learner(app: Application, env: Any, agent: str, seed: int, settings: Mapping[str, Any]) -> es.Learner:
    settings = dict(settings)
    features = made(app, settings.pop("features"), seed)
    cost_features = made(app, settings.pop("cost_features", None), seed)
    horizon = settings.pop("horizon", app.horizon)
    return es.Learner(
        env,
        getattr(es.agents, agent.replace("-", "_"))(**settings),
        constraint=lambda x, action, after, info: info.get("constraints", info["constraint"]),  # its parts, if any
        features=features,
        cost_features=cost_features,
        horizon=horizon,
        length=app.length,
        reward_range=(0.0, 1.0),
        seed=seed,
    )


def made(app: Application, given: Any, seed: int) -> Any:
    """Random Fourier features, whose frequencies are drawn by the seed; polynomials; or those of the application."""
    if not isinstance(given, Mapping):  # "auto" or none
        return given
    if "of" in given:
        return given["of"](**{name: each for name, each in given.items() if name != "of"}, seed=seed)
    if "degree" in given:
        return es.features.polynomial(**given)
    return es.features.fourier(**{"low": list(app.low), "high": list(app.high), "seed": seed, **given})


def learn_alone(agent: str) -> Any:
    def learn(app: Application, recorder: Recorder, steps: int, seed: int, settings: Mapping[str, Any]) -> Choose:
        settings = dict(settings)
        explored = settings.pop("explored", 1.0)  # the share of steps after which it acts as its policy will
        learning = learner(app, recorder, agent, seed, settings)
        while len(recorder.harm) < steps:
            learning.play(1, explore=len(recorder.harm) < explored * steps)
        policy = learning.policy()
        return lambda x, step: int(policy(x, step + 1))

    return learn


def learn_shielded(app: Application, recorder: Recorder, steps: int, seed: int, settings: Mapping[str, Any]) -> Choose:
    """MaskablePPO, which asks for admissible actions only; the shield learns from its episodes."""
    import deep

    settings = dict(settings)
    tolerance, agent = settings.pop("shield_tolerance"), settings.pop("agent")
    settings.pop("explored", None)
    shield = es.shield(learner(app, recorder, agent, seed, settings), tolerance)
    return deep.learn_masked(app, shield.wrap(recorder), steps, seed, deep.settings_of("PPO")(app), frozen=shield)


def by_hand(agent: str) -> Any:
    return lambda app: app.ours[agent]


def automatic(agent: str) -> Any:
    """The agent as it comes; what `app.ours` says under "auto", if anything, holds for all of them."""
    return lambda app: {"features": "auto", **app.ours.get("auto", {})}


def shielded(auto: bool) -> Any:
    def settings(app: Application) -> Mapping[str, Any]:
        given = dict(app.ours["shield"])
        agent = given.get("agent", "lsvi-ahead")
        rest = automatic(agent)(app) if auto else by_hand(agent)(app)
        return {**rest, "agent": agent, "shield_tolerance": 0.02, **given}

    return settings


SYSTEMS = [
    *(System(agent, "ours", learn_alone(agent), by_hand(agent)) for agent in ("lsvi-ahead", "lsvi-ae")),
    *(System(f"{agent}, auto", "ours", learn_alone(agent), automatic(agent)) for agent in ("lsvi-ahead", "lsvi-ae")),
    System("shielded PPO", "ours", learn_shielded, shielded(auto=False)),
    System("shielded PPO, auto", "ours", learn_shielded, shielded(auto=True)),
]
