"""Sharded tensors on pages: parts joined to the whole, replicas averaged, and which of both is said."""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import pytest
from tests.cli.conftest import job
from tests.dashboard.conftest import settled
from tests.rules.tensor_rows import tensor

from holter.drawing.figure import figure as html
from holter.schema.table import Table
from holter.schema.tables import TABLES
from holter.store.job import find
from holter.store.parquet.queries import footer, literal
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.figures import draw
from holter.views.reading import Reading
from holter.views.tensors import STATISTICS, catalog

STEPS, LACKING = 8, 5
DRAWN = np.random.default_rng(7)
WHOLE = {
    "0.weight": np.cumsum(0.01 * DRAWN.standard_normal((STEPS, 40)), axis=0) + 1,
    "gradient/0.weight": DRAWN.standard_normal((STEPS, 40)),
    "gradient/0.bias": DRAWN.standard_normal((STEPS, 1)),
}
"""By step the elements of each tensor; of the bias one of two ranks has nothing."""
BINS = 4


def write(store, name, *, sharded, ranks=2):
    """Write what ranks save that train a model sharded, or each the whole of it."""
    folder = job(name, str(store))
    rows, bins = [], []
    for rank in range(ranks):
        for one, values in WHOLE.items():
            mine = {
                step: np.array_split(drawn, ranks)[rank] if sharded else drawn + rank
                for step, drawn in enumerate(values)
                if not (sharded and rank and step == LACKING)
            }
            told = {"part": rank, "parts": ranks} if sharded else {}
            role = "grad" if "/" in one else "weight"
            rows += [{**row, **told} for row in tensor(one, mine, role=role, rank=rank)]
            for step, values_ in mine.items():
                place = {"time": step, "rank": rank, "step": step, "mode": "train", "name": one}
                heights = np.histogram(values_, BINS)[0] if len(values_) else np.zeros(BINS)
                for position, height in enumerate(heights):
                    bins.append({**place, "kind": "histogram", "position": position, "value": float(height)})
    writer = Writer(folder, "n0")
    for table, listed in (("tensors", rows), ("tensor_values", bins)):
        columns = dict(Table.of(table, listed).columns)
        del columns["node"]
        writer.append(table, columns)
    assert writer.close()
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = tmp_path_factory.mktemp("sharded") / "store"
    write(store, "sharded", sharded=True)
    write(store, "replicas", sharded=False)
    older = write(store, "older", sharded=True)
    for path in sorted((older.place.path / "tensors").rglob("*.parquet")):
        rows = duckdb.sql(
            f"SELECT * EXCLUDE (part, parts) FROM read_parquet({literal(str(path))})"
        ).to_arrow_table()
        says = footer(TABLES["tensors"], "n0", len(rows), 0, 2**62)
        told = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in says.items())
        duckdb.execute(f"COPY rows TO {literal(str(path))} (FORMAT parquet, KV_METADATA {{{told}}})")
    return store


@pytest.fixture(scope="module")
def readings(store):
    return {
        name: Reading(Trial(find(str(store), name)), width=50) for name in ("sharded", "replicas", "older")
    }


def columns(figure):
    return {series.name: series.values for series in figure.series}


def test_a_layer_map_of_shards_has_the_norms_of_the_whole(readings):
    figure = draw("layer_map", readings["sharded"], role="any")
    for name, values in WHOLE.items():
        drawn, norms = list(columns(figure)[name]), [float(np.linalg.norm(one)) for one in values]
        assert (drawn.pop(LACKING), bool(norms.pop(LACKING))) == (None, True)
        assert drawn == pytest.approx(norms, rel=1e-5), name
    assert "Sharded tensors are joined over 2 parts." in figure.note
    assert "At 1 saved step a part is missing" in figure.note
    assert "Mean" not in figure.note


def test_updates_are_compared_with_the_whole_weight(readings):
    figure = draw("layer_map", readings["sharded"], statistic="update_ratio", role="weight")
    weight = WHOLE["0.weight"]
    expected = [np.linalg.norm(b - a) / np.linalg.norm(b) for a, b in itertools.pairwise(weight)]
    drawn = dict(zip(figure.x, columns(figure)["0.weight"], strict=True))
    assert drawn[3] == pytest.approx(expected[2], rel=1e-5)
    # Rank 0 had a row in between, rank 1 had none: their changes are over different steps.
    assert [drawn.get(step) for step in (LACKING, LACKING + 1)] == [None, None]
    assert drawn[7] == pytest.approx(expected[6], rel=1e-5)


@pytest.mark.parametrize("statistic", sorted(STATISTICS))
def test_every_statistic_of_shards_is_that_of_the_whole_or_is_left_out(readings, statistic):
    figure = draw("layer_map", readings["sharded"], statistic=statistic, role="any")
    if statistic in ("q05", "q50", "q95"):
        assert set(columns(figure)) == {"gradient/0.bias"}, "one part has all elements"
    elif statistic == "dead":
        assert isinstance(figure, str)
    else:
        assert "0.weight" in columns(figure)
        assert "<svg" in html(figure)


def test_one_ranks_part_is_shown_where_it_is_asked_for(readings):
    figure = draw("layer_map", readings["sharded"], rank=0)
    part = np.array_split(WHOLE["gradient/0.weight"][LACKING], 2)[0]
    assert columns(figure)["gradient/0.weight"][LACKING] == pytest.approx(np.linalg.norm(part), rel=1e-5)
    assert "Of sharded tensors the part that rank 0 holds, one of 2." in figure.note


def test_replicas_are_averaged_and_jobs_that_do_not_tell_are_said_to_be(readings):
    norms = [[np.linalg.norm(one + rank) for one in WHOLE["gradient/0.weight"]] for rank in (0, 1)]
    figure = draw("layer_map", readings["replicas"])
    assert columns(figure)["gradient/0.weight"] == pytest.approx(np.mean(norms, axis=0).tolist(), rel=1e-5)
    assert figure.note.endswith("Mean of 2 ranks.")
    older = draw("layer_map", readings["older"])
    assert "Mean of 2 ranks. The job does not say which tensors are sharded" in older.note


def test_spreads_of_shards_are_joined_but_for_quantiles(readings):
    spread = draw("tensor_quantiles", readings["sharded"], tensor="0.weight")
    (series,) = spread.series
    assert series.low[0] == pytest.approx(WHOLE["0.weight"][0].min(), rel=1e-5)
    assert "Quantiles of parts do not join" in spread.note
    heights = draw("tensor_histogram", readings["sharded"], tensor="0.weight")
    assert heights.x == [step for step in range(STEPS) if step != LACKING]
    for column in zip(*(one.values for one in heights.series), strict=True):
        assert sum(value or 0 for value in column) == pytest.approx(100, rel=1e-6)
    assert "Joined over 2 parts." in heights.note
    assert draw("tensor_histogram", readings["sharded"], tensor="gradient/0.bias").x == heights.x


def test_the_list_tells_the_size_of_the_whole(readings):
    listed = {row["name"]: row for row in catalog(readings["sharded"].trial)}
    for name, values in WHOLE.items():
        assert listed[name]["elements"] == values.shape[1]
        assert listed[name]["abs_mean"] == pytest.approx(np.abs(values[-1]).mean(), rel=1e-5)


@pytest.mark.slow
def test_the_page_says_how_ranks_are_shown(look):
    seen = look("/jobs/sharded/training")
    page = seen.page
    settled(page)
    chart = page.locator("[data-island=layer-map]")
    told = chart.locator(".told")
    chart.locator("[role=application]").focus()
    page.keyboard.press("ArrowDown")
    name = "gradient/0.weight"
    place, _, value = told.inner_text().rpartition(": ")
    assert (place, float(value)) == (
        f"{name}, step 0",
        pytest.approx(np.linalg.norm(WHOLE[name][0]), rel=1e-2),
    )
    for _ in range(LACKING):
        page.keyboard.press("ArrowRight")
    assert told.inner_text() == f"{name}, step {LACKING}: nothing"
    assert "joined over 2 parts" in chart.inner_text()
    assert "joined over 2 parts" in page.locator("[data-figure=tensor_histories]").inner_text()
    page.goto(page.url.replace("sharded/", "replicas/"))
    settled(page)
    assert "Mean of 2 ranks." in chart.inner_text()
    assert seen.wrong == []
