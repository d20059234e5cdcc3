"""One release in its order, for `dp.release` and for pipeline runs alike.

    preflight   source against plan       public metadata only; spends nothing
    charge      plan -> Receipt           durable, before any random bit
    draw        rows -> Draw            behind the wall, once per key
    validate    Draw -> Verdict         a failure withholds, never redraws
    bundle      Draw -> files           deterministic
    commit      files -> the ledger       signed if there is a key; of two runs, the first one's bytes stand
    publish     files -> the folder       one atomic rename

Plan, draw and receipt pass as objects; what is JSON is made for the ledger and the files alone.

Most errors say "nothing was spent", which is true where they are raised and false for a run that has
paid a moment before: a server that goes away between charge and draw, a file that is gone. Behind the
charge they are raised anew, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from dprelease.core.errors import PUBLISHED, DpreleaseError, WithheldError
from dprelease.core.numeric import counted
from dprelease.core.periods import instant_text
from dprelease.engines.engine import Engine
from dprelease.engines.source import Source
from dprelease.pipeline import files as writing
from dprelease.pipeline import preflight, stages
from dprelease.pipeline.stages import Request
from dprelease.planning.make import what_if
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw
from dprelease.results.publish import publish_files
from dprelease.results.published_folder import standing_of
from dprelease.results.receipt import Receipt
from dprelease.results.rules import unsaid

Progress = Callable[[str, str], None]
"""Called as (stage, public detail)."""

Signing = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""What adds a signature to the files of a release."""


def quiet(stage: str, detail: str) -> None:
    """Report nothing."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A planned release on its way; its methods are the stages, in order.

    Attributes:
        request: the ledger and the key; None for a release that nothing records.
        report: told what happens, in public text.
        new_head: called whenever the ledger's head has moved.
        sign: by default the files are as they are.
    """

    plan: ReleasePlan
    request: Request | None
    engine: Engine
    report: Progress = quiet
    new_head: Callable[[], None] = _nothing
    sign: Signing = dict

    def preflight(self, source: Source) -> None:
        """Refuse, before the charge, what the plan does not fit; see `preflight.preflight`."""
        preflight.preflight(self.plan, source, self.engine)
        self.report("preflight", f"{source.name} opens and fits the schema")

    def charge(self, *, again: bool = False, early: str | None = None) -> Receipt:
        """Check the price and debit it durably; see `stages.charge`."""
        if self.request is None:
            return stages.unledgered(self.plan)
        receipt = stages.charge(self.plan, self.request, again=again, early=early)
        with _paid(receipt):
            self.new_head()
        self.report("charge", str(receipt))
        if receipt.early is not None:
            self.report(
                "early",
                f"paid for before the period closes, {receipt.early}: `latest` passes over it",
            )
        return receipt

    def draw(self, source: Source, receipt: Receipt) -> Draw:
        """Draw once, or read what was drawn; see `stages.draw`."""
        plan = self.plan
        groups = "found keys" if plan.query.groups.found else counted(len(plan.keys), "group")
        self.report("draw", f"{groups}, {counted(len(plan.statistics), 'statistic')}")
        with _paid(receipt) if self.request else nullcontext():
            return stages.draw(plan, source, self.engine, request=self.request, receipt=receipt)

    def validate(self, noised: Draw, *, great_expectations: bool) -> None:
        """Check every value; WithheldError (DPR701), for good, if one is not valid."""
        self.report("validate", "every value against its domain")
        verdict = stages.validated(noised, great_expectations=great_expectations)
        if not verdict.ok:
            raise stages.withhold(self.request, verdict)
        self.report("validate", str(verdict))

    def commit(
        self,
        noised: Draw,
        receipt: Receipt,
        formats: Sequence[str] = writing.FORMATS,
        *,
        due: datetime | None = None,
        moment: datetime | None = None,
    ) -> None:
        """Validate, write every file and commit the bytes.

        Args:
            due: when the period is due, by the calendar.
            moment: the day of publication is that of this instant, before rows were read.
        """
        assert self.request is not None
        with _paid(receipt):
            self.validate(noised, great_expectations=True)
            shown = [part.published.table for part in noised.parts.values() or (noised,)]
            if nothing := unsaid(shown):
                self.report("validate", nothing)
            ledger, key = self.request.ledger, self.request.key
            made = bundle(
                noised,
                formats,
                budget=stages.spent_at(ledger, key, receipt.seq or 0),
                scheduled=None if due is None else instant_text(due),
                published=stages.day_of(moment or datetime.now(UTC)),
            )
            stages.commit(self.request, self.sign(made))

    def publish(
        self, folder: str | Path, receipt: Receipt, *, due: datetime | None = None
    ) -> tuple[Path, Mapping[str, bytes]]:
        """Publish the committed files; return their folder and bytes. Repeatable."""
        assert self.request is not None
        ledger, key = self.request.ledger, self.request.key
        with _paid(receipt):
            files = ledger.files(key) or {}
            out = publish_files(Path(folder), key.pipeline, key.period, files, stamp=due)
        with _published():
            ledger.mark_published(key)
            self.new_head()
        from dprelease.results.series.write import (
            refresh_after_publication,  # the page's library, jinja2
        )

        if problem := refresh_after_publication(out.parent):
            self.report("index", problem)
        self.report("publish", str(out))
        named, release = asdict(key), sha256(files["release.json"]).hexdigest()
        with suppress(DpreleaseError, OSError):  # it is published by now
            stands, said = standing_of(out, named, release)
            if not stands:
                self.report("status", said)
        return out, files


def bundle(
    noised: Draw, formats: Iterable[str] = writing.FORMATS, **stated: Any
) -> dict[str, bytes]:
    """Return every file of the publication folder, by name; deterministic.

    Args:
        stated: as of `files.write_files`.

    Raises:
        ConfigError: an unknown format (DPR146).
    """
    names = tuple(formats)
    others = what_if(noised.plan) if "html" in names else []
    return writing.write_files(noised, names, software=writing.software(), what_if=others, **stated)


def _paid(receipt: Receipt) -> AbstractContextManager[None]:
    """Let no error inside say that nothing was spent, if this run made the debit.

    Raises:
        WithheldError: in place of such an error (DPR717).
    """
    return _withheld(
        "the release is paid for, and the run cannot go on",
        "run again: the debit stands, a repeat costs nothing",
        "DPR717",
        instead_of=lambda error: receipt.fresh and error.spent == "nothing",
    )


def _published() -> AbstractContextManager[None]:
    """Let an error inside say that the release is published already.

    Raises:
        WithheldError: in place of any error of ours (DPR716).
    """
    return _withheld(
        "the release is published, but the ledger or its head could not record that it is",
        "run again: it records what is missing, and costs nothing",
        PUBLISHED,
        instead_of=lambda _: True,
    )


@contextmanager
def _withheld(
    what: str, fix: str, code: str, *, instead_of: Callable[[DpreleaseError], bool]
) -> Iterator[None]:
    try:
        yield
    except DpreleaseError as error:
        if not instead_of(error):
            raise
        why = f"{error.what}{f' ({error.why})' if error.why else ''}, {error.code}"
        first = f"{error.fix}; then" if error.fix else "mend that and"
        raise WithheldError(
            what, where=error.where, why=why, fix=f"{first} {fix}", code=code
        ) from None
