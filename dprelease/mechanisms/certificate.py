"""What is proved of a law: a loss, in exact rationals, and the numbers of its proof.

A certifier bounds every likelihood ratio of a law by a rational number and hands it to
`certify_ratio`, which compares it with a rational lower bound of e^epsilon. No float decides, and a
claim is never believed: a certificate states the loss that holds.

Units    losses in nats.
Sources  `docs/theory/certificates.md#what-a-certificate-says`, `#powers-of-e`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import WrittenAs
from dprelease.core.numeric import exp_lower


def _pairs(named: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(named.items())


@dataclass(frozen=True, slots=True)
class Certificate(Stored):
    """A proved loss.

    Attributes:
        family: the law's family.
        epsilon_upper: the loss is at most this, in nats; exact.
        ratio: exact upper bound of every likelihood ratio, at most e^epsilon_upper; None where
            the loss itself is rational.
        method: how it was proved, in words.
        ingredients: the exact numbers of the proof, by name.
    """

    family: str
    epsilon_upper: Fraction
    ratio: Fraction | None
    method: str
    ingredients: Annotated[tuple[tuple[str, str], ...], WrittenAs(dict, _pairs, Mapping[str, str])]


def log_upper(ratio: Fraction) -> Fraction:
    """Return a rational upper bound of log(ratio), ratio >= 1, within a relative 2**-38."""
    if ratio <= 1:
        return Fraction(0)
    shift = max(0, ratio.numerator.bit_length() - ratio.denominator.bit_length() - 8)
    guess = math.log(ratio / (1 << shift)) + shift * math.log(2)
    bound = max(Fraction(guess), (ratio - 1) / ratio)
    step = Fraction(1, 1 << 40)
    while exp_lower(bound) < ratio:
        bound, step = bound * (1 + step), 2 * step
    return bound


def certify_ratio(
    family: str, ratio: Fraction, claim: Fraction, method: str, **ingredients: object
) -> Certificate:
    """Return the certificate of a law whose likelihood ratios are at most `ratio`.

    `claim` is accepted only if ratio <= (rational lower bound of e^claim); otherwise the
    certificate states the larger loss that does hold, so that a false claim shows.
    """
    bits = ratio.numerator.bit_length() - ratio.denominator.bit_length() + 1  # ratio < 2^bits
    proved = claim if ratio <= exp_lower(min(claim, Fraction(bits))) else log_upper(ratio)
    stated = tuple((name, str(value)) for name, value in ingredients.items())
    return Certificate(family, proved, ratio, method, stated)
