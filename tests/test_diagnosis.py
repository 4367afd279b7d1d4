"""A run watched from inside: against the plain transcription, against its own folder, and `everystep theory`."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import oracle
import pytest
import test_oracle as cases

import everystep as es
from everystep import cli, diagnosis, experiment, rerun
from everystep.parts.costs import CountCosts
from everystep.parts.experience import Episode
from everystep.parts.gp_costs import GridGP
from everystep.parts.radii import Tuned
from everystep.problem import FiniteCMDP, Noise, Sizes

WATCHED = [
    "noise",  # linear costs, two constraints, shared
    "every step its own",  # counts, one estimator a step, costs that depend on it
    "noise, two processes for each step as printed",  # a model for each constraint
]


def best_values(p):
    """Q* (H, S, A) with safe actions afterwards, by loops; and V*_1 (S,)."""
    H, S, A = p.horizon, p.states, p.actions
    P, r, g = cases.by_step(p.P, H), cases.by_step(p.r, H), cases.by_step(p.g, H, axis=1)
    Q, V = np.zeros((H, S, A)), np.zeros(S)
    for h in reversed(range(H)):
        now = np.full(S, -np.inf)
        for x in range(S):
            for a in range(A):
                Q[h, x, a] = r[h, x, a] + P[h, x, a] @ V
                if (g[:, h, x, a] <= 0).all() or p.exempt[x]:
                    now[x] = max(now[x], Q[h, x, a])
        V = now
    return Q, V


def norms_of(phi, lam, pairs):
    Lambda = lam * np.eye(phi.shape[-1])
    for x, a in pairs:
        Lambda = Lambda + np.outer(phi[x, a], phi[x, a])
    return oracle.norms(Lambda, phi), np.linalg.slogdet(Lambda / lam)[1] / 2


def watched_by_hand(case):
    """What the watcher should see, from the oracle's walk and beliefs: everything conditioned anew in every episode."""
    where, _, _, settings = cases.CASES[case]
    p, want = cases.problem(where), cases.expected(case)
    values = cases.recipe(case).resolve(p, cases.EPISODES)
    H, S, A, m = p.horizon, p.states, p.actions, p.constraints
    models = cases.cost_models(case)
    g = cases.by_step(p.g, H, axis=1)
    Q_star, V_star = best_values(p)
    beta, lam = np.broadcast_to(values["beta_cost"], m), np.broadcast_to(values["lam_cost"], m)
    if settings.get("radius_cost") == "paper":
        lam = np.full(m, 1 + 2 / (cases.EPISODES * (H if values["share_costs"] else 1)))
    phi = settings.get("features", np.eye(S * A).reshape(S, A, S * A))
    counted = ~p.exempt
    rows = []
    for k in range(cases.EPISODES):
        seen = dict.fromkeys(("condition",), np.inf) | {"error": 0.0, "value_potential": 0.0}
        for h in range(H):
            before = lambda shared, end, h=h: [
                (int(want["state"][t, i]), int(want["action"][t, i]), want["cost"][t, i])
                for t in range(end)
                for i in range(H)
                if shared or i == h
            ]
            x, a = int(want["state"][k, h]), int(want["action"][k, h])
            own = before(values["share_values"], k)
            norm, _ = norms_of(phi, values["lam"], [row[:2] for row in own])
            seen["value_potential"] += min(1, norm[x, a] ** 2)
            own = before(values["share_costs"], k)
            for i in range(m):
                costs = np.array([row[2][i] for row in own])
                pairs = [row[:2] for row in own]
                if models[i].ndim == 3:
                    mean, sd = oracle.ridge(models[i], lam[i], pairs, costs)
                    radius = beta[i]
                else:
                    points = [x * A + a for x, a in pairs]
                    mean, sd, gain = oracle.gaussian_process(models[i], lam[i], points, costs)
                    mean, sd, radius = mean.reshape(S, A), sd.reshape(S, A), beta[i]
                    if settings.get("radius_cost") == "paper":
                        estimators = m if values["share_costs"] else m * H
                        noise = settings.get("sigma")
                        radius *= 1 + noise * np.sqrt(2 * (gain + 1 + np.log(2 * estimators / 0.05)))
                seen["error"] += 2 * radius * sd[x, a]
                margin = radius * sd - np.abs(g[i, h] - mean)
                seen["condition"] = min(seen["condition"], margin[counted].min())
        seen["optimism"] = (want["Q"][k] - Q_star)[:, counted].min()
        seen["optimism_at_start"] = want["V1"][k] - V_star[want["state"][k, 0]]
        rows.append(seen)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("case", WATCHED)
def test_the_watcher_sees_what_the_plain_transcription_says(case):
    p = cases.problem(cases.CASES[case][0])
    prepared = experiment.prepare(p, [cases.recipe(case)], cases.EPISODES, cases.SEEDS)
    (diagnosed,) = diagnosis.diagnose(prepared).values()
    for name, expected in watched_by_hand(case).items():
        np.testing.assert_allclose(getattr(diagnosed.seen, name)[1], expected, rtol=1e-7, atol=1e-7, err_msg=name)
    assert diagnosed.has_costs == (cases.CASES[case][1] != "lsvi")


def test_gains_and_potentials_of_counts_are_those_of_a_process_that_tells_all_apart():
    S, A, H, lam = 4, 3, 5, jnp.asarray(0.7)
    sizes = Sizes(states=S, actions=A, successors=S, horizon=H, constraints=1)
    counts = CountCosts(Tuned(jnp.ones(())), lam)
    process = GridGP(Tuned(jnp.ones(())), lam, jnp.eye(S * A), jnp.arange(S * A, dtype=jnp.int32).reshape(A, S))
    states = [counts.init(sizes, 1), process.init(sizes, 1)]
    rng = np.random.default_rng(1)
    for _ in range(6):
        x, a = (jnp.asarray(rng.integers(n, size=H), jnp.int32) for n in (S, A))
        episode = Episode(x, a, x, x, jnp.zeros(H), jnp.asarray(rng.normal(size=(H, 1))))
        states = [model.update(state, episode) for model, state in zip((counts, process), states, strict=True)]
    for watched in (diagnosis.cost_norms, diagnosis.information):
        one, other = (watched(model, state) for model, state in zip((counts, process), states, strict=True))
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=5)


@pytest.fixture(scope="module")
def folder(pond, tmp_path_factory):
    """A run of many kinds of agents, one of which was given features from Python."""
    phi = np.random.default_rng(0).dirichlet(np.ones(4), (9, 4))
    agents = [
        es.agents.lsvi_ae(cost="gp(categorical(on=landing))", beta=0.4).called("process"),
        es.agents.lsvi_ae(radius="paper", share_values=False, share_costs=False).called("printed"),
        es.agents.lsvi_ae(features=phi, switch=2).called("rare"),
        "lsvi",
    ]
    return es.run(pond, agents, episodes=30, seeds=3, seed0=5).save(tmp_path_factory.mktemp("runs") / "pond", False)


@pytest.fixture(scope="module")
def watched(folder):
    return diagnosis.diagnose(rerun.read(folder).again(2))


def test_a_folder_run_again_and_watched_gives_the_same_numbers_bit_for_bit(folder, watched):
    kept = rerun.read(folder)
    assert kept.again(2).spec["seeds"] == [5, 6]
    for label, each in watched.items():
        np.testing.assert_array_equal(each.metrics.value, kept.curves[label]["value"][:2])
        np.testing.assert_array_equal(each.metrics.violation.sum(-1), kept.curves[label]["violation"][:2])
        kept.check(label, each.metrics.value, each.metrics.violation.sum(-1))
    with pytest.raises(es.EverystepError, match="run again gives another value of lsvi"):
        kept.check("lsvi", kept.curves["lsvi"]["value"] + 1e-6, kept.curves["lsvi"]["violation"])


def test_an_agent_that_plans_rarely_is_judged_by_its_last_plan(watched):
    rare = watched["rare"]
    planned = np.asarray(rare.metrics.planned)[0]
    assert 0 < planned.sum() < len(planned)
    held = rare.optimism_held[0]
    last = None
    for k in range(len(planned)):
        last = rare.seen.optimism[0, k] >= -diagnosis.SLACK if planned[k] else last
        assert held[k] == last


def test_printed_radii_keep_condition_1_and_optimism_and_a_fraction_of_them_does_not():
    """Narrow intervals must fail: this can."""
    rng = np.random.default_rng(4)
    P, r = rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2))
    g = np.stack([-rng.random(3), rng.uniform(-1, 1, 3)], 1)
    p = FiniteCMDP(P, r, g, horizon=3, noise=Noise(cost_sigma=0.5))
    own = {"share_values": False, "share_costs": False}
    narrow = {"beta": 0.002, "beta_cost": 0.02}
    agents = [es.agents.lsvi_ae(radius="paper", **own), es.agents.lsvi_ae(radius="paper", **own, **narrow)]
    printed, narrow = diagnosis.diagnose(experiment.prepare(p, agents, 60, 6)).values()
    assert printed.condition_held.all()
    assert printed.optimism_held.all()
    assert printed.optimism_held_at_start.all()
    assert not narrow.condition_held.all(1).any()
    assert not narrow.optimism_held.all(1).any()


def test_a_person_asks_for_the_theory_of_a_run(folder, capsys):
    assert cli.main(["theory", str(folder), "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    for word in (
        "3 seeds, 2 of them run again",
        "tells from K",
        "Condition 1 held at all times in",
        "Q >= Q* held",
        "information gained, costs",
        "Theorem 1 does not cover this run: beta is tuned",
        "it is about lsvi-ae, and this is lsvi",
    ):
        assert word in shown
    said = json.loads((folder / "theory.json").read_text(encoding="utf-8"))["agents"]
    assert said["printed"]["condition_1"] == {"seeds": 2, "in_all_episodes_of": 2, "share_of_episodes": 1.0}
    for label in ("process", "printed", "rare"):
        assert said[label]["errors"]["measured"]["mean"] <= said[label]["errors"]["printed"]["bound"]
        assert said[label]["violation"]["printed"]["bound"] < said[label]["violation"]["repaired"]["bound"]
        for learnt in ("cost_potential", "cost_information"):
            (model,) = said[label][learnt]
            assert model["measured"]["high"] <= model["printed"]["bound"]
    assert "errors" not in said["lsvi"]
    assert said["printed"]["regret"]["repaired"]["first_telling_K"] > 1e4
    assert {path.name for path in (folder / "figures").iterdir()} == {"theory.png", "theory.svg"}


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda spec, folder: (folder / "spec.json").unlink(), "holds no run"),
        (lambda spec, folder: (folder / "problem.npz").write_bytes(b"no"), "files that cannot be read"),
        (lambda spec, folder: spec["agents"][0]["settings"].update(known_safe="9x4:abc"), "given from Python"),
        (lambda spec, folder: spec["agents"][0]["settings"].update(cost="gp(custom) #12"), "given from Python"),
        (lambda spec, folder: spec["problem"].update(digest="other"), "a problem other than the one it ran"),
        (lambda spec, folder: spec["agents"][3]["settings"].update(beta=0.3), "another value of lsvi"),
        (lambda spec, folder: (folder / "features.npz").unlink(), "features.npz"),
    ],
)
def test_what_keeps_a_folder_from_its_theory_is_one_sentence(folder, tmp_path, capsys, spoil, sentence):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    spec = json.loads((copy / "spec.json").read_text(encoding="utf-8"))
    kept = json.dumps(spec)
    spoil(spec, copy)
    if json.dumps(spec) != kept:
        (copy / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    assert cli.main(["theory", str(copy), "--seeds", "1"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("everystep: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("seeds", ["0", "many", "-3"])
def test_a_wrong_number_of_seeds_is_refused(folder, capsys, seeds):
    assert cli.main(["theory", str(folder), "--seeds", seeds]) == 2
    assert "seeds is" in capsys.readouterr().err
