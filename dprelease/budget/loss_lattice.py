"""Distributions of a privacy loss on a lattice, composed exactly, with losses and probabilities rounded up.

Law      For a pair (P, Q) the loss is L = log(P(y) / Q(y)) with y drawn from P, and

             delta(epsilon) = E[max(0, 1 - e^(epsilon - L))],     L = infinity counts 1.

         The losses of independent pairs add up. If (P_i, Q_i) dominates mechanism i, that is, its
         delta(epsilon) is at least the mechanism's for every epsilon, then the product dominates
         the composition, adaptive choice of the next mechanism included.
Privacy  A cell stands for *at least* the loss it holds and its weight is *at least* the
         probability. The integrand rises with L and with the weight, so both only raise delta.
         Weights are integers in units of 2**-BITS, every product is rounded up, exponentials are
         the certified bounds of `numeric`: no float decides anything here.
Pairs    `two_points`  randomised response: P = (p, 1 - p), p = e^m/(1 + e^m). It dominates every
                       m-differentially private mechanism ([KOV]).
         Not one of discrete Gaussian noise: the loss of several integers depends on how their move is
         spread, so a lattice of one of them is no bound (`docs/theory/composition.md#normal-noise`).
Units    losses in nats (`Fraction`); weights in 2**-BITS.
Sources  `docs/theory/composition.md#losses-on-a-lattice`;
         [KOV] Kairouz, Oh & Viswanath, "The composition theorem for differential privacy",
         arXiv:1311.0776. [ZDW] Zhu, Dong & Wang, "Optimal accounting of differential privacy via
         characteristic function", arXiv:2106.08567: dominating pairs compose.
Limits   more than 2 `CELLS` cells are joined in pairs, upwards. Tails below 2**-100 go to infinity
         (above) or to the lowest kept cell (below): delta is useful down to about 1e-28.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from dprelease.core.numeric import NANO, exp_lower, exp_upper, nano_up

BITS = 160
CELLS = 2**13
_ONE = 1 << BITS
_TAIL = 1 << (BITS - 100)


@dataclass(frozen=True, slots=True)
class LossLattice:
    """Upper bounds of a loss and its probabilities.

    Cell i holds the loss `start + i * step` with probability at most `weights[i]`; `infinite` is
    the weight of an unbounded loss. Make one with `two_points` or `nothing`.
    """

    start: Fraction
    step: Fraction
    weights: tuple[int, ...]
    infinite: int = 0

    @classmethod
    def nothing(cls, step: Fraction) -> LossLattice:
        """Return the loss of a release that depends on nothing."""
        return cls(Fraction(0), step, (_ONE,))

    @classmethod
    def two_points(cls, epsilon: Fraction, half: Fraction) -> LossLattice:
        """Return randomised response at `epsilon` rounded up to m * `half`; cells are 2 half apart.

        An epsilon-private mechanism is private at every larger epsilon, so the whole pair is
        rounded up, which costs less than rounding its losses one by one.
        """
        m = max(1, math.ceil(epsilon / half))
        far = _decay_lower(m * half)
        up = -(-_ONE * _ONE // (_ONE + far))
        down = math.ceil(_ONE / (1 + exp_lower(m * half, BITS)))
        return cls(-m * half, 2 * half, (down, *(0,) * (m - 1), up))

    def compose(self, other: LossLattice) -> LossLattice:
        """Return the loss of both releases together.

        Raises:
            AssertionError: the lattices have different steps.
        """
        if self.step != other.step:
            raise AssertionError("loss lattices of different steps do not compose")
        points = [(i, w) for i, w in enumerate(other.weights) if w]
        if len(points) <= 2:
            weights = _spread(self.weights, points, len(other.weights))
        else:
            weights = _convolve(self.weights, other.weights)
        return LossLattice(
            self.start + other.start, self.step, tuple(weights), self.infinite + other.infinite
        ).trimmed()

    def times(self, count: int) -> LossLattice:
        """Return the loss of `count` >= 1 independent releases of this one."""
        out: LossLattice | None = None
        power = self
        while True:
            if count & 1:
                # Joined cells have a wider step; both factors are joined to the same one.
                out = (
                    power
                    if out is None
                    else out.coarser(power.step).compose(power.coarser(out.step))
                )
            count >>= 1
            if not count:
                return out.joined() if out is not None else power
            power = power.compose(power).joined()

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return a certified upper bound of delta at `epsilon` >= 0."""
        first = max(0, math.floor((epsilon - self.start) / self.step) + 1)
        total = self.infinite
        if first < len(self.weights):
            gap = self.start + first * self.step - epsilon
            decayed, decay = _decay_lower(gap), _decay_lower(self.step)
            for weight in self.weights[first:]:
                if weight:
                    total -= -weight * (_ONE - decayed) >> BITS
                decayed = decayed * decay >> BITS
        return min(Fraction(1), Fraction(total, _ONE))

    def epsilon(self, delta: Fraction) -> Fraction | None:
        """Return an epsilon >= 0, certified by `delta`, in whole nano-units; None if there is none.

        Floats only guess; the guess is raised until the integers confirm it.
        """
        if self.infinite >= delta * _ONE:
            return None
        found = Fraction(nano_up(max(Fraction(0), Fraction(self._guess(float(delta))))), NANO)
        step = Fraction(1, NANO)
        while self.delta(found) > delta:
            found, step = found + step, 2 * step
        return found

    def _guess(self, delta: float) -> float:
        """Solve delta(epsilon) = delta in floats, cell by cell from the largest loss down."""
        mass, tilted = self.infinite / _ONE, 0.0
        step, decay = float(self.step), math.exp(-float(self.step))
        loss = float(self.start) + step * (len(self.weights) - 1)
        for weight in reversed(self.weights):
            here = weight / _ONE
            mass, tilted = mass + here, tilted * decay + here
            if mass - tilted * decay > delta and tilted > 0:  # crossed before the next cell
                return loss + math.log(max(mass - delta, 1e-300) / tilted)
            loss -= step
        return 0.0

    def trimmed(self) -> LossLattice:
        """Send the far tails to infinity (above) and to the lowest kept cell (below)."""
        below = next((i for i, s in enumerate(accumulate(self.weights)) if s > _TAIL), 0)
        count = len(self.weights)
        above = next((i for i, s in enumerate(accumulate(reversed(self.weights))) if s > _TAIL), 0)
        weights = list(self.weights[below : count - above])
        weights[0] += sum(self.weights[:below])
        return LossLattice(
            self.start + below * self.step,
            self.step,
            tuple(weights),
            self.infinite + sum(self.weights[count - above :]),
        )

    def joined(self) -> LossLattice:
        """Join cells in pairs, upwards, until there are at most 2 `CELLS`."""
        out = self
        while len(out.weights) > 2 * CELLS:
            out = out.coarser(2 * out.step)
        return out

    def coarser(self, step: Fraction) -> LossLattice:
        """Return the lattice with cells `step` apart, a power of two times its own or less."""
        if step <= self.step:
            return self
        factor = int(step / self.step)
        cells = self.weights
        # Cell i of the new lattice takes the losses up to its own: i * factor is the last of them.
        weights = [cells[0]]
        weights += [sum(cells[i : i + factor]) for i in range(1, len(cells), factor)]
        return LossLattice(self.start, step, tuple(weights), self.infinite)


def _spread(weights: tuple[int, ...], points: list[tuple[int, int]], cells: int) -> list[int]:
    """Convolve with a few points, each product rounded up."""
    out = [0] * (len(weights) + cells - 1)
    for place, factor in points:
        for i, weight in enumerate(weights, place):
            if weight:
                out[i] -= -weight * factor >> BITS
    return out


def _convolve(one: tuple[int, ...], two: tuple[int, ...]) -> list[int]:
    """Convolve through one product of long integers (Kronecker), each sum rounded up once."""
    most = max(one).bit_length() + max(two).bit_length() + min(len(one), len(two)).bit_length()
    width = most // 8 + 1
    product = _packed(one, width) * _packed(two, width)
    count = len(one) + len(two) - 1
    data = product.to_bytes(count * width, "little")
    return [
        -(-int.from_bytes(data[i : i + width], "little") >> BITS)
        for i in range(0, count * width, width)
    ]


def _packed(weights: tuple[int, ...], width: int) -> int:
    return int.from_bytes(b"".join(w.to_bytes(width, "little") for w in weights), "little")


def _decay_lower(x: Fraction) -> int:
    """Return a lower bound of e^-x, x >= 0, in units of 2**-BITS."""
    return 0 if x > BITS else math.floor(_ONE / exp_upper(x, BITS))
