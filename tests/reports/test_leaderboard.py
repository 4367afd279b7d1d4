"""Files of results and the leaderboard that is made of them."""

import itertools
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

import everystep as es
from everystep import files
from everystep.cli import main as command
from everystep.experiments import figures as drawing
from everystep.experiments.folder import run_folder
from everystep.reports.leaderboard import board, measures, results_files, text

pytestmark = pytest.mark.quick


def row(system="a", problem="lake", seed=0, harm=2.0, **others):
    """A valid row."""
    harmed = harm > 0
    return {
        "system": system, "problem": problem, "seed": seed, "steps": 100, "harm": harm, "unsafe_steps": 3 * harmed,
        "last_violation": 50 * harmed, "final_return": 1.0, "final_harm": 0.5, "final_episodes": 20,
        "command": "python train.py", "versions": '{"numpy": "2.1"}',
    } | others  # fmt: skip


def save(rows, path):
    """Write a table, or rows that may lack some of the columns of others."""
    if not isinstance(rows, pa.Table):
        names = dict.fromkeys(name for each in rows for name in each)
        rows = pa.table({name: [each.get(name) for each in rows] for name in names})
    pq.write_table(rows, path)
    return path


@pytest.fixture(scope="module")
def contest():
    """Four systems on two problems with five seeds, one system on one of them only."""
    rng = np.random.default_rng(1)
    rows = []
    for problem, low in (("lake", 0.0), ("pump", -300.0)):
        for system, kind, harm, share in (
            ("random", "rival", 9.0, 0.0),
            ("wild", "rival", 6.0, 1.0),
            ("careful", "rival", 3.0, 0.95),
            ("timid", "rival", 1.0, 0.5),
            ("mine", "ours", 0.5, 0.97),
            ("oracle", "reference", 0.0, 1.2),
        ):
            if (system, problem) == ("timid", "pump"):
                continue
            for seed in range(5 if system != "wild" else 4):
                noise = rng.uniform(0.8, 1.2)
                rows.append(
                    row(
                        system, problem, seed, harm * noise, kind=kind, last_violation=int(50 * noise) if harm else 0,
                        final_return=low + 100 * share * rng.uniform(0.99, 1.01),
                    )
                )  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def compared(contest, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    save(contest[:20], folder / "first.parquet")
    save(contest[20:], folder / "second.parquet")
    return es.leaderboard(folder)


# --- the format -------------------------------------------------------------------------------------------------------
def test_the_schema_is_one_and_its_rows_are_the_rows_that_are_read(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = results_files.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    full = row(kind="ours", settings="{}", seconds=1.0, harm_curve=[1.0, 2.0], return_curve=[0.0, 1.0], mine=3)
    assert check.is_valid(full)
    assert results_files.read([save([full], tmp_path / "full.parquet")]).to_pylist() == [full]
    for wrong in ({"harm": -1.0}, {"seed": "x"}, {"steps": 0}, {"kind": "best"}, {"system": ""}):
        assert not check.is_valid(full | wrong)
        with pytest.raises(es.EverystepError):
            results_files.read([save([full | wrong], tmp_path / "wrong.parquet")])


FAULTS = {
    "harm of row 2 is -1": {"harm": -1.0},
    "harm of row 2 is nan": {"harm": np.nan},
    "harm of row 2 is inf": {"harm": np.inf},
    "final_return of row 2 is nan": {"final_return": np.nan},
    "final_harm of row 2 is -2": {"final_harm": -2.0},
    "final_episodes of row 2 is 0": {"final_episodes": 0},
    "last_violation of row 2 is 101; give at most its steps, 100": {"last_violation": 101},
    "unsafe_steps of row 2 is 101; give at most its steps": {"unsafe_steps": 101},
    "unsafe_steps of row 2 is 51; give at most last_violation, 50": {"unsafe_steps": 51},
    "unsafe_steps of row 2 is 0; give more, because its harm is 2": {"unsafe_steps": 0},
    "last_violation of row 2 is 50; give 0, because its harm is 0": {"unsafe_steps": 0, "harm": 0.0},
    "versions of row 2 is 'numpy 2'; give": {"versions": "numpy 2"},
    "versions of row 2 is '[1]'; give a JSON object": {"versions": "[1]"},
    "kind of row 2 is 'best'; choose ours or rival or reference": {"kind": "best"},
    "settings of row 2 is '{'; give JSON": {"settings": "{"},
    "seconds of row 2 is -1": {"seconds": -1.0},
    "harm_curve of row 2 is 1.0; give a curve that ends at harm, 2.0": {"harm_curve": [0.5, 1.0]},
    "harm_curve of row 2 is [3.0, 2.0]; give finite numbers of at least 0": {"harm_curve": [3.0, 2.0]},
    "harm_curve of row 2 is": {"harm_curve": []},
    "return_curve of row 2 is": {"return_curve": [np.inf]},
    "system of row 2 is 'a b'": {"system": "a\nb"},
    "problem of row 2 is ''": {"problem": ""},
    "seed 0 of 'a' on 'lake' is also in": {"seed": 0},
    "kind of 'a' is 'ours', but 'rival' in": {"kind": "ours"},
}  # fmt: skip


@pytest.mark.parametrize("words", FAULTS)
def test_a_row_that_contradicts_the_format_is_refused_with_its_file_and_value(words, tmp_path):
    path = save([row(kind="rival"), row(kind="rival", seed=1) | FAULTS[words]], tmp_path / "some.parquet")
    with pytest.raises(es.EverystepError, match=re.escape(words)) as refused:
        es.leaderboard(path)
    assert "some.parquet" in str(refused.value)


def test_files_that_are_no_results_are_refused_by_the_command_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good = pa.Table.from_pylist([row()])
    save(good.drop_columns(["harm", "seed"]), tmp_path / "lacking.parquet")
    save(good.set_column(0, "system", pa.array([1])), tmp_path / "typed.parquet")
    save(good.set_column(2, "seed", pa.array([1.0])), tmp_path / "float.parquet")
    save(good.set_column(4, "harm", pa.array([None], pa.float64())), tmp_path / "null.parquet")
    save(good.slice(0, 0), tmp_path / "empty.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet", encoding="utf-8")
    (tmp_path / "nothing").mkdir()
    whole = save(good, tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    for words, names in {
        "has no column seed, harm; add": ["lacking.parquet"],
        "column system has the type int64; write it as string": ["typed.parquet"],
        "column seed has the type double; write it as int64": ["float.parquet"],
        "harm of row 1 is missing": ["null.parquet"],
        "has 0 rows": ["empty.parquet"],
        "'text.parquet' cannot be read as Parquet": ["text.parquet"],
        "'cut.parquet' cannot be read as Parquet": ["cut.parquet"],
        "'nothing' holds no .parquet file": ["nothing"],
        "'nowhere' cannot be read (No such file or directory)": ["nowhere"],
        "no files of results": [],
        "no system 'b'": ["whole.parquet", "--baseline", "b"],
        "--system is for --convert": ["whole.parquet", "--system", "b"],
        "page 'page.html' is no Markdown": ["whole.parquet", "--page", "page.html"],
    }.items():
        assert command.main(["leaderboard", *names]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_types_that_hold_the_same_values_are_read_and_other_columns_are_kept(tmp_path):
    table = pa.Table.from_pylist([row(seed=i) for i in range(2)])
    other = table.set_column(0, "system", table["system"].cast(pa.large_string()).dictionary_encode())
    other = other.set_column(1, "problem", pa.chunked_array([["pump"] * 2]))
    other = other.set_column(2, "seed", table["seed"].cast(pa.int32())).set_column(4, "harm", pa.array([2, 3]))
    other = other.append_column("kind", pa.nulls(2)).append_column("gpu", pa.array(["x", "y"]))
    save(table.append_column("gpu", pa.array([1, 2])), tmp_path / "a.parquet")
    save(other, tmp_path / "b.parquet")
    rows = es.leaderboard(tmp_path).rows
    assert rows["gpu"].to_pylist() == ["1", "2", "x", "y"]  # their types differ, so they are texts
    assert rows["harm"].to_pylist() == [2.0, 2.0, 2.0, 3.0]
    assert [str(rows[name].type) for name in ("system", "seed", "harm")] == ["string", "int64", "double"]
    assert board.kinds(rows) == {"a": "rival"}


# --- statistics -------------------------------------------------------------------------------------------------------
SCORES = [np.array([0.1, 0.9, 0.3, 0.7]), np.array([2.0, -1.0, 0.5]), np.array([0.4, 0.4, 1.5, 0.2])]


def resamples(scores, seed, n):
    """The same draws as the library, one resample after another."""
    rng = np.random.default_rng(seed)
    drawn = [each[rng.integers(len(each), size=(n, len(each)))] for each in scores]
    return [[each[i] for each in drawn] for i in range(n)]


def percentiles(values):
    return np.percentile(values, [2.5, 97.5], axis=0)


def test_the_interquartile_mean_is_that_of_the_middle_half_of_all_runs():
    found = measures.interquartile_mean(SCORES, np.random.default_rng(3), 40)
    mean = lambda parts: scipy.stats.trim_mean(np.concatenate(parts), 0.25)
    assert found.mean == pytest.approx(mean(SCORES))
    runs = sorted(np.concatenate(SCORES))
    assert found.mean == pytest.approx(sum(runs[2:-2]) / 7)  # of 11 runs int(11 / 4) are left out at each end
    assert [found.low, found.high] == pytest.approx(percentiles([mean(each) for each in resamples(SCORES, 3, 40)]))


def test_resamples_in_several_parts_are_as_many(monkeypatch):
    monkeypatch.setattr(measures, "AT_ONCE", 50)
    parts = list(measures._resampled(SCORES, np.random.default_rng(0), 10))
    assert [len(each[0]) for each in parts] == [4, 4, 2]


def test_a_profile_is_the_share_of_runs_above_each_number():
    taus = np.array([-2.0, 0.3, 0.4, 1.0, 2.0])
    found = measures.profile(SCORES, taus, np.random.default_rng(4), 30)
    share = lambda parts: [sum(run > tau for part in parts for run in part) / 11 for tau in taus]
    assert found.mean == pytest.approx(share(SCORES))
    low, high = percentiles([share(each) for each in resamples(SCORES, 4, 30)])
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


def test_the_probability_of_improvement_is_the_mean_of_mann_whitney_statistics():
    theirs = [np.array([0.3, 0.2]), np.array([1.0, 2.0, 3.0]), np.array([0.4])]
    found = measures.probability_of_improvement(SCORES, theirs, np.random.default_rng(0), 500)
    better = lambda xs, ys: np.mean([(x > y) + (x == y) / 2 for x, y in itertools.product(xs, ys)])
    loops = [better(*pair) for pair in zip(SCORES, theirs, strict=True)]
    u = [scipy.stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(SCORES, theirs, strict=True)]
    assert found.mean == pytest.approx(np.mean(loops))
    assert found.mean == pytest.approx(np.mean(u))
    assert found.low < found.mean < found.high
    rng = np.random.default_rng(9)
    again = lambda each: rng.choice(each, len(each))
    drawn = [np.mean([better(again(x), again(y)) for x, y in zip(SCORES, theirs, strict=True)]) for _ in range(500)]
    assert [found.low, found.high] == pytest.approx(percentiles(drawn), abs=0.06)


def test_holm_multiplies_by_the_number_of_hypotheses_that_are_left():
    assert measures.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])  # 0.03 x 2 holds for 0.04 x 1, too
    assert measures.holm([0.9, 0.8]) == [1.0, 1.0]
    assert measures.holm([]) == []


# --- the board --------------------------------------------------------------------------------------------------------
def values(rows, system, problem, name):
    return np.array([each[name] for each in rows if (each["system"], each["problem"]) == (system, problem)])


def test_a_table_has_the_systems_by_harm_with_means_and_paired_tests(compared, contest):
    assert compared.baseline == "mine"
    lake, pump = compared.problems
    assert [each.system for each in lake.rows] == ["oracle", "mine", "timid", "careful", "wild", "random"]
    assert [each.system for each in pump.rows] == ["oracle", "mine", "careful", "wild", "random"]
    raw = []
    for each in lake.rows:
        harm = values(contest, each.system, "lake", "harm")
        assert each.harm.mean == pytest.approx(harm.mean())
        assert each.harm.low <= each.harm.mean <= each.harm.high
        assert each.last_violation == np.median(values(contest, each.system, "lake", "last_violation"))
        assert each.final_return.mean == pytest.approx(values(contest, each.system, "lake", "final_return").mean())
        if each.system != "mine":
            n = min(len(harm), 5)
            pair = (harm[:n], values(contest, "mine", "lake", "harm")[:n])
            assert each.harm_difference.seeds == n  # `wild` has four seeds
            assert each.harm_difference.mean == pytest.approx(np.mean(pair[0] - pair[1]))
            test = scipy.stats.permutation_test(
                pair, lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
            )
            raw.append(test.pvalue)
    adjusted = [each.harm_difference.p for each in lake.rows if each.harm_difference]
    assert adjusted == pytest.approx(measures.holm(raw))
    assert lake.rows[1].harm_difference is None


def test_the_best_rival_reaches_nine_tenths_of_the_best_return_and_is_no_reference(compared, contest):
    lake, pump = compared.problems
    for table in (lake, pump):
        assert table.best_rival.system == "careful"  # timid does less harm, but earns half
        low_of = "random" if table is pump else ""  # means of the lake are positive, so that 0 is 0
        assert (table.units.low_of, table.units.high_of, table.units.harm_of) == (low_of, "wild", "careful")
    mean = lambda system: values(contest, system, "pump", "final_return").mean()
    share = (mean("mine") - mean("random")) / (mean("wild") - mean("random"))
    assert pump.rows[1].share == pytest.approx(share)  # of negative returns
    harm = values(contest, "mine", "pump", "harm").mean() / values(contest, "careful", "pump", "harm").mean()
    words = compared.text()
    assert (
        f"mine (ours): {harm:.2g} times the harm of the best rival; {100 * share:.0f} % of the best final return"
        in words
    )
    assert "oracle (reference)" in words


def test_without_random_the_lowest_mean_is_zero_and_the_most_harmful_system_one(tmp_path):
    rows = [row("a", seed=0, harm=4.0, final_return=-9.0), row("b", seed=0, harm=8.0, final_return=-1.0)]
    rows.append(row("wise", seed=0, harm=90.0, final_return=50.0, kind="reference"))
    (table,) = es.leaderboard(save(rows, tmp_path / "r.parquet")).problems
    assert table.units == board.Units(-9.0, -1.0, 8.0, "a", "b", "b", "b")
    assert [each.share for each in table.rows] == [0.0, 1.0, 59 / 8]
    assert table.best_rival.system == "b"
    equal = [row("a", harm=0.0), row("b", harm=0.0)]
    (table,) = es.leaderboard(save(equal, tmp_path / "e.parquet")).problems
    assert [each.share for each in table.rows] == [1.0, 1.0]
    assert "no system did harm" in text.plain(es.leaderboard(tmp_path / "e.parquet"))


def test_a_return_that_is_earned_by_breaking_the_limit_at_the_end_does_not_count(tmp_path):
    rows = [row("wild", seed=0, harm=50.0, final_return=100.0, final_harm=10.0)]
    rows += [row("good", seed=0, harm=5.0, final_return=50.0, final_harm=1.0), row("low", final_return=40.0)]
    (table,) = es.leaderboard(save(rows, tmp_path / "r.parquet")).problems
    assert (table.units.high_of, table.best_rival.system) == ("good", "good")
    assert {each.system: each.share for each in table.rows} == {"wild": 2.0, "good": 1.0, "low": 0.8}


def test_the_aggregate_has_systems_on_all_problems_in_units_of_each(compared, contest):
    found = compared.aggregate
    assert [each.system for each in found.rows] == ["oracle", "mine", "careful", "wild", "random"]
    assert found.left_out == {"timid": ["pump"]}
    assert "timid (not on pump)" in compared.text()
    runs = np.concatenate(
        [values(contest, "careful", p, "harm") / values(contest, "careful", p, "harm").mean() for p in ("lake", "pump")]
    )
    careful = found.rows[2]
    assert careful.harm.mean == pytest.approx(scipy.stats.trim_mean(runs, 0.25))
    assert careful.harm_at_most.mean == pytest.approx([(runs <= tau).mean() for tau in found.harms])
    assert (careful.harm_at_most.low <= careful.harm_at_most.high).all()
    assert careful.less_harm.mean == 0
    assert found.rows[0].less_harm.mean == 1
    assert found.rows[1].less_harm is None


def test_the_command_writes_a_page_all_rows_and_two_figures(contest, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drawing, "DPI", 30)
    (tmp_path / "in").mkdir()
    save(contest, tmp_path / "in" / "all.parquet")
    words = ["leaderboard", "in", "--out", "in/board"]
    assert command.main([*words, "--page", "docs.md"]) == 0
    printed = capsys.readouterr().out
    assert "Best rival: careful" in printed
    out = tmp_path / "in" / "board"
    written = {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."}
    assert set(written) == {"leaderboard.md", "leaderboard.parquet", "overview.png", "profiles.png"}
    assert pq.read_table(out / "leaderboard.parquet").num_rows == len(contest)
    page = (tmp_path / "docs.md").read_text(encoding="utf-8")
    assert page.startswith("# Leaderboard\n")
    assert "$" not in page
    for name in ("overview", "profiles"):
        assert f"](figures/docs-{name}.png)" in page
        assert (tmp_path / "figures" / f"docs-{name}.png").read_bytes() == written[f"{name}.png"]
    assert command.main(words) == 0  # its own leaderboard.parquet is not read again, and its own files are replaced
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."} == written
    assert command.main([*words, "--page", "docs.md"]) == 2
    assert "--force" in capsys.readouterr().err


def test_names_with_markup_stay_names_in_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "DPI", 30)
    assert text.literal("a|b*c_$") == r"a\|b\*c\_\$"
    path = save([row("a|b$x$"), row("<b>", harm=1.0)], tmp_path / "r.parquet")
    lines = [line for line in es.leaderboard(path).markdown().splitlines() if line.startswith("|")]
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert cells == {9, 6}
    es.leaderboard(path).write(tmp_path / "out")


# --- other software ---------------------------------------------------------------------------------------------------
def monitor(path, episodes, names="r,l,t,harm", header='#{"t_start": 1.5, "env_id": "Cart"}'):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join([header, names, *(",".join(map(str, each)) for each in episodes)]) + "\n", encoding="utf-8"
    )
    return path


def test_monitor_files_become_rows_at_the_resolution_of_episodes(tmp_path, capsys):
    monitor(
        tmp_path / "ppo_seed3.monitor.csv", [(5, 10, 0.1, 0.5), (7, 20, 0.2, 0), (8, 10, 0.3, 1.5), (9, 60, 0.4, 0)]
    )
    monitor(tmp_path / "ppo_seed4.monitor.csv", [(1, 50, 0.1, 0)] * 30)
    words = ["leaderboard", "--convert", str(tmp_path), "--system", "ppo", "--problem", "cart", "--out"]
    assert command.main([*words, str(tmp_path / "new" / "ppo.parquet"), "--versions", '{"torch": "2.4"}']) == 0
    assert "2 rows of ppo on cart" in capsys.readouterr().out
    first, second = pq.read_table(tmp_path / "new" / "ppo.parquet").to_pylist()
    assert {name: first[name] for name in ("seed", "steps", "harm", "unsafe_steps", "last_violation")} == {
        "seed": 3, "steps": 100, "harm": 2.0, "unsafe_steps": 20, "last_violation": 40,
    }  # fmt: skip
    assert (first["final_return"], first["final_harm"], first["final_episodes"]) == (9.0, 0.0, 1)
    assert (first["versions"], first["seconds"], first["kind"]) == ('{"torch": "2.4"}', 0.4, "rival")
    ends = np.array([10, 30, 40, 100])
    for i, harm in enumerate(first["harm_curve"]):  # at steps 2, 4, ..., 100
        assert harm == sum(h for end, h in zip(ends, (0.5, 0, 1.5, 0), strict=True) if end <= 2 * (i + 1))
    assert {i: each for i, each in enumerate(first["return_curve"]) if each == each} == {
        4: 5.0,
        14: 7.0,
        19: 8.0,
        49: 9.0,
    }
    assert (second["last_violation"], second["final_episodes"]) == (0, 9)
    assert json.loads(first["settings"])["last_violation"] == "the end of the last episode with harm"


def test_final_policies_and_counted_unsafe_steps_are_used_if_they_are_there(tmp_path):
    for seed in (0, 1):
        monitor(tmp_path / "train" / f"{seed}.monitor.csv", [(5, 10, 0.1, 4, 0.5)], "r,l,t,unsafe_steps,cost")
        monitor(tmp_path / "eval" / f"{seed}.monitor.csv", [(5 + seed, 10, 0.1, 0), (7, 10, 0.1, 1)], "r,l,t,cost")
    out = es.convert_monitor(
        tmp_path / "train", tmp_path / "sac.parquet", system="sac", problem="cart", final=tmp_path / "eval",
        harm_column="cost", seeds=[7, 8], kind="ours",
    )  # fmt: skip
    rows = pq.read_table(out).to_pylist()
    assert [each["seed"] for each in rows] == [7, 8]
    assert [each["final_return"] for each in rows] == [6.0, 6.5]
    assert [(each["unsafe_steps"], each["final_harm"], each["final_episodes"]) for each in rows] == [(4, 0.5, 2)] * 2
    assert json.loads(rows[0]["settings"])["unsafe_steps"] == "counted"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"header": "r,l,t,harm"}, "begins with 'r,l,t,harm', not # and JSON"),
        ({"names": "r,l,t,cost"}, "has no column harm, only r, l, t, cost"),
        ({"episodes": []}, "has no episode"),
        ({"episodes": [(1, 2, 3)]}, "episode 1 has 3 values instead of 4"),
        (
            {"episodes": [(1, 2, 3, 0), (1, 2, 3, -1)]},
            "harm of episode 2 is '-1'; it must be a finite number of at least 0",
        ),
        ({"episodes": [("nan", 2, 3, 0)]}, "r of episode 1 is 'nan'"),
        ({"episodes": [(1, 2.5, 3, 0)]}, "l of episode 1 is '2.5'; it must be a whole number of at least 1"),
    ],
)
def test_what_is_no_monitor_file_is_refused(content, words, tmp_path):
    monitor(tmp_path / "0.monitor.csv", **({"episodes": [(1, 2, 3, 0)]} | content))
    with pytest.raises(es.EverystepError, match=re.escape(words)):
        es.convert_monitor(tmp_path, tmp_path / "x.parquet", system="s", problem="p")


def test_seeds_of_monitor_files_must_be_clear(tmp_path):
    convert = lambda **more: es.convert_monitor(tmp_path, tmp_path / "x.parquet", system="s", problem="p", **more)
    with pytest.raises(es.EverystepError, match="holds no file"):
        convert()
    monitor(tmp_path / "v2-17.monitor.csv", [(1, 2, 3, 0)])
    with pytest.raises(es.EverystepError, match="does not name one seed"):
        convert()
    monitor(tmp_path / "seed-2" / "monitor.csv", [(1, 2, 3, 0)])
    with pytest.raises(es.EverystepError, match="has 2 files; give one for each"):
        convert(seeds=[1])
    assert pq.read_table(convert(seeds=[2, 1]))["seed"].to_pylist() == [1, 2]
    (tmp_path / "v2-17.monitor.csv").rename(tmp_path / "seed2.monitor.csv")
    with pytest.raises(es.EverystepError, match="are both of seed 2"):
        convert()


def test_a_training_of_everystep_becomes_rows(tmp_path, capsys):
    """Its folder, written by hand: nothing is trained here."""
    spec = {"kind": "training", "environment": "Cart", "agent": "lsvi-ae", "seed": 3}
    columns = {"return": [1.0, 2.0], "length": [10, 30], "violation": [0.5, 0.0], "unsafe_steps": [2, 0]}
    with run_folder.folder(tmp_path / "run", spec, False) as folder:
        files.write_json(folder / "spec.json", spec)
        pq.write_table(pa.table(columns), folder / "episodes.parquet")
    words = [
        "leaderboard",
        "--convert",
        str(tmp_path / "run"),
        "--system",
        "lsvi-ae",
        "--problem",
        "cart",
        "--kind",
        "ours",
    ]
    assert command.main([*words, "--out", str(tmp_path / "ours.parquet")]) == 0
    (found,) = pq.read_table(tmp_path / "ours.parquet").to_pylist()
    assert (found["seed"], found["steps"], found["harm"], found["unsafe_steps"], found["last_violation"]) == (
        3,
        40,
        0.5,
        2,
        10,
    )
    assert (found["final_return"], found["kind"]) == (2.0, "ours")
    assert command.main([*words, "--out", str(tmp_path / "ours.parquet"), "--seeds", "1"]) == 2
    assert "--seeds is for monitor files" in capsys.readouterr().err
