"""Re-check a publication folder: what a stranger does who holds nothing but the folder.

A folder is a function of what was asked, what was drawn and what was paid (`derivation`). All of it
is made again from those three parts and compared: what differs is named, and a file, a key or a
block that the derivation does not make fails. No field of a manifest can make a check gentler, and
the format version alone, never a software version, chooses the rules.

    request       the request passes the readers of schemas and releases
    plan          the plan made again from the request and its recorded choice is the plan here
    certificates  every sensitivity from the query, every law's loss from its own integers, their
                  sum against the guarantee, in exact arithmetic
    values        the table made again from the noisy integers: finite, in its domains, on its steps;
                  joint constraints hold
    files         every byte of every file, made again, is here, and nothing else is
    signature     the manifest's hash is signed, by a key that was given; without one it is said whose
    intact        only of a folder that another version made and that does not verify: each file is the one
                  that the manifest lists by its SHA-256, so that another version may make it again
    status        the record of corrections beside the folder does not withdraw the release
    ledger        with the ledger at hand: the anchor right after the debit, the bytes committed
                  under it, and the whole chain; without it the receipt is stated, not checked

No data is needed, and no trust in the publisher's software: only in the arithmetic done here. What
cannot be checked from outside is in `UNKNOWN`, and said with every answer; who made the folder too, unless a
key was given that signed it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dprelease import __version__
from dprelease.budget.connection import Place
from dprelease.core.caller import path_from
from dprelease.core.codec import encode
from dprelease.core.errors import ConfigError, VerificationError, printable, shortened
from dprelease.core.numeric import counted
from dprelease.core.patience import within
from dprelease.core.strict_json import read_json
from dprelease.query.calendar import zone_tables
from dprelease.results import signature_file
from dprelease.results.draw import Draw
from dprelease.results.formats.json_ import FILE, VERSION, described, manifest_bytes
from dprelease.results.formats.manifest_file import read_manifest
from dprelease.results.published_folder import Listing, listing, read_small, standing_of
from dprelease.verification.check import FAULTS, Check, look_in_order, run_check, within_length
from dprelease.verification.cited_entry import against_ledger
from dprelease.verification.comparison import as_published, differences, paths_apart
from dprelease.verification.derivation import Derivation, missing_packages

PATIENCE = 30.0
"""Seconds that making a foreign plan again may take."""

UNKNOWN = (
    "that the table was the right one, and was bounded and summed as the plan says",
    "that the noise came from the operating system's generator",
    "that ranges, groups and guesses were declared without a look at the data",
    "that no other ledger exists for these people",
    "that the publisher did not draw several times and keep one draw",
    "what the publisher states in words: titles, names, `software`, days of publication and schedule",
)
"""What no folder can show."""

SIGNATURE = "signature"
"""A check that no other version can make good; nor can one the check `intact`."""

_OF_TODAY = frozenset({"status", "ledger"})
"""Checks whose answer no other version changes."""

_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}[a-z0-9.]{0,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one folder; `ok` exactly if none of them failed.

    What was not looked at (`not_checked`) is said, and does not fail: a folder alone holds no ledger.

    Attributes:
        of: which release it is, by its manifest, whatever the folder is called.
        made_by: the version that made it, as it states, where that is not this one.
        publisher: who publishes it, as it states.
    """

    folder: str
    checks: tuple[Check, ...]
    of: str = ""
    made_by: str | None = None
    publisher: str | None = None

    @property
    def ok(self) -> bool:
        return all(c.ok is not False for c in self.checks)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.checks if c.ok is None)

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.needs:
            return (
                f"not verified by dprelease {__version__}. The manifest names {self.needs}: if that"
                " version made the folder, only that one makes it again to the byte, so verify it with that"
            )
        failed = [check for check in self.checks if check.ok is False]
        if [check.name for check in failed] == ["status"]:
            return f"NOT verified: {failed[0].detail}; all else verifies"
        if failed:
            return "NOT verified"
        left = ", ".join(self.not_checked)
        said = f"verified under the rules of {VERSION}: {self.of}"
        return said + (f"; not checked: {left}" if left else "")

    @property
    def needs(self) -> str | None:
        """What may verify a folder that this version does not make again; None where nothing else would.

        It is the manifest's own word, and no answer: the folder is not verified. Of a folder whose files are
        not the ones that the manifest lists there is none.
        """
        failed = {check.name for check in self.checks if check.ok is False}
        if not self.made_by or failed & {SIGNATURE, "intact"} or failed <= _OF_TODAY:
            return None
        return f"dprelease {self.made_by}"

    @property
    def unknown(self) -> tuple[str, ...]:
        """What no folder can show: who made it too, unless a key that was given signed it."""
        found = next((check for check in self.checks if check.name == SIGNATURE), None)
        if found is not None and found.ok:
            return UNKNOWN
        stated = "no publisher is named"
        if self.publisher is not None:
            stated = f"the publisher, {self.publisher}, is stated"
        how = "the folder is not signed" if found is None else "`--public-key KEY` says who signed"
        if found is not None and found.ok is False:
            how = "the check of its signature failed"
        return (*UNKNOWN, f"who made it: {stated}; {how}")

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "ok": self.ok,
            "of": self.of,
            "rules": VERSION,
            "needs": self.needs,
            "checks": [encode(check) for check in self.checks],
            "not_checked": list(self.not_checked),
            "unknown": list(self.unknown),
        }

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))  # of a notebook

    def __str__(self) -> str:
        lines = [f"{c.mark:<4} {c.name:<13} {c.detail}" for c in self.checks]
        return "\n".join(
            [*lines, self.summary, "no folder can show:", *(f"  {u}" for u in self.unknown)]
        )


def verify(
    folder: str | Path,
    *,
    ledger: Place | str | None = None,
    public_key: str | Path | Sequence[str | Path] | None = None,
    patience: float = PATIENCE,
) -> Verification:
    """Re-check one publication folder, with the ledger's anchor if `ledger` is given.

    Args:
        ledger: its file, or a server by reference: `${env:NAME}`.
        public_key: the publisher's, as 64 hex digits or a file, or several of which any may have signed. A
            folder that none of them signed does not verify.
        patience: seconds after which a foreign plan that takes long is given up.

    Raises:
        VerificationError: the folder holds no release at all (DPR801, DPR810), one of another format
            (DPR802), or one of a format that is revoked (DPR803).
        LedgerError: a key is none (DPR421), or the extra that checks signatures is missing (DPR422).
        ArgumentError: `folder` or a key is no path (DPR642).
    """
    keys = signature_file.read_public_keys(public_key)
    return examined(folder, ledger=ledger, keys=keys, patience=patience)[0]


def examined(
    folder: str | Path,
    *,
    ledger: Place | str | None = None,
    keys: frozenset[str] = frozenset(),
    patience: float = PATIENCE,
) -> tuple[Verification, Derivation]:
    """Return `verify`'s result and the folder made again; the latter holds only where it is ok."""
    path = path_from(folder, "a publication", "public/clinic_weekly/latest")
    found, data, made = _opened(path)
    manifest: Any = made.manifest
    checks: list[Check] = []
    with within(patience):  # a few bytes can ask for much; what follows is bounded by what is there
        look_in_order(
            checks,
            ("request", lambda: _request(manifest, made)),
            ("plan", lambda: _plan(manifest, made)),
            ("certificates", lambda: _certificates(made)),
        )
    look_in_order(checks, ("values", lambda: _values(made)))
    manifest.pop("draw", None)  # read by now: the integers of many groups take their room once
    look_in_order(checks, ("files", lambda: _files(path, found, data, made)))
    if keys or signature_file.FILE in found:
        stated = read_small(path / signature_file.FILE)
        checks.append(run_check(SIGNATURE, lambda: signature_file.verdict(stated, data, keys)))
    if _other_version(manifest) and False in [check.ok for check in checks]:
        checks.append(run_check("intact", lambda: _intact(path, found, data)))
    release = hashlib.sha256(data).hexdigest()
    checks.append(run_check("status", lambda: standing_of(path, manifest, release)))
    if ledger is None:
        checks.append(Check("ledger", None, _no_ledger(manifest)))
    else:
        checks.append(run_check("ledger", lambda: against_ledger(path, found, made, ledger)))
    answer = Verification(
        str(path),
        within_length(checks),
        _release_of(path, manifest),
        _other_version(manifest),
        _publisher(manifest),
    )
    return answer, made


def must_verify(path: Path, *, but: str | None = None) -> Derivation:
    """Return the folder made again; VerificationError DPR806 unless it verifies, whatever the check `but` says."""
    result, made = examined(path)
    failed = [check for check in result.checks if check.ok is False and check.name != but]
    if failed:
        other = f" or verify it with {result.needs}" if result.needs else ""
        raise VerificationError(
            f"{path.name} does not verify: {', '.join(check.name for check in failed)}",
            where=str(path),
            why=failed[0].detail[:300],
            fix=f"ask the publisher{other}; `dprelease verify` says more, `verify=False` reads it unchecked",
            code="DPR806",
        )
    return made


def made_again(folder: Path) -> tuple[Draw, dict[str, Any], str]:
    """Return the release of a folder and its manifest, made again, and the SHA-256 of the latter.

    The other files are not looked at: a page can be made again where they are gone.

    Raises:
        VerificationError: as `verify`, or the release does not follow from its request (DPR805).
    """
    _, data, made = _opened(folder)
    with within(PATIENCE):
        try:
            return made.noised, read_json(made.files[FILE]), hashlib.sha256(data).hexdigest()
        except (*FAULTS, ConfigError):
            raise VerificationError(
                "the release does not follow from its request",
                where=str(folder),
                fix="`dprelease verify` says what is wrong with it",
                code="DPR805",
            ) from None


def _opened(path: Path) -> tuple[Listing, bytes, Derivation]:
    """Return the files of a folder, the bytes of its manifest, and what is made of that."""
    found, data = listing(path), read_small(path / FILE)
    manifest = read_manifest(data, path)
    return (
        found,
        data or b"",
        Derivation(manifest, lambda name, made: as_published(path / name, made)),
    )


def _release_of(path: Path, manifest: Mapping[str, Any]) -> str:
    """Return which release a folder holds; also what the folder is called, if that is something else."""
    pipeline, period = manifest.get("pipeline"), manifest.get("period")
    if not (isinstance(pipeline, str) and isinstance(period, str)):
        return "a release without a ledger"
    said, name = f"{period} of {pipeline}", path.resolve().name
    other = "" if name == period else f" (the folder is called {name})"
    return printable(shortened(f"{said}{other}", 200))


def _other_version(manifest: Mapping[str, Any]) -> str | None:
    """Return the other version that the manifest names."""
    said = manifest.get("software")
    named = said.get("dprelease") if isinstance(said, Mapping) else None
    known = isinstance(named, str) and _VERSION.fullmatch(named) is not None
    return str(named) if known and named != __version__ else None


def _publisher(manifest: Mapping[str, Any]) -> str | None:
    """Return the publisher's name, as the manifest states it."""
    try:
        name = manifest["request"]["schema"]["publisher"]["name"]
    except FAULTS:
        return None
    return printable(shortened(name, 60)) if isinstance(name, str) and name else None


def _request(manifest: Mapping[str, Any], made: Derivation) -> tuple[bool, str]:
    missing = missing_packages(manifest)
    if missing:
        return False, f"not verified here: needs the package that offers {', '.join(missing)}"
    query = made.query
    calendar = query.calendar
    when = "" if calendar is None else f", {calendar.every} {calendar.name}"
    published, tomorrow = manifest["receipt"]["published"], datetime.now(UTC) + timedelta(days=1)
    if published is not None and published > tomorrow.date().isoformat():
        return (
            False,
            f"it was published on {published[:10]}, by its own words, which is yet to come",
        )
    if calendar is not None and calendar.name != manifest["receipt"]["period"]:
        return False, f"it asks for {calendar.name}, and the receipt is of another period"
    columns = query.schema.columns.values()
    when += "".join(f"; {c.name} has the keys of {each}" for c in columns for each in c.lists)
    return True, f"schema {query.schema.name}, {counted(len(query.statistics), 'statistic')}{when}"


def _plan(manifest: Mapping[str, Any], made: Derivation) -> tuple[bool, str]:
    stated, plan = manifest["plan"], made.plan
    again = plan.to_json()
    if again != stated:
        where = paths_apart(again, stated)
        calendar = made.query.calendar
        if calendar is not None and calendar.zones != zone_tables() and "window" in "".join(where):
            return False, f"not verified here: needs the time zone tables {calendar.zones[:20]}"
        return False, f"the plan is not the request's: {', '.join(where)}"
    made.plan_hash, made.what_if  # noqa: B018 - planned here, under the clock
    return True, plan.in_words(plan.guarantee)


def _certificates(made: Derivation) -> tuple[bool, str]:
    total, plan = made.loss, made.plan
    said = "".join(f"; {note}" for note in plan.notes if note.startswith("observed"))
    return (
        True,
        f"{counted(len(plan.blocks), 'law')} recomputed, proved epsilon {float(total):.9g} in total{said}",
    )


def _values(made: Derivation) -> tuple[bool, str]:
    verdict, noised = made.verdict, made.noised
    rows = sum(part.table.num_rows for part in noised.parts.values()) or noised.table.num_rows
    found = "; keys that were left out are in no folder" if made.query.groups.found else ""
    return verdict.ok, f"{rows:,} made again from the noisy integers, {verdict}{found}"


def _files(path: Path, found: Listing, data: bytes, made: Derivation) -> tuple[bool, str]:
    files = made.files
    found = {name: size for name, size in found.items() if name != signature_file.FILE}
    wrong = differences(path, found, files)
    if not wrong:
        return True, f"{counted(len(files), 'file')} made again, every byte"
    if FILE in wrong:
        where = paths_apart(read_json(files[FILE]), read_json(data))
        wrong[FILE] += f" ({', '.join(where)})" if where else ""
    said = [f"{name[:60]} {problem}" for name, problem in wrong.items()]
    more = [f"and {len(said) - 5} more"] * (len(said) > 5)
    return False, "; ".join([*said[:5], *more])


def _intact(path: Path, found: Listing, data: bytes) -> tuple[bool, str]:
    """Hold each file against the hash that the manifest states, and the manifest against its only text."""
    manifest, stored = read_json(data), described({})
    for name in {*found} - {signature_file.FILE}:
        stored |= described({name: read_small(path / name, min(found[name], 2**30)) or b""})
    text = described({FILE: manifest_bytes(manifest)})
    wrong = [key for key in ("request", "draw", "plan", "receipt") if not manifest.get(key)]
    wrong += paths_apart(stored, manifest["files"] | text, 10)
    return not wrong, f"damaged, or not as the manifest states it: {', '.join(wrong) or 'no file'}"


def _no_ledger(manifest: Mapping[str, Any]) -> str:
    try:
        cited = manifest["ledger"]
        if cited is None:
            return "not checked: the release cites none"
        return (
            f"not checked: entry {int(cited['seq'])} of ledger {str(cited['ledger_id'])[:8]} is"
            " stated; `--ledger FILE` checks it"
        )
    except FAULTS:
        return "not checked: none was given"
