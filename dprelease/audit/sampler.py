"""Layer B: draws of a law against the probabilities that its own integers say.

G-test of the counts per class of neighbouring outputs. The p-value is that of a chi-square law with
one degree of freedom less than there are classes.

Units    grid steps. Sources: `docs/theory/certificates.md#audits`.
Limits   sees errors of about a share 5 / sqrt(draws) of a class; smaller ones are for `audit.laws`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve
from scipy.special import gammaincc

from dprelease.audit.flips import flip_chances
from dprelease.audit.laws import law_rows
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.mechanisms.forms.balanced import BalancedNoise
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.mechanisms.kernels.ending_laplace import EndingLaplaceNoise
from dprelease.mechanisms.law import GridLaw

FloatArray = npt.NDArray[np.float64]
_LEAST = 20.0
_CLASSES = 400
_MOST = 2**20
_FINE = 2**12


def chances_of(law: GridLaw, answer: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return the raw outputs of one answer and their probabilities; far tails left out."""
    rows = law_rows(law, [answer])
    if isinstance(rows, Fraction):
        at = min(max(answer, law.allowed.lower), law.allowed.upper)
        d, chance = _laplace(rows)
        return at + d, chance
    # A staircase's window is unnormalised: beyond it lies a geometric rest, as at its edge.
    logs = rows.logs[0]
    noise = getattr(law, "noise", None)
    width = getattr(noise, "width", None)
    if width is None:
        return rows.outputs, np.exp(logs - np.logaddexp.reduce(logs))
    at = min(max(answer, law.allowed.lower), law.allowed.upper)
    decay = noise.p / 2**64  # type: ignore[union-attr]
    total = (2 * noise.j - 1) + 2 * width * decay / (1 - decay)  # type: ignore[union-attr]
    levels = min(max(1, _MOST // width), math.ceil(60 / -math.log(decay)))
    d = np.arange(-levels * width, levels * width + 1)
    level = (np.abs(d) + width - noise.j) // width  # type: ignore[union-attr]
    return at + d, decay**level / total


def fit(drawn: npt.NDArray[np.int64], outputs: npt.NDArray[np.int64], chance: FloatArray) -> float:
    """Return the p-value of `drawn` under probabilities `chance` of the rising `outputs`.

    Neighbouring outputs are taken together to classes of at least 20 expected draws; what the
    probabilities leave over is the last class, outputs that are not listed fall into it.
    """
    place = np.minimum(np.searchsorted(outputs, drawn), outputs.size - 1)
    known = outputs[place] == drawn
    counts = np.bincount(place[known], minlength=outputs.size).astype(np.float64)
    expected = chance * drawn.size
    size = max(_LEAST, drawn.size / _CLASSES)
    classes = (np.cumsum(expected) / size).astype(np.int64)
    classes -= classes[0]
    seen = np.append(np.bincount(classes, counts), (~known).sum())
    wanted = np.append(np.bincount(classes, expected), max(0.0, drawn.size - float(expected.sum())))
    return g_test(seen, wanted)


def g_test(seen: FloatArray, wanted: FloatArray) -> float:
    """Return the p-value of counts `seen` where `wanted` were expected, the same total.

    Classes of less than one expected draw are one class; a draw that cannot be has p-value 0.
    """
    rare = wanted < 1
    if float(wanted[rare].sum()) < 1e-6 and seen[rare].sum() > 0:
        return 0.0
    last = (seen[rare].sum(), wanted[rare].sum())
    seen, wanted = np.append(seen[~rare], last[0]), np.append(wanted[~rare], last[1])
    if wanted[-1] < 1:
        seen, wanted = seen[:-1], wanted[:-1]
    some = seen > 0
    g = 2 * float((seen[some] * np.log(seen[some] / wanted[some])).sum())
    freedom = seen.size - 1
    return 1.0 if freedom < 1 else float(gammaincc(freedom / 2, max(g, 0.0) / 2))


def draws_fit(law: GridLaw, answer: int, count: int, bits: RandomBits | None = None) -> float:
    """Return the p-value of `count` raw draws for one answer."""
    drawn = law.draw_raw(np.full(count, answer, dtype=np.int64), bits or SystemBits())
    return fit(drawn, *chances_of(law, answer))


def noise_fit(
    noise: CellNoise | GaussianCells, count: int, bits: RandomBits | None = None
) -> float:
    """Return the p-value of `count` draws of a cell's noise."""
    drawn = noise.sample(count, bits or SystemBits())
    if isinstance(noise, CellNoise):
        return _laplace_fit(noise.noise.rate, drawn)
    cutoff = 12 * math.ceil(noise.scale)
    if cutoff > _MOST:
        drawn, cutoff, scale = (drawn // (cutoff // _MOST)).astype(np.int64), _MOST, cutoff // _MOST
    else:
        scale = 1
    d = np.arange(-cutoff, cutoff + 1)
    middle = d * float(scale) + (scale - 1) / 2
    weight = np.exp(-(middle**2) / (2 * float(noise.square)))
    if noise.bits and scale == 1:
        beyond = noise.fitted.survival(np.abs(d) - 1.0)
        weight = beyond - noise.fitted.survival(np.abs(d).astype(np.float64))
    return fit(drawn, d, weight / weight.sum())


def ending_fit(noise: EndingLaplaceNoise, count: int, bits: RandomBits | None = None) -> float:
    """Return the p-value of `count` draws of noise that ends; 0 where one lies beyond its bound."""
    drawn = noise.sample(count, bits or SystemBits())
    scale = noise.bound // _MOST | 1  # odd: as many steps to either side
    cutoff = noise.bound // scale
    if abs(drawn).max() > noise.bound:
        return 0.0
    d = np.arange(-cutoff, cutoff + 1)
    weight = np.exp(-float(noise.rate) * scale * np.abs(d))
    near = np.sign(drawn) * (
        (abs(drawn) + (scale - 1) // 2) // scale
    )  # -scale/2 to scale/2 about every multiple
    return fit(np.clip(near, -cutoff, cutoff).astype(np.int64), d, weight / weight.sum())


def balanced_fits(noise: BalancedNoise, count: int, bits: RandomBits | None = None) -> list[float]:
    """Return the p-values of the first and last cell of `count` draws that keep a sum.

    Their chances by convolution, on every step or, of wide noise, on every `width`-th.
    """
    few = max(64, count // noise.cells)
    drawn = noise.vectors(few, bits or SystemBits())
    width = max(1, math.ceil(40 / noise.noise.rate) // _FINE)
    cutoff = math.ceil(40 / float(noise.noise.rate) / width)
    d = np.arange(-cutoff, cutoff + 1)
    one = np.exp(-float(noise.noise.rate) * width * np.abs(d))
    others = one
    for _ in range(noise.cells - 2):
        others = fftconvolve(others, one, mode="same")
    chance = one * np.maximum(others, 0)
    chance /= chance.sum()
    ends = (drawn[:, 0], drawn[:, -1])
    return [fit(((e + width // 2) // width).astype(np.int64), d, chance) for e in ends]


def exponential_fit(
    law: ScoreLaw,
    counts: npt.NDArray[np.int64],
    scores: npt.NDArray[np.int64],
    count: int,
    bits: RandomBits | None = None,
) -> float:
    """Return the p-value of `count` choices among runs of `counts` candidates of `scores`, `(runs,)`."""
    source = bits or SystemBits()
    drawn = np.array([law.draw_runs(counts, scores, source)[0] for _ in range(count)])
    if isinstance(law, FlipLaw):
        return fit(drawn, np.arange(counts.size), counts * flip_chances(law, counts, scores))
    masses = counts.astype(object) * law.weights(scores - scores.min())
    chance = np.array([float(Fraction(int(m), int(masses.sum()))) for m in masses])
    return fit(drawn, np.arange(chance.size), chance)


def _laplace_fit(rate: Fraction, drawn: npt.NDArray[Any]) -> float:
    """Return the p-value of discrete Laplace draws, of any size: of blocks where they are wide."""
    width = max(1, math.ceil(60 / rate) // _MOST)
    if width == 1:
        return fit(drawn, *_laplace(rate))
    k = np.arange(-_MOST, _MOST + 1)
    # Block k >= 0 holds |d| = width k .. width k + width - 1, block k < 0 |d| = -width (k + 1) + 1 .. -width k.
    first = np.where(k >= 0, k * float(width), -(k + 1) * float(width) + 1)
    chance = (
        np.exp(-float(rate) * first) * -math.expm1(-float(rate) * width) / (1 + math.exp(-rate))
    )
    return fit((drawn // width).astype(np.int64), k, chance)


def _laplace(rate: Fraction) -> tuple[npt.NDArray[np.int64], FloatArray]:
    cutoff = min(_MOST, math.ceil(60 / rate))
    d = np.arange(-cutoff, cutoff + 1)
    return d, math.tanh(float(rate) / 2) * np.exp(-float(rate) * np.abs(d))
