"""The report of a run folder: the page in a real browser, compared with the folder."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from browser import chromium

from everystep import files
from everystep.cli import main
from everystep.errors import EverystepError
from everystep.experiments import experiment, statistics
from everystep.experiments.folder import finished, rerun
from everystep.experiments.reductions import WINDOW
from everystep.experiments.result import Result
from everystep.problems import from_map, frozen_lake, streaming
from everystep.problems.grids import MOVES
from everystep.web import assets, charts, report, watch

NAME = "<script>alert(1)</script>"
EPISODES, SEEDS = 60, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small run on a map with a malicious name, and its report."""
    pond = from_map(["SFFF", "FHFH", "F.#G"], horizon=8, name=NAME)
    out = tmp_path_factory.mktemp("report") / "run"
    experiment.run(pond, ["lsvi-ae", "lsvi"], EPISODES, range(4, 4 + SEEDS)).save(out, figures=False)
    report.write(out)
    return out


@pytest.fixture(scope="module")
def content(folder):
    """The JSON in the page."""
    text = (folder / "report.html").read_text(encoding="utf-8")
    inside = text.split('<script type="application/json" id="content">')[1].split("</script>")[0]
    return json.loads(inside)


@pytest.fixture(scope="module")
def page(folder):
    """The page opened from the disk; its errors and network requests are collected in `complaints`."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.complaints = []
        page.on("console", lambda line: page.complaints.append(line.text) if line.type != "log" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (page.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda sent: page.complaints.append(sent.url) if "report.html" not in sent.url else None)
        page.goto((folder / "report.html").as_uri())
        until(page, "document.querySelectorAll('.js-plotly-plot').length >= 6")
        yield page


def until(page, true):
    """Wait for it to be true by polling: the page's policy forbids the evaluation of texts."""
    for _ in range(300):
        if page.evaluate(true):
            return
        page.wait_for_timeout(50)
    raise AssertionError(true)


def drawn(page, chart, name):
    """A curve as Plotly has it."""
    return page.evaluate(
        """([chart, name]) => {
            const trace = document.querySelector(`[data-chart="${chart}"]`).data.find((each) => each.name === name);
            return [Array.from(trace.x), Array.from(trace.y)];
        }""",
        [chart, name],
    )


def column(folder, agent, name):
    table = pq.read_table(folder / "episodes.parquet").to_pylist()
    return np.array([row[name] for row in table if row["agent"] == agent]).reshape(SEEDS, EPISODES)


def test_the_report_opens_from_a_file_without_complaint_or_network(page):
    assert page.title() == f"{NAME} · everystep report"
    assert page.complaints == []


def test_a_name_that_looks_like_a_script_is_shown_as_text(page, folder):
    assert page.inner_text("h1") == NAME
    assert "4 to 6" in page.inner_text("dl.facts")  # the seeds
    assert NAME in page.locator("#map svg").get_attribute("aria-label")
    assert NAME not in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.quick
@pytest.mark.parametrize("agent", ["lsvi-ae", "lsvi"])
def test_curves_hold_the_numbers_of_the_folder(page, folder, agent):
    of = lambda name: column(folder, agent, name)
    expected = {
        "return": statistics.moving_average(of("return"), WINDOW),
        "violation": statistics.moving_average(of("violation"), WINDOW),
        "cumulative_regret": np.cumsum(of("regret"), 1),
        "cumulative_violation": np.cumsum(of("violation"), 1),
    }
    for chart, curves in expected.items():
        x, mean = drawn(page, chart, agent)
        assert x == list(range(1, EPISODES + 1))
        np.testing.assert_allclose(mean, curves.mean(0), rtol=0, atol=1e-12)
        _, seeds = drawn(page, chart, f"{agent} seeds")
        single = np.array(seeds, float).reshape(SEEDS, EPISODES + 1)
        np.testing.assert_allclose(single[:, :-1], curves, rtol=1e-6, atol=1e-6)
        assert np.isnan(single[:, -1]).all()


def places(page, marks):
    """Where marks lie on a board of 4 x 3 cells: in tenths of a cell, from its left and its top."""
    found = page.eval_on_selector_all(
        marks,
        """all => all.map((each) => {
            const mark = each.getBoundingClientRect();
            const cells = each.closest("svg").querySelector(".ground").getBoundingClientRect();
            const middle = [mark.left + mark.width / 2 - cells.left, mark.top + mark.height / 2 - cells.top];
            return [Math.round(40 * middle[0] / cells.width), Math.round(30 * middle[1] / cells.height)];
        })""",
    )
    return sorted(map(tuple, found))


def beside(pair):
    """The side of the cell that an action goes to, in tenths of a cell."""
    x, a = pair
    down, right = MOVES[a]
    return 10 * (x % 4) + 5 + 5 * right, 10 * (x // 4) + 5 + 5 * down


def test_the_slider_changes_the_map_to_the_right_episode(page, folder):
    again = rerun.read(folder).again(1)
    players = {label: watch.Player(again, label, 4) for label in ("lsvi-ae", "lsvi")}
    stops = watch.moments(EPISODES, report.FRAMES)
    shown = {label: watch.film(player, stops).frames for label, player in players.items()}
    most = max(int(film[-1].visits.max()) for film in shown.values())
    for moment in (0, 5, len(stops) - 1):
        page.locator("#moment").fill(str(moment))
        assert page.inner_text("#now") == f"after {stops[moment]} of {EPISODES} episodes"
        for label, film in shown.items():
            cells = f'[data-board="{label}"] .cell'
            heat = page.eval_on_selector_all(cells, "all => all.map((each) => each.style.getPropertyValue('--heat'))")
            expected = np.log1p(film[moment].visits) / np.log1p(most)
            for x, each in enumerate(heat):
                assert x == 10 or float(each) == pytest.approx(expected[x], abs=6e-4)  # 10 is the wall
            unsafe = {(x, a) for frame in film[: moment + 1] for _, _, x, a, _ in frame.violations}
            assert places(page, f'[data-board="{label}"] .bolt') == sorted(map(beside, unsafe))
    safe = (shown["lsvi-ae"][-1].labels[[x for x in range(12) if x not in (10, 11)]] == watch.SAFE).sum()
    assert page.locator('[data-board="lsvi-ae"] .mark.safe:not([visibility="hidden"])').count() == safe > 0
    assert page.locator('[data-board="lsvi"] .mark:not([visibility="hidden"])').count() == 0


def test_the_player_is_used_by_keyboard(page):
    page.locator("#moment").fill("3")
    page.focus("#moment")
    page.keyboard.press("ArrowRight")
    assert page.locator("#moment").input_value() == "4"
    page.focus("#play")
    page.keyboard.press("Enter")
    until(page, "Number(document.getElementById('moment').value) > 6")
    assert page.inner_text("#play") == "Pause"
    page.keyboard.press("Enter")
    assert page.inner_text("#play") == "Play"
    page.focus('[data-board="lsvi"] svg')
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#looked").startswith("LSVI. Row 1, column 2 (free) · ")


def test_agents_and_scales_are_switched(page):
    names = lambda: page.evaluate("document.querySelector('[data-chart=violation]').data.map((each) => each.name)")
    page.uncheck('[data-agent="lsvi"]')
    until(page, "document.querySelector('[data-chart=violation]').data.every((e) => !e.name.match(/lsvi($| )/))")
    assert "lsvi-ae" in names()
    page.check('[data-agent="lsvi"]')
    page.check('[name="curves-scale"][value="log"]')
    until(page, "document.querySelector('[data-chart=violation]').layout.yaxis.type === 'log'")
    page.check('[name="curves-scale"][value="linear"]')


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_overflows_on_a_narrow_screen_in_the_dark(page, width):
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    assert page.complaints == []


def test_agents_that_have_a_price_have_a_chart_of_it(content):
    (price,) = (panel for panel in content["charts"] if panel["section"] == "price")
    assert (price["name"], price["agent"]) == ("price-lsvi-ae", "lsvi-ae")
    assert len(price["z"][0]) == 8


def test_one_record_more_is_one_chart_more(folder, monkeypatch):
    def visited(inputs):
        return [charts.Panel(None, charts.learning_curve("return", inputs)[0].content)]

    record = charts.Chart("mine", "curves", "A chart of <mine>", "number", visited, "Its caption.")
    monkeypatch.setattr(charts, "CHARTS", (*charts.CHARTS, record))
    text = report.page(rerun.read(folder, report.COLUMNS), report.FirstSeed({}, []))
    assert "A chart of &lt;mine&gt;" in text
    assert "Its caption." in text
    assert 'data-chart="mine"' in text


def test_a_run_that_cannot_be_repeated_has_a_page_without_a_player(folder):
    kept = rerun.read(folder, report.COLUMNS)
    other = {label: {**curves, "value": curves["value"] + 1} for label, curves in kept.curves.items()}
    shown = report.run_first_seed(replace(kept, curves=other))
    assert shown.films == {}
    assert "run again gives a different value of lsvi-ae" in shown.remarks[0]
    text = report.page(kept, shown)
    assert "There is no player" in text
    assert 'id="moment"' not in text


def test_a_problem_without_a_map_has_a_page_without_a_player(tmp_path):
    experiment.run(streaming(), ["lsvi"], 5, 2).save(tmp_path / "run", figures=False)
    out = report.write(tmp_path / "run", tmp_path / "page.html", player=False)
    assert "data:image/png;base64," in out.read_text(encoding="utf-8")
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_folder_that_holds_no_run_is_refused(tmp_path, capsys):
    assert main.main(["report", str(tmp_path)]) == 2
    assert "holds no run; give a folder written by `everystep run`." in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_refused(folder):
    with pytest.raises(EverystepError, match=r"nowhere.*cannot be written"):
        report.write(folder, folder / "nowhere" / "page.html", player=False)


def test_a_problem_whose_frames_are_too_large_has_no_player(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MOST_BYTES", 1000)
    text = report.write(folder, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "There is no player and no price chart, because 12 frames for 12 states and 8 steps would take" in text
    assert json.loads(text.split('id="content">')[1].split("</script>")[0])["films"] == {}


def test_sixty_four_seeds_of_three_agents_fit_in_15_megabytes(tmp_path):
    rng, K = np.random.default_rng(0), 1000
    prepared = experiment.prepare(frozen_lake(), ["lsvi-ae", "lsvi", "lsvi-primal"], K, 64)
    curves = {label: {name: rng.random((64, K)) for name in report.COLUMNS[:4]} for label in prepared.agents}
    visits = {f"{label}_{when}": np.zeros((64, 100), int) for label in curves for when in (500, "end")}
    result = Result(prepared.problem, prepared.spec, curves, visits)
    np.savez(tmp_path / "visits.npz", **visits)
    (tmp_path / "summary.json").write_text(json.dumps(result.summary), encoding="utf-8")
    names = ("visits.npz", "summary.json")
    record = "".join(f"{files.seal(tmp_path / name).sha256}  {name}\n" for name in names)
    (tmp_path / files.RECORD).write_text(record, encoding="utf-8")
    when = watch.moments(K, report._frames_at_most(prepared.problem, 3))
    frame = lambda k: watch.Frame(
        k, rng.integers(10_000, size=100), rng.integers(4, size=(15, 100)), rng.integers(3, size=(100, 4)),
        [(k, 15, 99, 3, 1.0)] * (15 * K // len(when)), dict.fromkeys(watch.SUMMED, rng.random()),
    )  # fmt: skip
    film = watch.Film([frame(k) for k in when], {}, rng.random((K, 1, 15)))
    run = rerun.Run(finished.FinishedFolder(tmp_path, prepared.spec), prepared.problem, curves)
    text = report.page(run, report.FirstSeed(dict.fromkeys(curves, film), []))
    assert len(when) > 100
    assert len(text.encode()) < 15e6


def test_the_page_reports_what_was_thinned(tmp_path):
    K = 3000
    prepared = experiment.prepare(streaming(), ["lsvi"], K, 70)
    curves = {"lsvi": {name: np.zeros((70, K)) for name in report.COLUMNS[:4]}}
    inputs = charts.ChartInputs(Result(prepared.problem, prepared.spec, curves, {}), {})
    (panel,) = charts.learning_curve("return", inputs)
    assert len(panel.content["episodes"]) == 2000
    assert charts.thinning_remarks(inputs) == [
        "Means are drawn at 2,000 of 3,000 episodes.",
        "Single seeds are drawn at 250 of 3,000 episodes.",
        "Single seeds are the first 64 of 70; means and intervals use all seeds.",
    ]


@pytest.mark.quick
def test_no_text_in_json_can_leave_its_script():
    wild = {"name": "</script><!-- & \u2028"}
    text = str(assets.as_json(wild))
    assert not set("<>&") & set(text)
    assert json.loads(text) == wild


@pytest.mark.quick
def test_modules_in_one_page_neither_import_nor_export_nor_clash():
    text = assets.one_module(["harm.js", "board.js", "curves.js", "charts.js", "report.js"])
    tops = [
        line.split("(")[0].split()[1]
        for line in text.splitlines()
        if line.startswith(("function ", "class ", "const "))
    ]
    assert "import {" not in text
    assert "\nexport " not in text
    assert len(set(tops)) == len(tops) > 20
