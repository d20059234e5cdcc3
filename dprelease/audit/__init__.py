"""Audits of a plan: exact where the support is finite, black box where it is not.

    laws        what a law draws, from its integers, and its largest likelihood ratio      (layer A)
    pairs       the exact loss of a whole plan on two neighbouring tables                  (layer A)
    found       keys that are found: their exact delta, and their draws               (layers A, B)
    sampler     draws against the law's own table                                          (layer B)
    black_box   a lower bound of epsilon from draws alone                                  (layer C)
    repeated    many releases of one answer, by the wall itself
    neighbours  made-up neighbouring tables, from the schema's public numbers
    plan        all of it for one plan: `audit_plan`

Nothing on the release path imports this package, and it reads made-up rows only.
"""

from __future__ import annotations

from dprelease.audit.black_box import Bound, epsilon_at_least, strongest_event
from dprelease.audit.laws import Worst, law_rows, worst_ratio
from dprelease.audit.neighbours import Pair, neighbouring_tables
from dprelease.audit.pairs import PairLoss, pair_loss
from dprelease.audit.plan import Evidence, Finding, audit_plan
from dprelease.audit.sampler import draws_fit

__all__ = [
    "Bound",
    "Evidence",
    "Finding",
    "Pair",
    "PairLoss",
    "Worst",
    "audit_plan",
    "draws_fit",
    "epsilon_at_least",
    "law_rows",
    "neighbouring_tables",
    "pair_loss",
    "strongest_event",
    "worst_ratio",
]
