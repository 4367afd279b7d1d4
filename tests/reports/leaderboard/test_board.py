"""The tables of a board and their reference."""

import numpy as np
import pytest
import scipy.stats
from helpers.results import row, save

import everystep as es
from everystep.reports.leaderboard import board, measures, text

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def compared(contest, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    save(contest[:20], folder / "first.parquet")
    save(contest[20:], folder / "second.parquet")
    return es.leaderboard(folder)


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
        f"mine (ours): {harm:.2g} times the violation of the best rival; {100 * share:.0f} % of the best final return"
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
    assert "no system violated the limit" in text.plain(es.leaderboard(tmp_path / "e.parquet"))


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
