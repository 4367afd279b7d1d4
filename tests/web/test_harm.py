"""Viable states and harm-to-go on pages: against loops over every state, and in a real browser."""

import base64
import json
from itertools import product

import numpy as np
import pytest
from browser import chromium

import everystep as es
from everystep import files
from everystep.experiments import experiment
from everystep.experiments.folder import finished, rerun
from everystep.experiments.result import Result
from everystep.mdp import arrays, planner
from everystep.problems import from_map, racetrack_from
from everystep.web import charts, harm, report, watch
from everystep.web.drawing import Drawing
from everystep.web.playground import lakes, protocol

# A car that is too fast cannot stop before the end of the road; at the last step it need not have stopped.
ROAD = racetrack_from(["S..G.."], top_speed=3, horizon=4, name="road")
VELOCITIES = list(product(range(-3, 4), repeat=2))
REST, FAST = VELOCITIES.index((0, 0)), VELOCITIES.index((0, 3))
LAKE = from_map(["SFFG"], horizon=3)
EPISODES = 12


@pytest.fixture(scope="module")
def prepared():
    return experiment.prepare(ROAD, ["lsvi-ahead"], EPISODES, seeds=[1])


def numbers(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def by_loops(problem):
    """G*_h(x, a) by the definition."""
    H, S, A, P = problem.horizon, problem.states, problem.actions, problem.dense_P[0]
    G, C = np.zeros((H, S, A)), np.zeros(S)
    for h in reversed(range(H)):
        for x in range(S):
            G[h, x] = np.maximum(problem.g[0, :, x], 0).sum(0) + P[x] @ C
        C = G[h].min(-1)
    return G


def test_the_exact_harm_of_a_scene_is_that_of_the_definition():
    sent = watch.scene(ROAD)["harm"]
    tables = numbers(sent["value"], "<f4").reshape(-1, ROAD.states, ROAD.actions)
    assert len(tables) < ROAD.horizon  # the first steps are alike
    np.testing.assert_allclose(tables[sent["steps"]], by_loops(ROAD), atol=1e-6)
    assert 0 < (tables[sent["steps"][0]].min(-1) > 0).sum() == (~planner.viable(ROAD)[0]).sum()


def test_the_states_of_a_cell_are_its_velocities():
    drawing = Drawing(ROAD)
    assert [(each.down, each.right) for each in drawing.velocities] == VELOCITIES
    assert (drawing.velocities[REST].name, drawing.velocities[FAST].name) == ("at rest", "3 right")
    for v, cell in product(range(49), range(6)):
        assert drawing.states[v, cell] == 49 * cell + v
    assert watch.scene(ROAD)["harm"]["at_start"] == REST


def a_frame(problem):
    """Of an agent that does not look ahead."""
    H, S, A = problem.horizon, problem.states, problem.actions
    policy = np.random.default_rng(0).integers(A, size=(H, S)).astype(np.uint8)
    return watch.Frame(1, np.eye(S, dtype=int)[problem.start[0]], policy, None, [], {})


@pytest.mark.quick
def test_where_every_state_has_a_safe_action_nothing_is_added():
    assert not harm.is_shown(LAKE)
    assert "harm" not in watch.scene(LAKE)
    assert set(a_frame(LAKE).to_json(Drawing(LAKE))) == {
        *("episode", "visits", "policy", "labels", "path", "violations", "totals")
    }


def test_a_frame_holds_the_harm_that_the_coming_plan_is_made_from(prepared):
    settings = prepared.spec["agents"][0]["settings"]
    assert (settings["mode"], settings["beta_harm"], settings["radius_cost"]) == ("least", 0, "tuned")
    player, P = watch.Player(prepared, "lsvi-ahead", 1), ROAD.dense_P[0]
    visits, believed = np.zeros((ROAD.states, ROAD.actions)), 0
    _, frame = player.advance(0)
    for _ in range(EPISODES):
        x = int(ROAD.start[0])
        for h in range(ROAD.horizon):  # deterministic, so that a plan determines its path
            a = frame.policy[h, x]
            visits[x, a] += 1
            x = int(P[x, a].argmax())
        _, frame = player.advance(1)
        found = frame.harm.dense(ROAD)
        C, n = np.zeros(ROAD.states), visits + settings["lam_cost"]
        ghat = ROAD.g[0, 0] * visits / n - settings["beta_cost"] / np.sqrt(n)
        for h in reversed(range(ROAD.horizon)):
            G = np.maximum(ghat, 0) + visits / (visits + settings["lam"]) * C[P.argmax(-1)]
            np.testing.assert_allclose(found[h], G, atol=1e-6)
            C = G.min(-1)
        of_states, chosen = frame.harm.of_states(ROAD, frame.policy)
        np.testing.assert_allclose(of_states[0], C, atol=1e-6)
        assert (chosen >= of_states).all()
        believed += (found > 0).sum()
    assert believed > 0


def test_an_agent_that_does_not_look_ahead_has_a_plan_by_states_and_no_harm():
    frame = a_frame(ROAD)
    sent = frame.to_json(Drawing(ROAD))
    assert sent["harm"] is None
    np.testing.assert_array_equal(numbers(sent["actions"], np.uint8).reshape(frame.policy.shape), frame.policy)
    assert [x for cell, x in enumerate(sent["typical"]) if cell != 3] == [49 * cell + REST for cell in (0, 1, 2, 4, 5)]


def test_harm_that_is_too_large_for_a_map_is_shown_by_state_and_step_or_not_at_all(monkeypatch):
    assert report._no_harm(ROAD, watch.scene(ROAD)) == []
    monkeypatch.setattr(harm, "MOST_SENT", 10)
    assert "harm" not in (scene := watch.scene(ROAD))
    assert charts.has_strips(ROAD)
    request = protocol.parse_request({"kind": "racetrack", "rows": ["S..G.."], "top_speed": 3, "horizon": 4})
    too_large = "harm-to-go is not shown, because 294 states and 4 steps are too many."
    assert lakes.check(request)["remarks"][-1] == too_large
    monkeypatch.setattr(harm, "MOST", 10)
    assert not charts.has_strips(ROAD)
    assert report._no_harm(ROAD, scene) == [too_large]


def test_an_agent_that_looks_ahead_has_one_price_for_two_constraints():
    shop = es.problems.inventory(horizon=2)
    player = watch.Player(experiment.prepare(shop, ["lsvi-ahead"], 2, seeds=[0]), "lsvi-ahead", 0)
    assert player._no_episodes().prices.shape == (0, 1, 2)


def test_names_come_from_the_same_problem_of_the_library(tmp_path):
    for holding, known in ((0.1, True), (0.2, False)):
        shop = es.problems.inventory(horizon=2, holding=holding)
        arrays.save_problem(shop, tmp_path / "inventory.npz")
        unnamed = arrays.read_problem(tmp_path / "inventory.npz")
        assert unnamed.state_names is None
        assert charts._with_names(unnamed).state_names == (shop.state_names if known else None)


# --- in a browser -----------------------------------------------------------------------------------------------------
def write_page(folder, prepared):
    """The report of a run of one seed, from its film."""
    film = watch.film(watch.Player(prepared, "lsvi-ahead", 1), [0, 4, EPISODES])
    curves = {"lsvi-ahead": {name: column[None] for name, column in film.columns.items()}}
    visits = {f"lsvi-ahead_{when}": np.zeros((1, prepared.problem.states), int) for when in (500, "end")}
    result = Result(prepared.problem, prepared.spec, curves, visits)
    with files.replacing(folder) as partial:
        np.savez(partial / "visits.npz", **visits)
        files.write_json(partial / "summary.json", result.summary)
    run = rerun.Run(finished.FinishedFolder(folder, prepared.spec), prepared.problem, curves)
    text = report.page(run, report.FirstSeed({"lsvi-ahead": film}, []))
    (folder / "report.html").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory, prepared):
    """Reports of a problem with a map and of one without."""
    folder, thermostat = tmp_path_factory.mktemp("harm"), es.problems.thermostat(horizon=4)
    write_page(folder / "road", prepared)
    write_page(folder / "thermostat", experiment.prepare(thermostat, ["lsvi-ahead"], EPISODES, seeds=[1]))
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 900})
        page.complaints = []
        page.on("console", lambda line: page.complaints.append(line.text) if line.type != "log" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        yield page, folder


def test_the_map_marks_the_states_that_are_not_viable(pages):
    page, folder = pages
    page.goto((folder / "road" / "report.html").as_uri())
    dead = ~planner.viable(ROAD)
    count = lambda where: page.locator(f"{where} .harm:not(.mistaken)").count()
    assert count("#viable") == dead[0].sum()
    assert f"At step 1 these are {dead[0].sum()} of 294 states." in page.text_content("figure")
    page.select_option("#viable-step", "4")
    assert count("#viable") == dead[3].sum() != dead[0].sum()
    card = '[data-board="lsvi-ahead"]'
    assert count(card) == dead[0].sum()
    page.check("#show-marks")
    assert (count(card), page.is_checked("#show-harm")) == (0, False)
    page.check("#show-harm")
    page.select_option("#velocity", label="3 right")
    assert page.locator(f"{card} .dead-end").count() == dead[0, FAST::49].sum()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.complaints == []


def test_the_harm_of_each_action_is_read_beside_the_plan(pages):
    page, folder = pages
    if not page.url.endswith("/road/report.html"):
        page.goto((folder / "road" / "report.html").as_uri())
    text = page.content().split('id="content">')[1].split("</script>")[0]
    last = json.loads(text)["films"]["lsvi-ahead"][-1]
    believed = np.zeros(ROAD.horizon * ROAD.states * ROAD.actions)
    believed[numbers(last["harm"]["at"], "<u4")] = numbers(last["harm"]["value"], "<f4")
    believed = believed.reshape(ROAD.horizon, ROAD.states, ROAD.actions)
    page.select_option("#velocity", label="3 right")
    page.focus('[data-board="lsvi-ahead"] svg')
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    x, shown = 5 * 49 + FAST, lambda amount: "0" if amount == 0 else "< 0.01" if amount < 0.005 else f"{amount:.2f}"
    assert "velocity 3 right: not viable, least harm-to-go 1.00" in page.text_content("#looked")
    rows = [row.split("\t")[1:] for row in page.inner_text(".harm-table").splitlines()[1:]]
    exact = by_loops(ROAD)[0, x]
    assert rows[:-1] == [[shown(a), shown(b)] for a, b in zip(believed[0, x], exact, strict=True)]
    assert rows[-1] == [shown(believed[0, x].min()), "1.00"]
    assert page.complaints == []


def test_a_problem_without_a_map_has_its_harm_by_state_and_step(pages):
    page, folder = pages
    problem = es.problems.thermostat(horizon=4)
    page.goto((folder / "thermostat" / "report.html").as_uri())
    element = "document.querySelector('[data-chart=\"harm\"]')"
    for _ in range(200):
        page.locator('[data-chart="harm"]').scroll_into_view_if_needed()
        if page.evaluate(f"{element}.data !== undefined"):
            break
        page.wait_for_timeout(50)
    drawn = page.evaluate(f"{element}.data[0].z.map((row) => Array.from(row, (each) => each ?? 0))")
    np.testing.assert_allclose(drawn, planner.least_harm(problem)[:-1], atol=1e-6)
    words = page.evaluate(f"{element}.data[0].text[0][0]")
    assert words.startswith(f"step 1: {problem.state_names[0]}<br>not viable")
    assert page.locator('[data-chart="harm-lsvi-ahead"]').count() == 1
    assert page.complaints == []
