"""The golden records of laws: every mechanism over sets with and without gaps, of all sizes.

Per law: its one line, its certified loss, its error, and digests of its JSON, its proof, its
figures (errors, intervals, exact probabilities, zCDP) and its draws from repeatable bits. A refusal
is recorded by its error code, an empty offer by "none".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from dprelease.core import registry
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms import (
    BoundedGaussian,
    BoundedLaplace,
    DiscreteLaplace,
    Exponential,
    OptimalGrid,
    RectifiedGaussian,
    RectifiedLaplace,
    ReflectedLaplace,
    Staircase,
    StochasticSign,
)
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.mechanisms.law import GridRequest, family_laws, law_from_json, rho_upper
from dprelease.schema.domain import Box, Domain, GridSet
from tests.golden.records import digest, leaves

SMALL = (
    [(0, 0)],
    [(0, 6)],
    [(-5, 12)],
    [(0, 3), (8, 11)],
    [(0, 0), (5, 9)],
    [(-4, -2), (3, 3), (7, 12)],
    [(0, 40), (50, 50), (77, 90)],
)
MIDDLE = (
    [(0, 1_000)],
    [(-300, 400), (460, 1_700)],
    [(0, 20_000)],
    [(0, 9_000), (9_500, 9_500), (12_000, 30_000)],
)
WIDE = (
    [(0, 2**18)],
    [(-(2**30), 2**30 + 7)],
    [(0, 2**20), (2**20 + 2**16, 2**21)],
    [(0, 2**40), (2**40 + 2**35, 2**41), (2**41 + 1000, 2**42)],
    [(-(2**60), 2**60)],
)
EPSILONS = tuple(Fraction(*pair) for pair in ((1, 100), (1, 4), (1, 1), (3, 1), (10, 1)))
_ENUMERATED = 100


def requests() -> list[GridRequest]:
    """Return the requests: a fixed choice of all combinations, and the edges of each."""
    pick = random.Random("golden laws")
    out = []
    for sets, count in ((SMALL, 6), (MIDDLE, 4), (WIDE, 4)):
        for runs in sets:
            allowed = GridSet.from_runs(runs)
            hull = max(1, allowed.hull_steps)
            sensitivities = sorted({1, 3, max(1, hull // 7), 2 * hull})
            for _ in range(count):
                out.append(
                    GridRequest(
                        allowed,
                        pick.choice(sensitivities),
                        pick.choice(EPSILONS),
                        pick.choice(("absolute", "squared")),
                        point_masses=pick.random() < 0.7,
                        splits=pick.random() < 0.15,
                        criterion=pick.choice(("average", "average", "worst")),
                    )
                )
    ends = GridSet.from_runs([(0, 3), (8, 11)])
    out += [GridRequest(ends, 2, Fraction(1, 2**50)), GridRequest(ends, 2, Fraction(200))]
    return list(dict.fromkeys(out))


def _said(request: GridRequest) -> str:
    runs = " ".join(f"{a}..{b}" for a, b in request.allowed.runs)
    flags = [request.loss, request.criterion]
    flags += ["splits"] * request.splits + ["no spikes"] * (not request.point_masses)
    return (
        f"[{runs}] sensitivity {request.sensitivity} epsilon {request.epsilon} {', '.join(flags)}"
    )


def of_law(law: Any) -> dict[str, Any]:
    """Return the record of a grid law."""
    error, certificate = law.expected_error(), law.certify()
    low, high = law.allowed.lower, law.allowed.upper
    span = high - low
    answers = np.array([low, low + span // 3, (low + high) // 2, high] * 8, dtype=np.int64)
    raw = law.draw_raw(answers, ReplayBits("golden"))
    published = law.finish(raw)
    figures: list[Any] = [error.average, error.worst, str(rho_upper(law))]
    for level in (0.5, 0.95):
        figures.append([v.tolist() for v in law.interval(raw[:8], level)])
    if span < _ENUMERATED:
        figures.append([sorted((y, str(p)) for y, p in law.pmf(q).items()) for q in (low, high)])
    again = law_from_json(law.to_json())
    assert again.to_json() == law.to_json()
    assert again.certify() == certificate
    return {
        "law": law.describe(),
        "epsilon": float(certificate.epsilon_upper),
        "error": [error.average, error.worst],
        "json": digest(sorted(map(str, leaves(law.to_json())))),
        "proof": digest(certificate.to_json()),
        "figures": digest(figures),
        "draws": digest([raw.tolist(), published.tolist()]),
    }


def _grid() -> Iterator[tuple[str, Callable[[], Any]]]:
    for request, name in product(requests(), registry.names("mechanisms")):
        yield (
            f"{name} {_said(request)}",
            lambda r=request, n=name: [of_law(law) for law in family_laws(r, n)],
        )


DOMAINS = {
    "0..10": Domain(0, 10),
    "0..100 without (20, 60)": Domain(0, 100, forbidden=[(20, 60)]),
    "-1..1 without (-0.5, 0) and (0, 0.25)": Domain(-1, 1, forbidden=[("-0.5", 0), (0, "0.25")]),
}


def _curves(mechanism: Any, **arguments: Any) -> dict[str, Any]:
    """Return the record of a mechanism on the reals, and of its grid law of step 1/4."""
    low, high = mechanism.domain.hull
    q = np.linspace(low, high, 5)
    x = np.linspace(low, high, 9)[:, None]
    curves = [mechanism.cdf(x, q).tolist(), mechanism.mean(q).tolist()]
    curves.append(mechanism.variance(q).tolist())
    out = {"scale": float(mechanism.scale), "curves": digest(curves)}
    if arguments:
        out["loss"] = float(mechanism.loss(**arguments))
    return out


def _calibrated() -> Iterator[tuple[str, Callable[[], Any]]]:
    families: tuple[Any, ...] = (
        BoundedLaplace, BoundedGaussian, ReflectedLaplace, RectifiedLaplace, DiscreteLaplace,
        Staircase, Exponential, OptimalGrid,
    )  # fmt: skip
    budgets = ((Fraction(1, 4), Fraction(1, 2)), (2, 1), (3, Fraction(1, 8)))
    for family, (said, domain), (epsilon, sensitivity) in product(
        families, DOMAINS.items(), budgets
    ):
        given = {"sensitivity": sensitivity, "epsilon": epsilon}
        if family in (DiscreteLaplace, OptimalGrid):
            given["step"] = Fraction(1, 4) if family is DiscreteLaplace else 1

        def one(family: Any = family, domain: Any = domain, given: Any = given) -> Any:
            mechanism = family.calibrate(domain, **given)
            return [
                _curves(mechanism, sensitivity=given["sensitivity"]),
                of_law(mechanism.on_grid(Fraction(1, 4)).law),
            ]

        yield f"{family.__name__} on {said}, sensitivity {sensitivity}, epsilon {epsilon}", one
    yield from _rules()


def _rules() -> Iterator[tuple[str, Callable[[], Any]]]:
    ways: tuple[dict[str, Any], ...] = (
        {"delta": "1e-6"}, {"rule": "holohan"}, {"rule": "chen_hale"},
        {"answers": "domain"}, {"answers": "domain", "delta": "1e-4"},
    )  # fmt: skip
    for family, (said, domain), way in product(
        (BoundedLaplace, BoundedGaussian), DOMAINS.items(), ways
    ):
        if len(way) > 1 and len(domain.pieces) > 1:
            continue  # seconds each

        def one(family: Any = family, domain: Any = domain, way: Any = way) -> Any:
            mechanism = family.calibrate(domain, sensitivity=1, epsilon=1, **way)
            return [{"scale": mechanism.scale, "delta": mechanism.delta(epsilon=1, sensitivity=1)}]

        yield f"{family.__name__} on {said}, {way}", one
    for said, domain in DOMAINS.items():
        for scale in (Fraction(1, 3), 4):

            def rectified(domain: Any = domain, scale: Any = scale) -> Any:
                law = RectifiedGaussian(domain, scale=scale)
                drawn = law.on_grid(Fraction(1, 4)).draw_with(
                    np.linspace(*domain.hull, 20), ReplayBits("golden")
                )
                cost = [law.zcdp(1), law.gdp(1), law.delta(epsilon=1, sensitivity=1)]
                return [_curves(law) | {"cost": cost, "draws": digest(drawn.tolist())}]

            yield f"RectifiedGaussian on {said}, scale {scale}", rectified
    for scale in (Fraction(1, 3), 4):

        def sign(scale: Any = scale) -> Any:
            law = StochasticSign(scale=scale)
            drawn = law.on_grid(Fraction(1, 4)).draw_with(
                np.linspace(-5, 5, 20), ReplayBits("golden")
            )
            return [{"cost": [law.zcdp(1), law.gdp(1)], "draws": digest(drawn.tolist())}]

        yield f"StochasticSign scale {scale}", sign


def _vectors() -> Iterator[tuple[str, Callable[[], Any]]]:
    for sensitivity, epsilon in product((1, 7, 10**12), (Fraction(1, 100), Fraction(2))):
        yield (
            f"cells l1 {sensitivity} epsilon {epsilon}",
            lambda s=sensitivity, e=epsilon: [_cells(CellNoise.calibrate(s, e))],
        )
    for square, rho in product((1, 50, 10**13, 10**40), (Fraction(1, 1000), Fraction(1, 2))):
        yield (
            f"gaussian cells l2^2 {square} rho {rho}",
            lambda s=square, r=rho: [_cells(GaussianCells.calibrate(s, r))],
        )
    scores = np.array([[5, 3, 3, 9, 40, 2**40], [0, 0, 1, 0, 0, 0]], dtype=np.int64)
    for spread, epsilon in product((1, 2, 30), (Fraction(1, 100), Fraction(1), Fraction(20))):

        def choice(spread: int = spread, epsilon: Fraction = epsilon) -> Any:
            law = Exponential.for_scores(6, spread=spread, epsilon=epsilon)
            drawn = [law.draw_scores(scores, ReplayBits(f"golden {i}")).tolist() for i in range(9)]
            proof = law.certify()
            return [
                {
                    "law": law.describe(),
                    "epsilon": float(proof.epsilon_upper),
                    "json": digest(sorted(map(str, leaves(law.to_json())))),
                    "proof": digest(proof.to_json()),
                    "figures": digest([[str(p) for p in law.pmf(s)] for s in scores]),
                    "draws": digest(drawn),
                }
            ]

        yield f"scores spread {spread} epsilon {epsilon}", choice
    box = Box([Domain(0, 10), Domain(-3, 4, forbidden=[(0, 1)])])
    for sensitivity, epsilon in product((1, [1, "0.5"]), (Fraction(1, 4), Fraction(3))):
        yield (
            f"box sensitivity {sensitivity} epsilon {epsilon}",
            lambda s=sensitivity, e=epsilon: [_box(box, s, e)],
        )


def _cells(noise: Any) -> dict[str, Any]:
    proof = noise.certify().to_json() if isinstance(noise, CellNoise) else noise.evidence()
    return {
        "law": noise.describe(),
        "error": [*([noise.mean_abs()] if isinstance(noise, CellNoise) else []), noise.variance()],
        "json": digest(noise.to_json()),
        "proof": digest(proof),
        "figures": digest([str(noise.quantile(level)) for level in (0.5, 0.95, 0.9999)]),
        "draws": digest([int(v) for v in noise.sample(40, ReplayBits("golden"))]),
    }


def _box(box: Box, sensitivity: Any, epsilon: Fraction) -> dict[str, Any]:
    mechanism = BoundedGaussian.calibrate(box, sensitivity=sensitivity, epsilon=epsilon)
    law: Any = mechanism.on_grid(Fraction(1, 4))
    drawn = law.draw_with(np.array([[0, 0], [5, 0.5], [10, 4]] * 5), ReplayBits("golden"))
    return {
        "law": f"scales {[float(f'{s:.6g}') for s in law.scales]}",
        "epsilon": float(law.certificate.epsilon_upper),
        "json": digest(sorted(map(str, leaves(law.to_json())))),
        "proof": digest(law.certify().to_json()),
        "draws": digest(drawn.tolist()),
    }


def records(every: int = 1) -> dict[str, Any]:
    """Return every so manieth record, the first of each mechanism among them.

    A key with several laws has a number behind it.
    """
    out: dict[str, Any] = {}
    known = set()
    for part in (_grid(), _calibrated(), _vectors()):
        for place, (key, made) in enumerate(part):
            first = key.split()[0]
            if place % every and first in known:
                continue
            known.add(first)
            try:
                found = made() or [{"law": "none"}]
            except ArgumentError as refusal:
                found = [{"law": f"refused {refusal.code}"}]
            for i, record in enumerate(found):
                name = f"{key} #{i + 1}" if i else key
                assert name not in out, name
                out[name] = record
    return out
