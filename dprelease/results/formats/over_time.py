"""What one unit and one person lose over many releases, in one sentence for readers.

    one aircraft's flights of one week: ε = 0.5; one aircraft over everything released so far: at most 26

Everything said is given by the ledger or follows from declared windows; nothing is added up here.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dprelease.budget.person import PersonLoss, person_at
from dprelease.budget.population import MemberLoss
from dprelease.core.codec import decode
from dprelease.core.numeric import counted, fraction_from_json, short
from dprelease.release_plan.weak import weak_note

if TYPE_CHECKING:
    from dprelease.budget.ledger import Ledger
    from dprelease.results.formats.public_words import PublicWords

SO_FAR = "over everything released so far"
OF_TABLE = f"{SO_FAR} from this table"
"""Where a member of a population loses by others, too."""


def over_time_words(
    called: tuple[str, str | None],
    spent: tuple[Fraction, Fraction],
    person: PersonLoss | None,
    *,
    scope: str,
    apart: bool,
    most: bool = False,
) -> str:
    """Return the sentence.

    Args:
        called: what one unit is called, and a whole person, where a unit is one of their intervals.
        spent: epsilon and delta of one unit; person: of a whole one, None for no bound.
        scope: over which releases; apart: whether losses of disjoint times are told apart.
        most: whether to say that it is the most charged unit's, where it stands beside the figure of others.
    """
    one, whole = called
    said = f"{one}: {'at most ' if most and apart else ''}{loss_words(*spent)}{weak_note(spent[0])}"
    if whole is None:
        return f"{said}, over all releases that can have read it" if apart else f"{said}, {scope}"
    return f"{said}; {whole} {scope}: {_most(person)}"


def ledger_over_time(
    book: Ledger, dataset: str, called: tuple[str, str], seq: int | None = None, scope: str = ""
) -> str:
    """Return it of a dataset's debits up to entry `seq`, or of all; `scope`: of this table by default where there are others."""
    line, whole = book.timeline(dataset), person_at(book, dataset, seq)
    if seq is None:
        now = book.budget(dataset)
        spent = now.spent, now.spent_delta
    else:
        spent = book.spent_at(dataset, seq)
    scope = scope or (OF_TABLE if dataset in book.populations(seq).member else SO_FAR)
    named = called[0], called[1] if line.per else None
    return over_time_words(named, spent, whole, scope=scope, apart=line.apart, most=True)


def release_over_time(manifest: Mapping[str, Any], words: PublicWords) -> str:
    """Return what one unit and a whole person lose: by all so far, as the receipt says, or by this."""
    budget = manifest.get("budget")
    timed = _timed(manifest, words) if "time" in manifest["guarantee"] else ""
    if budget is None or "member" not in budget:
        return timed
    return "; ".join(filter(None, [timed, *over_tables(decode(MemberLoss, budget["member"]))]))


def over_tables(loss: MemberLoss | None) -> list[str]:
    """Return: one of the members, over everything that this office has published from 3 tables: ε = 2.5 of 3. [] for none."""
    if loss is None:
        return []
    said = f"ε = {short(loss.spent)} of {short(loss.total)}{weak_note(loss.spent)}"
    if loss.composition == "zcdp":
        said += f", by zCDP at δ = {delta_text(loss.total_delta)}"
    elif loss.total_delta:
        said += f", δ = {delta_text(loss.delta)} of {delta_text(loss.total_delta)}"
    tables = counted(loss.tables, "table")
    return [f"{loss.member}, over everything that this office has published from {tables}: {said}"]


def _timed(manifest: Mapping[str, Any], words: PublicWords) -> str:
    guarantee, budget = manifest["guarantee"], manifest.get("budget")
    if budget is not None and ("person" in budget or "person" not in guarantee):
        spent, delta = (fraction_from_json(budget[name]) for name in ("spent", "delta"))
        person, scope = budget.get("person"), OF_TABLE if "member" in budget else SO_FAR
    else:
        spent, delta = (fraction_from_json(guarantee[name]) for name in ("epsilon", "delta"))
        person, scope = guarantee.get("person"), "over all of this release"
    called = words.one, words.whole if getattr(words.unit, "per", None) else None
    whole, apart = decode(PersonLoss | None, person), bool(guarantee["time"]["immutable"])
    return over_time_words(called, (spent, delta), whole, scope=scope, apart=apart)


def _most(person: PersonLoss | None) -> str:
    if person is None:
        return "no bound, as a release without a period reads all of time"
    if person.delta >= 1:
        return "no useful bound, as the group rule's δ reaches 1"
    weak = weak_note(person.epsilon)
    if not person.delta:
        return f"at most {short(person.epsilon)}{weak}"
    rho = "" if person.rho is None else f" (ρ = {short(person.rho)})"
    return f"at most {short(person.epsilon)}{rho}, apart from δ = {delta_text(person.delta)}{weak}"


def loss_words(epsilon: Fraction, delta: Fraction = Fraction(0)) -> str:
    """Return `ε = 0.5` or `ε = 0.5, δ = 1e-06`."""
    return f"ε = {short(epsilon)}" + (f", δ = {delta_text(delta)}" if delta else "")


def delta_text(delta: Fraction) -> str:
    """Return a delta for readers."""
    return f"{float(delta):.3g}"
