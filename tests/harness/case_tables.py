"""Tables of cases: all rows in one test, or a part of a long matrix in the daily run."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

SHOWN_FAILURES = 40
PARAMETER_SET = type(pytest.param())

Ids = Sequence[str] | Callable[[Any], object] | None


def each_row(names: str | Sequence[str], rows: Iterable[Any], ids: Ids = None) -> Callable[..., Any]:
    """`pytest.mark.parametrize` as one test, which lists every row that failed.

    For large tables of cheap, independent cases: fixtures are set up once for the whole table.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [(_label(row, number, ids), _values(row, len(columns))) for number, row in enumerate(rows)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_all(**fixtures: Any) -> None:
            failures = []
            for label, values in table:
                try:
                    test(**fixtures, **dict(zip(columns, values, strict=True)))
                except pytest.skip.Exception:
                    continue
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - listed below
                    failures.append(f"{label}: {type(error).__name__}: {str(error)[:600]}")
            shown = "\n".join(failures[:SHOWN_FAILURES])
            assert not failures, f"{len(failures)} of {len(table)} rows failed:\n{shown}"

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        run_all.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run_all

    return decorate


def daily(rows: Iterable[Any], every: int) -> list[Any]:
    """Of a long matrix, each `every`-th row in the daily run; `make test-full` runs all of them."""
    return [row if number % every == 0 else _in_full(row) for number, row in enumerate(rows)]


def _in_full(row: Any) -> Any:
    if isinstance(row, PARAMETER_SET):
        return pytest.param(*row.values, marks=(*row.marks, pytest.mark.full), id=row.id)
    values = row if isinstance(row, tuple) else (row,)
    return pytest.param(*values, marks=pytest.mark.full)


def _label(row: Any, number: int, ids: Ids) -> str:
    if isinstance(row, PARAMETER_SET) and row.id is not None:
        return str(row.id)
    if callable(ids):
        return str(ids(row))
    return str(ids[number]) if ids is not None else f"row {number} ({str(row)[:120]})"


def _values(row: Any, count: int) -> tuple[Any, ...]:
    if isinstance(row, PARAMETER_SET):
        return tuple(row.values)
    return (row,) if count == 1 else tuple(row)
