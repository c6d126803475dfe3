"""The questions as Ibis expressions over the tables of rollups.

Answers are integers, texts and quotients of integers in a unique order, so that every engine gives
the same. Column ``of`` has the rank, or the id of a process without one.
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

_PROCESSES = "processes"
_OPERATOR, _MODULE, _LINE = ("name", "device"), ("module", "phase"), ("file", "line", "function")


def expression_of(question: JobQuestion, tables: Tables, of: Sequence[int]) -> Expression:
    """The Ibis expression of a question.

    ``tables`` are those of :attr:`JobQuestion.tables`; ``of`` are the ranks, or ids of processes
    without ranks, including those without rows.
    """
    with_of = {name: _with_of(table) for name, table in tables.items()}
    processes = ibis.literal(list(of), type="array<int64>").unnest().name("of").as_table()
    return _ANSWERS[question]({**with_of, _PROCESSES: processes})


def _with_of(table: Expression) -> Expression:
    of = ibis.ifelse(table["rank"] >= 0, table["rank"], table["process"])
    return table.mutate(of=of).drop("rank", "process")


def _place(within: Sequence[str], *order: Expression) -> Expression:
    """Position in each group, from 0."""
    return ibis.row_number().over(ibis.window(group_by=list(within), order_by=list(order)))


def _middle(value: Expression) -> Expression:
    """Median, rounded down."""
    return value.median().floor().cast("int64")


def _per_process(table: Expression, keys: Sequence[str], *values: str) -> Expression:
    sums = {value: table[value].sum() for value in values}
    return table.group_by([*keys, "of"]).agg(**sums)


def _totals(table: str, keys: Sequence[str], tables: Tables) -> Expression:
    """Self time by key columns: total, and the processes with most and least of it."""
    sums = _per_process(tables[table], keys, "count", "self_ns")
    sums = sums.mutate(
        place=_place(keys, sums["self_ns"].desc(), sums["of"]),
        place_from_end=_place(keys, sums["self_ns"], sums["of"]),
    )
    result = sums.group_by(list(keys)).agg(
        ranks=sums["of"].count(),
        calls=sums["count"].sum(),
        self_ns=sums["self_ns"].sum(),
        least_ns=sums["self_ns"].min(),
        least_rank=sums["of"].max(where=sums["place_from_end"] == 0),
        most_ns=sums["self_ns"].max(),
        most_rank=sums["of"].max(where=sums["place"] == 0),
    )
    return result.order_by([result["self_ns"].desc(), *(result[key] for key in keys)])


def _with_zeros(
    sums: Expression, keys: Sequence[str], value: str, processes: Expression
) -> Expression:
    """A row for each process and key; 0 for missing keys."""
    grid = sums.select(*keys).distinct().cross_join(processes)
    joined = grid.left_join(sums.select(*keys, "of", value), [*keys, "of"])
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
    union = ibis.union(*(one.select(*columns) for one in (host, modules, of_lines)), distinct=False)
    keys = ("what", "where")
    sums = _per_process(union, keys, "self_ns")
    sums = _with_zeros(sums, keys, "self_ns", tables[_PROCESSES])
    sums = sums.mutate(place=_place(keys, sums["self_ns"].desc(), sums["of"]))
    result = sums.group_by(list(keys)).agg(
        most_rank=sums["of"].max(where=sums["place"] == 0),
        most_ns=sums["self_ns"].max(),
        median_ns=_middle(sums["self_ns"]),
    )
    result = result.mutate(more_ns=result["most_ns"] - result["median_ns"])
    return result.order_by([result["more_ns"].desc(), result["what"], result["where"]])


def _steps(tables: Tables) -> Expression:
    steps = tables[STEPS.name]
    steps = steps.mutate(place=_place(["step"], steps["own_ns"].desc(), steps["of"]))
    result = steps.group_by("step").agg(
        ranks=steps["of"].count(),
        slowest_rank=steps["of"].max(where=steps["place"] == 0),
        own_ns=steps["own_ns"].max(),
        median_own_ns=_middle(steps["own_ns"]),
        wall_ns=steps["wall_ns"].max(),
    )
    result = result.mutate(more_ns=result["own_ns"] - result["median_own_ns"])
    return result.order_by(result["step"])


def _ranks(tables: Tables) -> Expression:
    steps = tables[STEPS.name]
    steps = steps.mutate(place=_place(["step"], steps["own_ns"].desc(), steps["of"]))
    ranks = steps.group_by("of").agg(
        steps=steps["step"].count(),
        median_own_ns=_middle(steps["own_ns"]),
        median_wall_ns=_middle(steps["wall_ns"]),
        longest_own_ns=steps["own_ns"].max(),
        slowest_in=(steps["place"] == 0).sum().cast("int64"),
    )
    result = ranks.select(
        rank=ranks["of"],
        steps=ranks["steps"],
        median_own_ns=ranks["median_own_ns"],
        longest_own_ns=ranks["longest_own_ns"],
        median_wall_ns=ranks["median_wall_ns"],
        slowest_in=ranks["slowest_in"],
    )
    return result.order_by([result["median_own_ns"].desc(), result["rank"]])


def _causes(tables: Tables) -> Expression:
    causes = tables[CAUSES.name]
    sums = _per_process(causes.filter(causes["period"] == Which.ALL.value), ["cause"], "time_ns")
    sums = _with_zeros(sums, ["cause"], "time_ns", tables[_PROCESSES])
    sums = sums.mutate(
        whole_ns=sums["time_ns"].sum().over(ibis.window(group_by="of")),
        median_ns=sums["time_ns"].median().over(ibis.window(group_by="cause")),
    )
    median_ns = sums["median_ns"].floor().cast("int64")
    result = sums.select(
        rank=sums["of"],
        cause=sums["cause"],
        time_ns=sums["time_ns"],
        share=sums["time_ns"] / sums["whole_ns"],
        median_ns=median_ns,
        more_ns=sums["time_ns"] - median_ns,
    )
    return result.order_by([result["more_ns"].desc(), result["rank"], result["cause"]])


def _memory(tables: Tables) -> Expression:
    memory = tables[MEMORY.name]
    groups = ibis.window(group_by=["device", "category"])
    memory = memory.mutate(median=memory["bytes"].median().over(groups))
    median = memory["median"].floor().cast("int64")
    result = memory.select(
        rank=memory["of"],
        device=memory["device"],
        category=memory["category"],
        bytes=memory["bytes"],
        time_ns=memory["time_ns"],
        median_bytes=median,
        more_bytes=memory["bytes"] - median,
    )
    return result.order_by(
        [result["bytes"].desc(), result["rank"], result["device"], result["category"]]
    )


def _losses(tables: Tables) -> Expression:
    ledger = tables[LEDGER.name]
    # Data that only a newer opscope can read is missing in all other answers, too.
    is_lost = ledger["what"].startswith(LOSS) | (ledger["source"] == NEWER)
    losses = ledger.filter(is_lost, ledger["value"] > 0)
    losses = losses.mutate(count=losses["value"].floor().cast("int64"))
    keys = ["source", "what"]
    losses = _per_process(losses, keys, "count")
    losses = losses.mutate(place=_place(keys, losses["count"].desc(), losses["of"]))
    result = losses.group_by(keys).agg(
        dropped=losses["count"].sum(),
        ranks=losses["of"].count(),
        most=losses["count"].max(),
        most_rank=losses["of"].max(where=losses["place"] == 0),
    )
    return result.order_by([result["dropped"].desc(), result["source"], result["what"]])


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
