"""A release's privacy in a dozen fields, always the same ones: for a report, and for who compares publications.

Sources  Dibia, Lu, Bhattacharjee, Near & Feng, arXiv:2507.15997: what experts want to see of a deployment.
         Nanayakkara et al., USENIX Security 2023 (arXiv:2303.00738): odds, as so many of 100, are understood best.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.budget.population import MemberLoss
from dprelease.core.codec import decode
from dprelease.core.numeric import counted, fraction_from_json, short
from dprelease.results.formats.over_time import loss_words
from dprelease.results.formats.promise_words import guesses
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.formats.words import mechanism_words

_UNPROVED = ("observed", "declared, not checked")


def privacy_label(manifest: Mapping[str, Any], words: PublicWords) -> list[tuple[str, str]]:
    """Return the fields, name and text, of a release as its manifest states it."""
    plan, guarantee, budget = manifest["plan"], manifest["guarantee"], manifest.get("budget")
    loss, guess = _loss(guarantee)
    if budget is not None and budget.get("composition") == "zcdp" and "composition" in plan:
        rho = fraction_from_json(plan["composition"]["evidence"]["rho"])
        loss += f"; ρ = {short(rho)} in the ledger, which adds up zCDP"
    noise = {mechanism_words(b["mechanism"]) for b in plan["blocks"] if b["epsilon"] != "0"}
    unproved = [words.sentence(note) for note in plan["notes"] if note.startswith(_UNPROVED)]
    said = [
        ("Privacy loss", loss),
        ("An even guess", guess),
        ("Unit of privacy", words.protected),
        (
            "Two tables are neighbours",
            f"if they differ by {words.statement(guarantee['protects'])}",
        ),
        ("All releases so far", _spent(manifest, budget)),
        ("Over time", manifest["over_time"]),
        ("A whole person", _whole(budget if budget and "person" in budget else guarantee)),
        ("A member of the population", _member((budget or {}).get("member"))),
        ("Exact rows are seen by", "the publisher, who adds the noise (the central model)"),
        ("Noise", ", ".join(sorted(noise))),
        ("Not proved", "; ".join(unproved) or "nothing: the loss of every law is proved"),
    ]
    return [(name, text) for name, text in said if text]


def _loss(said: Mapping[str, Any], epsilon: str = "epsilon") -> tuple[str, str]:
    """Return what a promise costs, and how far an even guess can become right under it."""
    loss = fraction_from_json(said[epsilon]), fraction_from_json(said.get("delta", "0"))
    right = guesses(*loss)
    most = f"at most {right} cases" if right else "up to nearly every case: next to no limit"
    return loss_words(*loss), f"becomes right in {most}"


def _spent(manifest: Mapping[str, Any], budget: Mapping[str, Any] | None) -> str:
    if budget is None:
        return "unknown: no ledger adds this release up with others"
    (spent, guess), total = _loss(budget, "spent"), short(fraction_from_json(budget["total"]))
    apart = manifest["guarantee"].get("time", {}).get("immutable")
    whose = f"{'the most charged' if apart else 'one'} unit of {manifest['dataset']}"
    whose += ", from this table alone" if "member" in budget else ""
    return f"{spent} for {whose}, of a budget of ε = {total}; an even guess {guess}"


def _whole(said: Mapping[str, Any]) -> str:
    """Return what bounds a whole person's loss, where the unit is one of their intervals."""
    if "person" not in said:
        return ""
    if said["person"] is None:
        return "no bound: a release without a period reads all of time"
    alone = ", from this table alone" if "member" in said else ""
    return f"an even guess {_loss(said['person'])[1]}{alone}"


def _member(said: Mapping[str, Any] | None) -> str:
    """Return how far an even guess about a member of the population can become right, from all its tables."""
    if said is None:
        return ""
    loss = decode(MemberLoss, said)
    tables, (_, guess) = counted(loss.tables, "table"), _loss(said, "spent")
    return f"{loss.member}, over {tables}: an even guess {guess}"
