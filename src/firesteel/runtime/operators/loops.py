"""Loops made to measure: one for each way in which records can meet a user's function that gives any number of results.

With a key or without, with event time or without, guarded or not, with side outputs or without: written as one loop, all
these questions would be asked for every record. So the loop is put together once, when an operator
opens, and asks nothing that is known by then. `_TEMPLATE` is what it looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from firesteel.common._values import ATOMIC, private
from firesteel.contracts.output_tag import OutputTag

__all__ = ["ASIDE", "EMIT_AT", "create_loop", "indented"]

EMIT_AT = 1024  # results that leave together

#: Stands for a result that went to a side output.
ASIDE = object()

# The cursor comes first in each zip: when it ends early, nothing has been done for the record behind.
_TEMPLATE = """
def loop(cursor, keys, timestamps, call, context, state, emission):
    results, stamp, pace, divert_tagged = emission.results, emission.stamps.append, emission.pace, emission.divert_tagged
    append = results.append
    for {record} in {records}:
        outcome = call({arguments})
        if outcome is None:
            continue
        {together}
        for result in outcome:
            {check}
            append(result)
            {stamp}
            if len(results) >= EMIT_AT or pace.late:
                emission.hand_on()
                results, stamp = emission.results, emission.stamps.append
                append = results.append
"""

# `firesteel.common._values.private` written out for what is most common.
_GUARD = """
kind = type(result)
if kind is tuple:
    for item in result:
        if type(item) not in ATOMIC:
            result = {convert}(result)
            break
elif kind not in ATOMIC:
    result = private(result)
"""
_SKIP_ASIDE = """
if result is ASIDE:
    continue
"""
# Nothing is to be asked of any result: they are added together.
_TOGETHER = """
if type(outcome) is tuple or type(outcome) is list:
    results += outcome
    {stamps}
    if len(results) >= EMIT_AT or pace.late:
        emission.hand_on()
        results, stamp = emission.results, emission.stamps.append
        append = results.append
    continue
"""
# And they are few: those of a whole batch may wait for its end, which comes early when time is short.
_FEW = """
results += outcome
{stamps}
continue
"""
_STAMP_ALL = """
stamps = emission.stamps
stamps += [emission.now_at] * (len(results) - len(stamps))
"""
_TAGGED_ONLY = """
if type(result) is tuple and result and type(result[0]) is OutputTag:
    divert_tagged(result)
    continue
"""


@cache
def create_loop(
    *, keyed: bool, timed: bool, contextual: bool, tagged: bool, guarded: bool, few: bool
) -> Callable[..., None]:
    """The loop over a batch.

    It calls the function with each record of ``cursor`` - and the context, when it is ``contextual`` - with the key and
    the time of the record set, and adds what it gives to the emission: as values, when it is ``guarded``, and
    to the side output of its tag, when results may be ``tagged``. ``few``: a call gives a handful of results at most.
    """
    # The key was announced with the batch; a call would be one more for every record.
    names = ["value", *(["emission.now_at"] if timed else []), *(["state.current_key"] if keyed else [])]
    sources = ["cursor", *(["timestamps"] if timed else []), *(["keys"] if keyed else [])]
    source = _TEMPLATE.format(
        record=", ".join(names),
        records="cursor" if len(sources) == 1 else f"zip({', '.join(sources)})",
        arguments="value, context" if contextual else "value",
        together=indented("pass" if guarded or tagged else _together(timed, few), 8),
        check=indented(_check(guarded, tagged), 12),
        stamp="stamp(emission.now_at)" if timed else "pass",
    )
    names_in_loop = {
        "__name__": __name__,
        "ASIDE": ASIDE,
        "ATOMIC": ATOMIC,
        "EMIT_AT": EMIT_AT,
        "OutputTag": OutputTag,
        "private": private,
    }
    exec(compile(source, f"<{__name__}>", "exec"), names_in_loop)
    loop: Callable[..., None] = names_in_loop["loop"]  # type: ignore[assignment]
    return loop


def _together(timed: bool, few: bool) -> str:
    if few:
        return _FEW.format(stamps=_STAMP_ALL.strip() if timed else "")
    return _TOGETHER.format(stamps=indented(_STAMP_ALL, 4) if timed else "pass")


def _check(guarded: bool, tagged: bool) -> str:
    if guarded:
        guard = _GUARD.format(convert="divert_tagged" if tagged else "private")
        return guard + _SKIP_ASIDE if tagged else guard
    return _TAGGED_ONLY if tagged else "pass"


def indented(text: str, by: int) -> str:
    """Lines of a template, to be filled into another one at an indentation of ``by``."""
    return text.strip().replace("\n", "\n" + " " * by)
