"""The questions as Ibis expressions over the tables of rollups.

Answers are whole numbers, texts, and quotients of whole numbers, in an order that nothing leaves
open, so that every engine gives the same ones. Whose a row is stands in ``of``: the rank, or the id
of a process without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ibis

from opscope.columns.ledger import LOSS, NEWER
from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rollup.schema import CAUSES, LEDGER, LINES, MEMORY, OPERATORS, STEPS
from opscope.timeline.period import Which

Expression = Any
Tables = Mapping[str, Expression]

_EVERYBODY = "everybody"
_OPERATOR, _MODULE, _LINE = ("name", "device"), ("module", "phase"), ("file", "line", "function")


def expression_of(question: JobQuestion, tables: Tables, of: Sequence[int]) -> Expression:
    """The Ibis expression of a question.

    ``tables`` are those of :attr:`JobQuestion.tables`; ``of`` the ranks, or ids of processes
    without ranks, also of those with no row.
    """
    known = {name: _with_of(table) for name, table in tables.items()}
    everybody = ibis.literal(list(of), type="array<int64>").unnest().name("of").as_table()
    return _ANSWERS[question]({**known, _EVERYBODY: everybody})


def _with_of(table: Expression) -> Expression:
    of = ibis.ifelse(table["rank"] >= 0, table["rank"], table["process"])
    return table.mutate(of=of).drop("rank", "process")


def _place(within: Sequence[str], *order: Expression) -> Expression:
    """0 for the first of each group, and so on."""
    return ibis.row_number().over(ibis.window(group_by=list(within), order_by=list(order)))


def _middle(value: Expression) -> Expression:
    """The median, without its half."""
    return value.median().floor().cast("int64")


def _per_process(table: Expression, keys: Sequence[str], *values: str) -> Expression:
    sums = {value: table[value].sum() for value in values}
    return table.group_by([*keys, "of"]).agg(**sums)


def _totals(table: str, keys: Sequence[str], tables: Tables) -> Expression:
    """Own time by some columns: in all, and of the processes that have most and least of it."""
    by = _per_process(tables[table], keys, "count", "self_ns")
    by = by.mutate(
        place=_place(keys, by["self_ns"].desc(), by["of"]),
        place_from_end=_place(keys, by["self_ns"], by["of"]),
    )
    found = by.group_by(list(keys)).agg(
        ranks=by["of"].count(),
        calls=by["count"].sum(),
        self_ns=by["self_ns"].sum(),
        least_ns=by["self_ns"].min(),
        least_rank=by["of"].max(where=by["place_from_end"] == 0),
        most_ns=by["self_ns"].max(),
        most_rank=by["of"].max(where=by["place"] == 0),
    )
    return found.order_by([found["self_ns"].desc(), *(found[key] for key in keys)])


def _with_zeros(
    by: Expression, keys: Sequence[str], value: str, processes: Expression
) -> Expression:
    """A row for each process and key; 0 for missing keys."""
    grid = by.select(*keys).distinct().cross_join(processes)
    joined = grid.left_join(by.select(*keys, "of", value), [*keys, "of"])
    kept = {name: joined[name] for name in (*keys, "of")}
    return joined.select(**kept, **{value: joined[value].fill_null(0)})


def _spread(tables: Tables) -> Expression:
    operators, lines = tables[OPERATORS.name], tables[LINES.name]
    host = operators.mutate(what=ibis.literal("operator"), where=operators["name"])
    named = operators.filter(operators["module"] != "")
    part = ibis.ifelse(named["phase"] == "", "", named["phase"] + ibis.literal(" of "))
    modules = named.mutate(what=ibis.literal("module"), where=part + named["module"])
    number = ibis.ifelse(lines["line"] < 0, "", ibis.literal(":") + lines["line"].cast("string"))
    place = lines["file"] + number + ibis.literal(" ") + lines["function"]
    of_lines = lines.mutate(what=ibis.literal("line"), where=place)
    columns = ("what", "where", "of", "self_ns")
    everything = ibis.union(
        *(one.select(*columns) for one in (host, modules, of_lines)), distinct=False
    )
    keys = ("what", "where")
    by = _per_process(everything, keys, "self_ns")
    by = _with_zeros(by, keys, "self_ns", tables[_EVERYBODY])
    by = by.mutate(place=_place(keys, by["self_ns"].desc(), by["of"]))
    found = by.group_by(list(keys)).agg(
        most_rank=by["of"].max(where=by["place"] == 0),
        most_ns=by["self_ns"].max(),
        median_ns=_middle(by["self_ns"]),
    )
    found = found.mutate(more_ns=found["most_ns"] - found["median_ns"])
    return found.order_by([found["more_ns"].desc(), found["what"], found["where"]])


def _steps(tables: Tables) -> Expression:
    steps = tables[STEPS.name]
    steps = steps.mutate(place=_place(["step"], steps["own_ns"].desc(), steps["of"]))
    found = steps.group_by("step").agg(
        ranks=steps["of"].count(),
        slowest_rank=steps["of"].max(where=steps["place"] == 0),
        own_ns=steps["own_ns"].max(),
        median_own_ns=_middle(steps["own_ns"]),
        wall_ns=steps["wall_ns"].max(),
    )
    found = found.mutate(more_ns=found["own_ns"] - found["median_own_ns"])
    return found.order_by(found["step"])


def _ranks(tables: Tables) -> Expression:
    steps = tables[STEPS.name]
    steps = steps.mutate(place=_place(["step"], steps["own_ns"].desc(), steps["of"]))
    by = steps.group_by("of").agg(
        steps=steps["step"].count(),
        median_own_ns=_middle(steps["own_ns"]),
        median_wall_ns=_middle(steps["wall_ns"]),
        longest_own_ns=steps["own_ns"].max(),
        slowest_in=(steps["place"] == 0).sum().cast("int64"),
    )
    found = by.select(
        rank=by["of"],
        steps=by["steps"],
        median_own_ns=by["median_own_ns"],
        longest_own_ns=by["longest_own_ns"],
        median_wall_ns=by["median_wall_ns"],
        slowest_in=by["slowest_in"],
    )
    return found.order_by([found["median_own_ns"].desc(), found["rank"]])


def _causes(tables: Tables) -> Expression:
    causes = tables[CAUSES.name]
    by = _per_process(causes.filter(causes["period"] == Which.ALL.value), ["cause"], "time_ns")
    by = _with_zeros(by, ["cause"], "time_ns", tables[_EVERYBODY])
    by = by.mutate(
        whole_ns=by["time_ns"].sum().over(ibis.window(group_by="of")),
        median_ns=by["time_ns"].median().over(ibis.window(group_by="cause")),
    )
    median_ns = by["median_ns"].floor().cast("int64")
    found = by.select(
        rank=by["of"],
        cause=by["cause"],
        time_ns=by["time_ns"],
        share=by["time_ns"] / by["whole_ns"],
        median_ns=median_ns,
        more_ns=by["time_ns"] - median_ns,
    )
    return found.order_by([found["more_ns"].desc(), found["rank"], found["cause"]])


def _memory(tables: Tables) -> Expression:
    memory = tables[MEMORY.name]
    groups = ibis.window(group_by=["device", "category"])
    memory = memory.mutate(median=memory["bytes"].median().over(groups))
    median = memory["median"].floor().cast("int64")
    found = memory.select(
        rank=memory["of"],
        device=memory["device"],
        category=memory["category"],
        bytes=memory["bytes"],
        time_ns=memory["time_ns"],
        median_bytes=median,
        more_bytes=memory["bytes"] - median,
    )
    return found.order_by(
        [found["bytes"].desc(), found["rank"], found["device"], found["category"]]
    )


def _losses(tables: Tables) -> Expression:
    ledger = tables[LEDGER.name]
    # What only a newer opscope knows is in no other answer either.
    is_lost = ledger["what"].startswith(LOSS) | (ledger["source"] == NEWER)
    kept = ledger.filter(is_lost, ledger["value"] > 0)
    kept = kept.mutate(count=kept["value"].floor().cast("int64"))
    keys = ["source", "what"]
    kept = _per_process(kept, keys, "count")
    kept = kept.mutate(place=_place(keys, kept["count"].desc(), kept["of"]))
    found = kept.group_by(keys).agg(
        dropped=kept["count"].sum(),
        ranks=kept["of"].count(),
        most=kept["count"].max(),
        most_rank=kept["of"].max(where=kept["place"] == 0),
    )
    return found.order_by([found["dropped"].desc(), found["source"], found["what"]])


_ANSWERS: dict[JobQuestion, Callable[[Tables], Expression]] = {
    JobQuestion.RANKS: _ranks,
    JobQuestion.STEPS: _steps,
    JobQuestion.OPERATORS: partial(_totals, OPERATORS.name, _OPERATOR),
    JobQuestion.MODULES: partial(_totals, OPERATORS.name, _MODULE),
    JobQuestion.LINES: partial(_totals, LINES.name, _LINE),
    JobQuestion.SPREAD: _spread,
    JobQuestion.CAUSES: _causes,
    JobQuestion.MEMORY: _memory,
    JobQuestion.LOSSES: _losses,
}
