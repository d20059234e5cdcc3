"""A publication folder, made again from its manifest's request, draw and receipt: folder = F(request, draw, receipt).

    request   parsed by the schema reader and the release reader
    plan      made again from the request and the choice that it records (`planning.again`)
    loss      every sensitivity and certificate recomputed by the wall
    values    the table, from the noisy integers; the verdict of the built-in rules on it
    files     every byte, written by the code that writes releases

Nothing else of a manifest is believed: what it derives is compared with what is made here, and no field makes a check
weaker. The texts of `software` are repeated, at a bounded length; nothing here depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from dprelease.budget.approval import request_hash
from dprelease.budget.concentrated import zcdp_epsilon, zcdp_rho
from dprelease.budget.person import PersonLoss
from dprelease.budget.population import MemberLoss
from dprelease.budget.record import check_identifier
from dprelease.core import registry
from dprelease.core.codec import decode, encode
from dprelease.core.errors import VerificationError
from dprelease.core.numeric import (
    NANO,
    counted,
    fraction_from_json,
    nano_up,
    plain,
    whole_from_json,
)
from dprelease.core.periods import instant, instant_text, is_instant, parse_period
from dprelease.pipeline.files import write_files
from dprelease.planning.again import CLOSE, near, plan_again
from dprelease.planning.make import what_if
from dprelease.query.request import request_from_json
from dprelease.query.spec import Query
from dprelease.query.written import request_for_all_periods
from dprelease.release_plan.block import Cells
from dprelease.release_plan.identity import is_hash_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import person_in_plan, timeline_of
from dprelease.results.draw import Draw, as_raw
from dprelease.results.fitted import Fits, noised_of
from dprelease.results.formats.json_ import REPORT, SOFTWARE, cells_from_json
from dprelease.results.formats.public_words import public_words
from dprelease.results.receipt import Receipt, summed_by
from dprelease.results.validate.rules import check
from dprelease.results.validate.verdict import Verdict
from dprelease.schema.unit import describe
from dprelease.verification.fits import are_found, faults
from dprelease.wall import execute

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}")
_LEDGER = re.compile(r"[A-Za-z0-9-]{8,64}")
_MOST_HISTORY = 1000  # steps of spending that a stated budget may list


def _refused(what: str, why: str | None = None) -> VerificationError:
    return VerificationError(what, why=why, fix="ask the publisher", code="DPR805")


def _instant(value: Any, name: str, least: datetime | None) -> str | None:
    """Return a stated instant, called `name` in messages, or None; refused is one before `least`."""
    if value is None:
        return None
    if not is_instant(value):
        raise _refused(f"{name} is not written as an instant")
    if least is not None and instant(value) < least:
        raise _refused(f"{name} lies before the end of the period")
    return str(value)


@dataclass
class Derivation:
    """One manifest's folder. Each property is made once, when it is first needed.

    A stated value that cannot be raises DPR805; a manifest that is none, whatever its readers raise (LookupError and others).
    """

    manifest: Mapping[str, Any] = field(repr=False)
    as_published: Callable[[str, bytes], bytes] = field(default=lambda _, made: made, repr=False)
    """From a file's name and the bytes made here to the folder's own bytes, where both hold the same content."""

    @cached_property
    def query(self) -> Query:
        request = dict(self.manifest["request"])
        request.pop("formats")
        request.pop("report", None)
        return request_from_json(request)

    @cached_property
    def formats(self) -> tuple[str, ...]:
        listed = self.manifest["request"]["formats"]
        if not isinstance(listed, list) or not all(isinstance(n, str) for n in listed):
            raise _refused("the formats are not a list of names")
        if len(set(listed)) != len(listed):
            raise _refused("a format is named twice")
        return tuple(listed)

    @cached_property
    def report(self) -> int | None:
        """The edition of the folder's files, which are made again as that edition wrote them; None before editions."""
        named = self.manifest["request"].get("report")
        if named not in (None, REPORT):
            raise _refused("the report is of an edition that no version writes")
        return None if named is None else REPORT

    @cached_property
    def plan(self) -> ReleasePlan:
        self._bounded_keys()
        made = plan_again(self.query, self.manifest["plan"])
        if not self.query.groups.found:
            return made
        if not are_found(keys := self.manifest["draw"]["keys"], self.query.groups.columns[0]):
            raise _refused("the keys that were found are not different labels in their order")
        return made.with_keys(keys)

    def _bounded_keys(self) -> None:
        """Refuse other numbers of groups, before planning: a request of a few bytes can ask for a million."""
        groups, listed = len(self.query.groups.keys), len(self.manifest["plan"]["keys"])
        if groups != listed and not self.query.groups.found:
            raise _refused(
                f"the request makes {counted(groups, 'group')}, the plan lists {listed:,}"
            )

    @cached_property
    def loss(self) -> Fraction:
        """The proved epsilon of the plan, each of its figures recomputed."""
        return execute.check(self.plan)

    @cached_property
    def what_if(self) -> list[dict[str, Any]]:
        """The stated figures of other budgets, once they agree with those planned here."""
        stated = self.manifest["what_if"]
        found = what_if(self.plan) if "html" in self.formats else []
        same = len(stated) == len(found) and all(
            set(one) == {"epsilon", "errors"}
            and one["epsilon"] == two["epsilon"]
            and list(one["errors"]) == sorted(two["errors"])
            and all(near(one["errors"][name], error) for name, error in two["errors"].items())
            for one, two in zip(stated, found, strict=True)
        )
        if not same:
            raise _refused("the stated errors at other budgets are not those of the request")
        return [dict(point) for point in stated]

    @cached_property
    def noised(self) -> Draw:
        self.loss  # noqa: B018 - it raises where a law is not proved, and no table is made then
        plan = self.plan
        cells = cells_from_json(self.manifest["draw"]["cells"], plan)
        for block in plan.blocks:
            raw = as_raw(cells[block.name])
            if not block.law.drawable(raw).all():
                raise _refused(f"{block.name} holds an integer that its law cannot draw")
        return noised_of(plan, cells, self.receipt, self._fits(cells))

    def _fits(self, cells: Cells) -> Fits | None:
        """Return the stated values of several tables, once every constraint and every proof holds."""
        stated = self.manifest["draw"].get("fits")
        if self.plan.tables is None:
            if stated is not None:
                raise _refused("the draw holds fitted values, and the release is of one table")
            return None
        problems = faults(self.plan, cells, stated)
        if problems:
            raise _refused("the fitted values do not follow from the draw", problems[0][:200])
        fits: Fits = stated
        return fits

    @cached_property
    def verdict(self) -> Verdict:
        return check(self.noised)

    @cached_property
    def receipt(self) -> Receipt:
        """The receipt: what the plan costs, under the stated key and entry."""
        paid = self.manifest["receipt"]
        stated = receipt_of(self.manifest, self.plan)
        approval = self._approval(paid, stated.seq)
        early = self._early(paid["early"])
        return replace(stated, early=early, approval=approval, plan_hash=self.plan_hash)

    @cached_property
    def plan_hash(self) -> str:
        """The hash of the plan that the ledger's debit names, as this or an earlier version computes it."""
        named = self.manifest["plan_hash"]
        if not is_hash_of(named, self.plan.to_json()):
            raise _refused("the plan is not the one that was hashed")
        return str(named)

    def _approval(self, paid: Mapping[str, Any], seq: int | None) -> int | None:
        """Return the event that approved this request: one before the debit, of the same request."""
        if "approval" not in paid:
            return None
        event, request = paid["approval"]["event"], paid["approval"]["request"]
        before = type(event) is int and seq is not None and 1 < event < seq
        if not before or request != request_hash(request_for_all_periods(self.query)):
            raise _refused("the stated approval is not of this request, or not before its debit")
        return int(event)

    def _early(self, value: Any) -> str | None:
        """Return the stated instant at which the period closes, where the release was earlier; else None."""
        calendar, end = self.query.calendar, self._end
        if value is None:
            return None
        if calendar is None or end is None or value != instant_text(end + calendar.delay):
            raise _refused("`early` is not the instant at which the period closes")
        return str(value)

    @cached_property
    def stated(self) -> dict[str, Any]:
        """What only the receipt says, once it can be true: the budget as of the entry, and instants."""
        paid = self.manifest["receipt"]
        published = paid["published"]
        if published is not None:
            if not _DAY.fullmatch(published):
                raise _refused("the day of publication is not written as one")
            over = self._end if paid["early"] is None else None  # early ones may precede it
            day = None if over is None else datetime.combine(over, time(), UTC)
            _instant(f"{published}T00:00:00Z", "the day of publication", day)
        scheduled = _instant(paid["scheduled"], "`scheduled`", self._end)
        return {
            "scheduled": scheduled,
            "published": published,
            "budget": self._budget(paid["budget"]),
        }

    @property
    def _end(self) -> datetime | None:
        """The first instant after the period: none is due, closed or published before it; None without a calendar."""
        calendar = self.query.calendar  # it knows the time zone, which a window of dates does not
        if calendar is None:
            return None
        every: Any = calendar.every
        return parse_period(calendar.name, every, calendar.timezone)[1]

    def _budget(self, value: Any) -> dict[str, Any] | None:
        """Return the budget as of the entry, if its figures can be: spending only adds up."""
        if value is None:
            return None
        history = [fraction_from_json(spent) for spent in value["history"][: _MOST_HISTORY + 1]]
        spent, total = fraction_from_json(value["spent"]), fraction_from_json(value["total"])
        honest = (
            0 < len(history) <= _MOST_HISTORY
            and all(a <= b for a, b in pairwise(history))
            and 0 < history[-1] == spent <= total
            and value["composition"] in ("basic", "zcdp")
        )
        before = Fraction(0) if len(history) < 2 else history[-2]
        if timeline_of(self.plan).apart:  # these units were not read by earlier releases
            before = Fraction(0)
        delta = fraction_from_json(value["delta"])
        if honest and value["composition"] == "basic":
            honest = self.plan.epsilon <= spent - before and self.plan.delta <= delta <= 1
        elif honest:  # under zCDP the rho of releases add up, not their losses
            honest = 0 < delta < 1 and self._costs_by_rho(before, delta) <= spent
        if not honest:
            raise _refused(
                "the stated budget cannot be: spending adds up, stays within the total, and"
                " includes this release"
            )
        return {
            "spent": str(spent),
            "total": str(total),
            "history": list(map(str, history)),
            "composition": value["composition"],
            "delta": str(delta),
            **self._whole(value),
            **({"member": self._member(value["member"])} if "member" in value else {}),
        }

    def _whole(self, budget: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stated loss of a whole person so far; it cannot be less than by this release."""
        if "person" not in budget:
            return {}
        stated, own = decode(PersonLoss | None, budget["person"]), person_in_plan(self.plan)
        possible = timeline_of(self.plan).per is not None and (own is not None or stated is None)
        if stated is not None and own is not None and budget["composition"] == "basic":
            possible = possible and stated.epsilon >= own.epsilon and stated.delta >= own.delta
        if not possible:
            raise _refused("a whole person cannot have lost what the stated budget says")
        return {"person": encode(stated, PersonLoss | None)}

    def _member(self, stated: Any) -> Any:
        """Return the stated loss of a member by all tables: within its budget, and no less than by this release."""
        found = decode(MemberLoss, stated)
        basic, name = found.composition == "basic", self.query.schema.population
        least = self.plan.epsilon if basic else Fraction(0)
        possible = least <= found.spent <= found.total and 0 <= found.delta <= found.total_delta
        possible = possible and (self.plan.delta <= found.delta if basic else found.delta > 0)
        if not possible or found.tables < 1 or name not in (None, found.population):
            raise _refused(
                "a member of the population cannot have lost what the stated budget says"
            )
        check_identifier(found.population, "population")
        return found.to_json()

    def _costs_by_rho(self, before: Fraction, delta: Fraction) -> Fraction:
        """Return the least that can be spent after this release under zCDP; a little less, as floats search for it."""
        own = execute.concentrated(self.plan)
        if own is None:
            raise _refused("noise that ends has no rho, and no budget of rho paid for it")
        rho = nano_up(own)
        known = zcdp_rho(before, delta) if before else Fraction(0)
        return zcdp_epsilon(known + Fraction(rho, NANO), delta) * (1 - Fraction(CLOSE))

    @cached_property
    def software(self) -> dict[str, str]:
        said = self.manifest["software"]
        most, longest = SOFTWARE
        texts = [*said.keys(), *said.values()]
        if len(said) > most or not all(isinstance(t, str) and len(t) <= longest for t in texts):
            raise _refused(f"`software` is at most {most} texts of {longest} characters")
        return dict(said)

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Every file of the folder, the manifest included."""
        return write_files(
            self.noised,
            self.formats,
            software=self.software,
            what_if=self.what_if,
            as_published=self.as_published,
            report=self.report,
            **self.stated,
        )


def receipt_of(manifest: Mapping[str, Any], plan: ReleasePlan) -> Receipt:
    """Return the receipt as a manifest states it: its key and entry, and the budget as of that entry.

    Raises:
        VerificationError, ArgumentError, LookupError, TypeError, AttributeError: no version writes such a receipt.
    """
    paid = manifest["receipt"]
    anchor, budget = paid["ledger"], paid["budget"]
    key = {name: paid[name] for name in ("dataset", "pipeline", "period")}
    spent: dict[str, Any] = {}
    sum_of = ""
    if anchor is not None:
        for name, value in key.items():
            check_identifier(value, name)
        ledger, head = anchor["ledger_id"], anchor["head_hash"]
        seq = anchor["seq"]
        whole_from_json(seq, "the ledger entry", least=1)
        if not (type(seq) is int and _LEDGER.fullmatch(ledger) and _HEX.fullmatch(head)):
            raise _refused("the receipt does not name an entry of a ledger")
        anchor = {"ledger_id": ledger, "seq": seq, "head_hash": head}
        if budget is not None:
            names = {"spent": "spent", "budget": "total"}
            spent = {n: str(plain(fraction_from_json(budget[of]))) for n, of in names.items()}
            sum_of = summed_by(budget["composition"], fraction_from_json(budget["delta"]))
    elif any(value is not None for value in key.values()):
        raise _refused("the receipt has a key and no ledger")
    return Receipt(
        epsilon=str(plain(plan.epsilon)),
        delta=str(plain(plan.delta)),
        protects=describe(plan.adjacency, plan.unit, public_words(manifest).about.unit_name),
        counted=(" by the most charged unit" if timeline_of(plan).apart else "") + sum_of,
        **spent,
        **key,
        **(anchor or {}),
    )


def missing_packages(manifest: Mapping[str, Any]) -> list[str]:
    """Return the kinds of other packages that a manifest names and this installation has not."""
    needed: dict[str, set[str]] = {"mechanisms": set(), "aggregates": set(), "formats": set()}
    request = manifest["request"]
    needed["formats"] |= set(request["formats"])
    release = request["release"]
    for statistic in [s for part in release.get("tables", [release]) for s in part["statistics"]]:
        needed["aggregates"].add(re.split(r"\W", statistic["statistic"].strip(), maxsplit=1)[0])
        needed["mechanisms"] |= {statistic["mechanism"]} if "mechanism" in statistic else set()
    for block in manifest["plan"]["blocks"]:
        needed["mechanisms"] |= _families(block["law"])
    known = {kind: {*registry.names(kind), *registry.third_party_names(kind)} for kind in needed}
    known["mechanisms"] |= set(registry.REMOVED)
    return sorted(
        f"{kind[:-1]} `{str(name)[:60]}`" for kind in needed for name in needed[kind] - known[kind]
    )


def _families(law: Mapping[str, Any]) -> set[str]:
    parts: Sequence[Any] = [law.get("law"), law.get("size", {}).get("law")]
    return {part["family"] for part in parts if part is not None}
