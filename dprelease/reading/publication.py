"""`read` and `read_series`: published folders as something to compute with, verified first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprelease.core.caller import path_from
from dprelease.core.errors import UNREADABLE, DpreleaseError, VerificationError
from dprelease.core.numeric import counted, whole_from_json
from dprelease.measurements.law import Law
from dprelease.query.load import Schema
from dprelease.reading.derived import Derived, stacked
from dprelease.reading.evaluation import Periods
from dprelease.reading.public_table import PublicLike
from dprelease.reading.released import Released
from dprelease.reading.released_values import ReleasedValues
from dprelease.reading.table_values import TableValues, values_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw
from dprelease.results.formats.json_ import FILE
from dprelease.results.formats.manifest_file import read_manifest
from dprelease.results.publish import period_order
from dprelease.results.published_folder import read_small
from dprelease.results.receipt import Receipt
from dprelease.results.series.collect import noised_of
from dprelease.verification.derivation import receipt_of
from dprelease.verification.verify import Verification, must_verify
from dprelease.verification.verify import verify as verify_folder


class Publication(Released):
    """One published period.

    Attributes:
        folder: where it was read; manifest: its `release.json`.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], noised: Draw) -> None:
        super().__init__(noised)
        self.folder, self.manifest = folder, manifest

    @property
    def receipt(self) -> Receipt:
        """What the manifest says of the payment: the budget is as of the release's own ledger entry."""
        said = self.manifest.get("over_time")
        return replace(self._noised.receipt, over_time=said if isinstance(said, str) else "")

    def verify(self) -> Verification:
        """Re-check the folder as it is now."""
        return verify_folder(self.folder)

    @property
    def laws(self) -> Mapping[str, Law]:
        """The certified law of every block, by its name."""
        return {block.name: block.law for block in self.plan.blocks}

    @property
    def schema(self) -> Schema:
        """The schema that the release was asked for with: ranges, keys, unit."""
        return Schema.from_dict(self.manifest["request"]["schema"])

    def _periods(self, values: ReleasedValues) -> Periods:
        table = values.table if isinstance(values, TableValues) else None
        return Periods(values, self.folder.name, _Siblings(self.folder, values, table))

    def _source(self) -> str:
        paid = self._noised.receipt
        return f"{paid.pipeline or self.folder.parent.name}/{paid.period or self.folder.name}"

    def __repr__(self) -> str:
        return f"<Publication {self._source()}: {self._size()}>"


def read(folder: str | Path, *, verify: bool = True) -> Publication:
    """Return the publication in `folder`, which may be `latest`.

    Args:
        verify: without it the numbers are taken as they stand; nothing is checked.

    Raises:
        VerificationError: it does not verify (DPR806), or is not a publication (DPR801, DPR802, DPR810).
        ArgumentError: `folder` is no path (DPR642).
    """
    path = path_from(folder, "a publication", "public/clinic_weekly/latest").resolve()
    if not verify:
        return _unchecked(path)
    made = must_verify(path)
    return Publication(path, made.manifest, made.noised)


def _unchecked(path: Path) -> Publication:
    manifest = read_manifest(read_small(path / FILE), path)
    try:
        return Publication(path, manifest, noised_of(manifest, _stated_receipt))
    except (*UNREADABLE, DpreleaseError) as problem:
        raise VerificationError(
            "the manifest does not hold a release",
            where=str(path),
            why=type(problem).__name__,
            fix="ask the publisher",
            code="DPR806",
        ) from None


def _stated_receipt(manifest: Mapping[str, Any], plan: ReleasePlan) -> Receipt:
    paid = manifest["receipt"]
    early, approval = paid["early"], paid.get("approval")
    return replace(
        receipt_of(manifest, plan),
        early=None if early is None else str(early)[:20],
        approval=None if approval is None else whole_from_json(approval["event"], "the approval"),
        plan_hash=str(manifest["plan_hash"])[:64],
    )


def _names(folder: Path) -> list[str]:
    """Return the periods published below `folder`, oldest first; `latest` is a link to one."""
    found = [
        entry.name
        for entry in folder.iterdir()
        if not entry.is_symlink() and not entry.name.startswith(".") and (entry / FILE).is_file()
    ]
    return sorted(found, key=period_order)


class _Siblings(Mapping[str, ReleasedValues]):
    """The periods beside a publication, each read and verified when it is first needed."""

    def __init__(self, folder: Path, own: ReleasedValues, table: str | None) -> None:
        self._parent, self._table = folder.parent, table
        self._read = {folder.name: own}

    def __getitem__(self, name: str) -> ReleasedValues:
        if name not in self._read:
            self._read[name] = values_of(read(self._parent / name).noised, self._table)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_names(self._parent))

    def __len__(self) -> int:
        return len(_names(self._parent))


class Series(Mapping[str, Publication]):
    """All periods of one pipeline that verify, oldest first.

    Attributes:
        left_out: period and reason of those that were withdrawn or do not verify.
    """

    def __init__(
        self, name: str, found: Mapping[str, Publication], left_out: Mapping[str, str]
    ) -> None:
        self.name, self._found, self.left_out = name, dict(found), dict(left_out)
        self._known: dict[str | None, dict[str, ReleasedValues]] = {}

    def __getitem__(self, period: str) -> Publication:
        return self._found[period]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _values(self, table: str | None) -> dict[str, ReleasedValues]:
        if table not in self._known:
            found = {name: values_of(p.noised, table) for name, p in self._found.items()}
            self._known[table] = found
        return self._known[table]

    def derive(
        self,
        expression: str = "",
        *,
        by: Sequence[str] | None = None,
        table: str | None = None,
        public: PublicLike | None = None,
        level: float = 0.95,
        name: str | None = None,
        certain: bool = False,
    ) -> Derived:
        """Return the expression for every period, with the period as first key column, whether or not `by` names it.

        A period for which it cannot be computed, the first one of `growth(a)`, is left out, and so is
        a group that was not published in the other period; the result's notes name them.

        Raises:
            ConfigError, ArgumentError: as `Publication.derive`; the latter if no period is left.
        """
        from dprelease.reading.derive import derive

        if by is not None:
            by = [key for key in ((by,) if isinstance(by, str) else by) if key != "period"]
        more: Any = {"by": by, "public": public, "level": level, "name": name, "certain": certain}
        made, notes = {}, [f"{period} is left out: {why}" for period, why in self.left_out.items()]
        problem: DpreleaseError | None = None
        known = self._values(table)
        for period, values in known.items():
            try:
                made[period] = derive(Periods(values, period, known), expression, **more)
            except DpreleaseError as error:
                if error.code != "DPR664":
                    raise
                problem = error
                notes.append(f"{period}: {error.what}")
        if not made and problem is not None:
            raise problem
        said: dict[str, list[str]] = {}
        for period, part in made.items():
            for note in part.notes:
                said.setdefault(note, []).append(period)
        notes += [n if len(of) == len(made) else f"{', '.join(of)}: {n}" for n, of in said.items()]
        return stacked(made, source=self.name, notes=tuple(notes))

    def __repr__(self) -> str:
        names = list(self._found)
        span = f", {names[0]} to {names[-1]}" if names else ""
        return f"<Series {self.name}: {counted(len(names), 'period')}{span}>"


def read_series(folder: str | Path, *, verify: bool = True) -> Series:
    """Return every period published below `folder`, oldest first.

    Withdrawn periods, and such that do not verify, are left out: `left_out` says which and why.

    Raises:
        VerificationError: `folder` holds no period that can be read (DPR807).
        ArgumentError: `folder` is no path (DPR642).
    """
    path = path_from(folder, "a pipeline's folder", "public/clinic_weekly").resolve()
    found: dict[str, Publication] = {}
    left_out: dict[str, str] = {}
    try:
        names = _names(path)
    except OSError:
        names = []
    for name in names:
        try:
            found[name] = read(path / name, verify=verify)
        except DpreleaseError as problem:
            said = problem.what.removeprefix(f"{name} ")
            left_out[name] = f"{said} ({problem.why})" if problem.why else said
    if not found:
        below = next(path.glob("*/*/release.json"), None)
        named = "public/clinic_weekly" if below is None else below.parent.parent
        raise VerificationError(
            "there is no published period to read",
            where=str(path),
            why="; ".join(f"{name}: {why}" for name, why in left_out.items())[:400] or None,
            fix=f"`dprelease verify {path}` says what is wrong with them"
            if left_out
            else f"name the folder of a pipeline, e.g. {named}",
            code="DPR807",
        )
    return Series(path.name, found, left_out)
