"""What SQL Server refuses, or does slowly, and both a lenient parser and other servers take."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

_CONDITIONS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Is,
    exp.In,
    exp.Like,
    exp.Between,
    exp.Exists,
    exp.And,
    exp.Or,
    exp.Not,
)


def broken_rules(statement: exp.Expression) -> Iterator[str]:
    """A word for each rule that it breaks."""
    for node in statement.walk():
        if isinstance(node, exp.Subquery | exp.CTE):
            yield from _of_derived_table(node)
        elif isinstance(node, exp.Select):
            yield from _of_select(node)
        elif isinstance(node, exp.AggFunc):
            if node.find(exp.Select):
                yield "an aggregate over a query"
        elif isinstance(node, exp.EQ | exp.NEQ):
            yield from _of_comparison(node)
        elif isinstance(node, exp.And | exp.Or):
            if not (_is_condition(node.left) and _is_condition(node.right)):
                yield "a value as a condition"
        elif isinstance(node, exp.Not | exp.Where) and not _is_condition(node.this):
            yield "a value as a condition"


def _of_derived_table(node: exp.Subquery | exp.CTE) -> Iterator[str]:
    inner = node.this
    if not isinstance(inner, exp.Query):
        return
    limited = inner.args.get("limit") or inner.args.get("fetch") or inner.args.get("offset")
    if inner.args.get("order") and not limited:
        yield "an order without a limit"
    if isinstance(node, exp.CTE) or isinstance(node.parent, exp.From | exp.Join):
        names = [one.alias_or_name if isinstance(one, exp.Alias | exp.Column) else "" for one in inner.selects]
        if "" in names:
            yield "a column of a derived table without a name"
        if len(set(names)) < len(names):
            yield "two columns of a derived table with one name"


def _of_select(node: exp.Select) -> Iterator[str]:
    for column in node.selects:
        if _is_condition(column.unalias()) and not isinstance(column.this, exp.Parameter):
            yield "a condition as a value"
    for clause in ("order", "group"):
        for one in node.args[clause].expressions if node.args.get(clause) else ():
            if one.find(exp.Column) is None:
                yield "an order, or groups, by a constant"
            if one.find(exp.Placeholder) and clause == "group":
                yield "groups by a parameter, which is another one where it is selected"


def _of_comparison(node: exp.EQ | exp.NEQ) -> Iterator[str]:
    assigned = node.arg_key == "expressions" and isinstance(node.parent, exp.Update | exp.Select)
    sides = (node.right,) if assigned else (node.left, node.right)
    if any(map(_is_condition, sides)):
        yield "a condition as a value"
    for key, given in (sides, sides[::-1]) if not assigned else ():
        if isinstance(key, exp.Column) and key.table != "given" and _is_given_text(given):
            yield "a key that is compared with a text of any length, for which no index is used"


def _is_condition(node: exp.Expression) -> bool:
    return isinstance(node.unnest(), _CONDITIONS)


def _is_given_text(node: exp.Expression) -> bool:
    """Whether it is a column of ``OPENJSON`` that is ``nvarchar(max)``."""
    if not (isinstance(node, exp.Column) and node.table == "given"):
        return False
    read = (one for one in node.root().find_all(exp.OpenJSONColumnDef) if one.name == node.name)
    return any("MAX" in one.args["kind"].sql("tsql").upper() for one in read)
