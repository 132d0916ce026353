"""The page about learning: losses, learning rate, gradient norm, tensors and the first NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from holter.analysis.verdict.evidence import counted
from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.forms import choice, entry, form, lines, link, number, picture, pictures
from holter.pages.islands import island
from holter.pages.layout import ALL_RANKS, bare, grid
from holter.pages.tables import Number, sortable
from holter.views.figures.tensors._statistics import MODES, NOTHING
from holter.views.figures.tensors.tensor_histories import MOST
from holter.views.jobs import RUNNING
from holter.views.tensors import STATISTICS, catalog, first_nonfinite, matching, statistic
from holter.views.wording import value_text, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading
    from holter.views.tensors import SavedTensor

TITLE = "Training"
SHOWN = 60
A_PAGE = 100
_MAPS = ("l2", "update_ratio", "dead")
"""What layers are compared by first."""
_WAITING = "No loss and no tensor has been recorded so far."


def missing(reading: Reading) -> str | None:
    """Say how to record numbers and tensors of the training."""
    told = reading.description
    if told["numbers"] or told["tensors"] or first_nonfinite(reading.trial):
        return None
    return _WAITING if told["job"]["status"] in RUNNING else f"No loss was seen. {NOTHING}"


def draw(reading: Reading, asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the page."""
    charts = (
        bare(picture(rendering, reading, name, asked), columns=columns)
        for name, columns in (("losses", 12), ("gradient_norm", 6), ("learning_rate", 6))
    )
    parts = [tag("h1", TITLE), _first_nonfinite(reading), grid(*charts)]
    rows = catalog(reading.trial)
    if not rows:
        return html(*parts) + tag("p", prose(NOTHING), class_="empty")
    statistic(asked.get("statistic") or "abs_mean")
    parts += _map(rendering, reading, asked, rows)
    found = matching(rows, asked.get("search", ""), asked.get("collection", ""))
    shown = lines(asked.get("tensor", ""))[:MOST] or _first(found)
    parts += _histories(rendering, reading, asked, shown)
    parts += _list(rendering, asked, rows, found, shown)
    return html(*parts)


def _first(rows: Sequence[SavedTensor]) -> list[str]:
    """Return the tensors that are drawn when none was chosen: gradients, if there are any."""
    gradients = [row for row in rows if row["role"].startswith("grad")]
    return [row["name"] for row in (gradients or rows)[:MOST]]


def _first_nonfinite(reading: Reading) -> Markup:
    """Say where the first NaN or infinity came from."""
    found = first_nonfinite(reading.trial)
    if found is None:
        return Markup()
    where, detail = found["name"] or "the training", found["detail"]
    said = {
        "event": f"in the {detail.get('direction', '')} pass of {where}".replace("the  pass", "the pass"),
        "tensor": f"in tensor {where}, the first that was saved with one",
        "scalar": f"in {where}, which was logged",
    }[found["source"]]
    facts = [
        ("operation", detail.get("operation")),
        ("parameter", detail.get("parameter")),
        ("loss", detail.get("loss")),
        ("input", _numbers(detail.get("input"))),
        ("last healthy", _numbers(detail.get("last_healthy"))),
    ]
    listed = html(*(tag("li", name, ": ", value) for name, value in facts if value not in (None, "")))
    step = "an unknown step" if found["step"] is None else f"step {found['step']:,}"
    rank = f" of rank {found['rank']}" if found["rank"] is not None and found["rank"] >= 0 else ""
    return tag(
        "section",
        tag("p", "First NaN or infinity: ", step + rank, ", ", said, ".", class_="said"),
        tag("ul", listed),
        class_="verdict sick",
    )


def _numbers(told: Any) -> str:
    """Write a summary of a tensor, or of several, in a line."""
    if not isinstance(told, dict):
        return ""
    said = []
    for key, value in list(told.items())[:12]:
        inner = f"({_numbers(value)})" if isinstance(value, dict) else value_text(value)
        said.append(f"{words(str(key))} {inner}")
    return ", ".join(said)[:600]


def _map(
    rendering: Rendering, reading: Reading, asked: Mapping[str, str], rows: Sequence[SavedTensor]
) -> Iterator[Markup]:
    """Draw the map of layers, of what was chosen or of gradients."""
    which = asked.get("map") or "l2"
    statistic(which)
    roles = sorted({row["role"].partition(":")[0] for row in rows} - {""})
    options = sorted(STATISTICS, key=lambda name: (_MAPS.index(name) if name in _MAPS else len(_MAPS), name))
    yield tag("h2", "Layer by layer")
    labels = [(name, STATISTICS[name].label) for name in options]
    yield form(
        rendering,
        asked,
        "statistic and layers",
        choice(asked, "map", "show", labels, default="l2"),
        choice(
            asked, "role", "of", [("", "as fits"), ("any", "all tensors"), *((r, words(r)) for r in roles)]
        ),
        keep=("tensor", "statistic", "search", "collection", "mode"),
    )
    only = {name: asked[name] for name in ("rank", "mode", "role", "store") if asked.get(name)}
    yield picture(rendering, reading, "layer_map", {**only, "statistic": which}, kind="layer-map")


def _histories(
    rendering: Rendering, reading: Reading, asked: Mapping[str, str], shown: list[str]
) -> Iterator[Markup]:
    modes = [("", "all"), *((mode, mode) for mode in MODES)]
    yield tag("h2", "Histories")
    labels = [(name, one.label) for name, one in STATISTICS.items()]
    yield form(
        rendering,
        asked,
        "statistic of the chosen tensors",
        choice(asked, "statistic", "show", labels, default="abs_mean"),
        choice(asked, "mode", "mode", modes),
        keep=("tensor", "map", "role", "search", "collection"),
    )
    number(asked, "rank")
    chosen = {**asked, "tensor": "\n".join(shown)}
    yield pictures(rendering, reading, chosen, "tensor_histories", "tensor_quantiles", "tensor_histogram")


def _list(
    rendering: Rendering,
    asked: Mapping[str, str],
    rows: list[SavedTensor],
    found: list[SavedTensor],
    shown: list[str],
) -> Iterator[Markup]:
    """List the tensors that match the search, a hundred per page; a name leads to its history."""
    groups = sorted({name for row in rows for name in row["collections"]})
    roles = sorted({row["role"].partition(":")[0] for row in rows} - {""} - set(groups))
    options = [("", "any"), *((name, words(name)) for name in (*groups, *roles))]
    yield html(tag("h2", counted(len(rows), "tensor")), ALL_RANKS)
    yield form(
        rendering,
        asked,
        "search tensors",
        entry(asked, "search", "search", kind="search", placeholder="words of a name"),
        choice(asked, "collection", "collection or role", options),
        button="Search",
        keep=("statistic", "map", "role", "mode"),
    )
    page = number(asked, "page") or 0
    part = found[page * A_PAGE : (page + 1) * A_PAGE]
    if not part:
        yield tag("p", "No matching tensors.", class_="empty")
        return
    cells: Iterator[list[str]] = (
        [
            link(rendering, asked, row["name"], tensor=row["name"]),
            words(row["role"]),
            ", ".join(words(one) for one in row["collections"]),
            Number(row["elements"]),
            Number(row["rows"]),
            Number(row["last_step"], f"{row['first_step']:,} to {row['last_step']:,}"),
            Number(row["abs_mean"], "" if row["abs_mean"] is None else f"{row['abs_mean']:.3g}"),
            Number(row["nonfinite"], f"{row['nonfinite']:,}" if row["nonfinite"] else ""),
        ]
        for row in part
    )
    last = ("last mean absolute", "not finite in")
    heads = ("tensor", "role", "collections", "elements", "rows", "steps", *last)
    yield island(rendering, "tensor-history", Markup, shown="\n".join(shown), most=MOST)
    yield sortable(
        rendering, "tensors", f"Tensors {page * A_PAGE + 1:,} to {page * A_PAGE + len(part):,}", heads, cells
    )
    before = link(rendering, asked, "before", page=str(page - 1) if page > 1 else "") if page else ""
    after = link(rendering, asked, "more", page=str(page + 1)) if (page + 1) * A_PAGE < len(found) else ""
    yield tag("p", before, " ", after, " ", tag("span", f"{len(found):,} match.", class_="dim"))
