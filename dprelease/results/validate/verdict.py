"""The outcome of validation: which rules were checked on how many values, and how many failed.

A verdict is published, so it holds counts only. A value that failed is a bug in a mechanism, not
something to show: it stays unpublished, and there is no redraw
(`docs/theory/the-wall-and-the-ledger.md#no-redraw`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast, StoredAs
from dprelease.core.numeric import counted


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule on one statistic.

    Attributes:
        name: the rule, such as `domain`.
        statistic: the statistic's name; two names joined by `, ` for a joint rule; `*` for all.
        checked: values (or groups) looked at; failed: how many of them broke the rule.
    """

    name: Annotated[str, StoredAs("rule")]
    statistic: str
    checked: Annotated[int, AtLeast(0)]
    failed: Annotated[int, AtLeast(0)]


@dataclass(frozen=True, slots=True)
class Verdict(Stored):
    """Whether every rule held. `engine` is `built-in` or `great_expectations`."""

    ok: bool
    rules: tuple[RuleResult, ...]
    engine: str

    @classmethod
    def from_rules(cls, rules: tuple[RuleResult, ...], engine: str) -> Verdict:
        """Return the verdict of `rules`: no rule failed, and there was a rule to check."""
        return cls(ok=bool(rules) and all(r.failed == 0 for r in rules), rules=rules, engine=engine)

    @property
    def failures(self) -> tuple[RuleResult, ...]:
        return tuple(r for r in self.rules if r.failed)

    def __str__(self) -> str:
        if self.ok:
            return f"valid: {counted(len(self.rules), 'rule')} held ({self.engine})"
        broken = ", ".join(f"{r.name} of {r.statistic}" for r in self.failures)
        return f"not valid: {broken} ({self.engine})"
