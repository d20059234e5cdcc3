"""The four paper scripts run, print what the papers print, and save their figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.examples.scripts import PAPERS, paper
from tests.sizes import FULL, whole

FIGURES = {
    "holohan": ["holohan_figure_1"],
    "croft": ["croft_theorem_1", "croft_figures"],
    "chen_hale": ["chen_hale_figure_1"],
    "hu": ["hu_figure_1", "hu_digits"],
}
SVG = "{http://www.w3.org/2000/svg}"
CHEN_HALE = ["Table 1", "857.52", "290.90", "84.38", "12.20"]


def lines_drawn(path: Path) -> int:
    """Return how many curves or dots an SVG has, after checking that it parses."""
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title") is not None
    text = path.read_text(encoding="utf-8")
    assert "nan" not in text
    return len(root.findall(f".//{SVG}path")) + len(root.findall(f".//{SVG}circle"))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("holohan", ["Figure 1", "Theorem 3.5", "1.999"]),
        ("croft", ["Table 2", "13.21", "11.17", "1.613", "Section 3.6", "1.49"]),
        *([("chen_hale", CHEN_HALE)] if FULL else []),  # in small: below
    ],
)
def test_a_script_runs_by_itself(script: str, expected: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PAPERS / f"{script}.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for text in expected:
        assert text in done.stdout
    for name in FIGURES[script]:
        fresh, kept = lines_drawn(tmp_path / f"{name}.svg"), PAPERS / "figures" / f"{name}.svg"
        assert fresh == lines_drawn(kept)


def test_chen_hale_runs_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chen_hale = paper("chen_hale")
    monkeypatch.setattr(chen_hale, "POINTS", 2)
    monkeypatch.setattr(chen_hale, "TABLE_1", [chen_hale.TABLE_1[row] for row in (0, 2, 6)])
    chen_hale.main(tmp_path)
    out = capsys.readouterr().out
    for text in CHEN_HALE:
        assert text in out
    for name in FIGURES["chen_hale"]:
        assert lines_drawn(tmp_path / f"{name}.svg") > 4
        assert lines_drawn(PAPERS / "figures" / f"{name}.svg") > 4


def test_hu_runs_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hu = paper("hu")
    monkeypatch.setattr(hu, "SEEDS", 1)
    monkeypatch.setattr(hu, "STEPS", 3)
    monkeypatch.setattr(hu, "TRIALS", 1)
    monkeypatch.setattr(hu, "RATIOS", (50.0,))
    monkeypatch.setattr(hu, "GAUSSIAN_RATIOS", (50.0, 100.0))
    monkeypatch.setattr(hu, "RATES", (1.0,))
    hu.main(tmp_path)
    out = capsys.readouterr().out
    assert "must not be published" in out
    assert "rectified" in out
    for name in FIGURES["hu"]:
        assert lines_drawn(tmp_path / f"{name}.svg") > 10
        assert lines_drawn(PAPERS / "figures" / f"{name}.svg") > 10


def test_table_1_of_chen_and_hale(monkeypatch: pytest.MonkeyPatch) -> None:
    chen_hale = paper("chen_hale")
    monkeypatch.setattr(chen_hale, "TABLE_1", chen_hale.TABLE_1[:: whole(3, 1)])
    rows = chen_hale.table_1()
    exact = (290.9, 61.40, 32.34, 22.46, 17.41, 14.32, 12.21)[:: whole(3, 1)]
    for (_, generalized, printed, rule, ours, tight), expected in zip(rows, exact, strict=True):
        assert rule == pytest.approx(printed, abs=0.09)  # 84.3 is printed for 84.38
        assert ours == pytest.approx(expected, abs=0.06)
        assert tight < ours < rule < generalized
    wanted = [857.52, 170.27, 84.38, 55.77, 41.47, 32.9, 27.2]
    assert [round(row[3], 2) for row in rows] == wanted[:: whole(3, 1)]


def test_figure_1_of_holohan() -> None:
    rows = np.array(paper("holohan").figure_rows())
    assert rows[:, 2] == pytest.approx(rows[:, 3], rel=1e-9)  # the theorem, solved twice
    assert ((rows[:, 3] >= 1 - 1e-12) & (rows[:, 3] < 2)).all()
    assert (rows[rows[:, 0] < 1, 4] > 1.1).all()  # resampling at the plain scale costs more


def test_the_half_line_of_croft_at_the_usual_scale() -> None:
    """Formula (24) is what the library finds by itself, and more than was promised."""
    for epsilon, i, printed, found, promised in paper("croft").motivating_rows():
        assert found == pytest.approx(printed, rel=1e-9)
        assert found > promised * (1 + 0.05 * min(i, 1) * epsilon)
        if i * epsilon < 0.02:
            assert found / promised == pytest.approx(2, rel=0.02)


def test_figure_2_of_croft_is_the_librarys_density() -> None:
    croft = paper("croft")
    x, laplace, truncated, factor = croft.figure_2()
    law = croft.BoundedLaplace(croft.ILLUSTRATED, scale=1)
    allowed = truncated > 0
    assert np.asarray(law.pdf(x, 0.0))[allowed] == pytest.approx(truncated[allowed], rel=1e-9)
    assert np.trapezoid(truncated, x) == pytest.approx(1, abs=0.01)
    assert np.trapezoid(np.where(allowed, laplace, 0), x) * factor == pytest.approx(1, abs=0.01)
    assert 1.2 < factor < 2


def test_figure_1_of_hu() -> None:
    rows = {(s, t, name): rest for s, t, name, *rest in paper("hu").figure_1_rows()}
    expected = {
        (0.5, 0.0): (1.995, 1.759, 1.596),
        (1.0, 2.0): (0.686, 0.417, 0.362),
    }
    names = ("rectified", "truncated", "stochastic sign")
    for (scale, theta), etas in expected.items():
        got = [rows[scale, theta, name][0] for name in names]
        assert got == pytest.approx(etas, abs=1e-3)
    for (scale, _, _), (_, both, one, _) in rows.items():
        assert one <= both * (1 + 1e-12)
        assert both <= 1 / scale**2  # the Gaussian's own


def test_the_errors_of_the_mean_match_a_simulation() -> None:
    hu = paper("hu")
    generator = np.random.Generator(np.random.PCG64(5))
    centre = np.array([-0.3, 0.05, 0.9])
    draws = np.clip(centre + 0.4 * generator.normal(size=(400_000, 3)), -0.5, 0.5)
    simulated = float(np.mean((draws - 0.1) ** 2))
    assert hu.clipped_error(centre, 0.4, 0.5, 0.1) == pytest.approx(simulated, rel=0.01)
    assert hu.clipped_error(centre, 0.4, 0.6, 0.1) != pytest.approx(simulated, rel=0.01)


def test_what_reproduces_of_the_mean_estimation() -> None:
    hu = paper("hu")
    rows = [row for row in hu.mean_estimation() if row[1] == 0.4]
    for _, _, allowed, _, ratio, one_sided, change in rows:
        assert one_sided <= ratio <= 1
        if allowed == "within 0.5 %":
            assert ratio > 0.99  # no saving where the error stays
        else:
            assert change <= 0.005
    at_zero = next(row for row in rows if row[0] == 0 and "worse" in row[2])
    assert at_zero[4] < 0.7  # the 30 % of the text ...
    assert at_zero[6] < -0.5  # ... with an error that does not stay
    rng = np.random.Generator(np.random.PCG64(1))
    noise = rng.normal(0, 0.024, (1, 100))
    fixed = [hu._one_bound(mu + noise, 0.4, 0.2, mu)[1] for mu in (0.0, 0.25, 0.5)]
    assert fixed[0] > fixed[1] > fixed[2]  # at a fixed bound the saving grows with the bias


def test_equal_accuracy_interpolates_the_baseline() -> None:
    hu = paper("hu")
    runs = [
        hu.Run("Gaussian", np.inf, 1, 100, 0.7, 1.0),
        hu.Run("Gaussian", np.inf, 1, 90, 0.6, 1.5),  # beaten: no part of the frontier
        hu.Run("Gaussian", np.inf, 1, 50, 0.9, 4.0),
        hu.Run("rectified", 1, 1, 50, 0.8, 1.0),
        hu.Run("rectified", 1, 1, 20, 0.95, 9.0),
    ]
    rows = hu.learning_rows(runs)
    assert len(rows) == 4
    rectified = [row for row in rows if row[0] == "rectified"]
    assert rectified[0][-2:] == pytest.approx((2.0, 0.5))
    assert np.isnan(rectified[1][-1])


@pytest.mark.parametrize("kind", ["truncated", "rectified", "Gaussian"])
def test_the_simulated_noise_is_the_law_that_is_accounted(kind: str) -> None:
    hu = paper("hu")
    generator = np.random.Generator(np.random.PCG64(6))
    for centre in (-2.0, -0.1, 0.7):
        draws = hu.noisy(kind, np.full(200_000, centre), 1.0, 1.0, generator)
        if kind == "Gaussian":
            expected = centre
        elif kind == "rectified":
            expected = float(np.clip(centre + generator.normal(size=200_000), -1, 1).mean())
        else:
            law = hu.mechanisms(1.0, 1.0)["truncated"]
            x = np.linspace(-1, 1, 4001)
            weight = np.exp(-((x - centre) ** 2) / 2)
            expected = float((x * weight).sum() / weight.sum())
            if abs(centre) <= 1:
                assert float(law.mean(centre)) == pytest.approx(expected, abs=1e-3)
        assert float(draws.mean()) == pytest.approx(expected, abs=0.01)
        assert float(draws.mean()) != pytest.approx(-expected, abs=0.01)


def test_a_step_uses_clipped_gradients() -> None:
    hu = paper("hu")
    digits = hu.load_digits()
    assert digits.train.shape == (65, 1437)
    assert digits.test.shape == (360, 65)
    _, sums = hu.train(digits, "Gaussian", 0.3, 50.0, np.inf, 1.0, 0)
    # The first step starts from zero weights: every chance is 1/10.
    error = 0.1 - digits.labels
    direct = np.clip(digits.train[:, :, None] * error[None], -0.3, 0.3).sum(axis=1) / 0.3
    assert sums[0] == pytest.approx(direct.ravel(), rel=1e-3, abs=1e-2)
    assert np.abs(sums).max() <= 1437


def test_section_6_3_of_hu_runs_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = paper("hu_fisher")
    for name, value in {"STEPS": 2, "SEEDS": 1, "WATCHED": 3, "RATIOS": (8.0, 32.0)}.items():
        monkeypatch.setattr(script, name, value)
    script.main(tmp_path)
    assert "must not be published" in capsys.readouterr().out
    for folder in (tmp_path, PAPERS / "figures"):
        assert lines_drawn(folder / "hu_figure_4.svg") >= 6


@pytest.mark.skipif(not FULL, reason="minutes of training: `make evidence`")
def test_section_6_3_of_hu_at_full_size(evidence: Any) -> None:
    script = paper("hu_fisher")
    rows = script.rows(script.learning())
    ratios = {(kind, size): row[-1] for kind, size, *row in rows}
    shown = [ratios["truncated", size] for size in (8.0, 16.0, 32.0)]
    assert max(shown) < 1 - script.CLAIM
    assert all(
        ratios["Gaussian", size] == pytest.approx(1) for size in script.RATIOS
    )  # the control
    evidence(
        "Fisher information loss of Hu, section 6.3",
        f"{len(rows)} settings, {script.SEEDS} seeds, {script.STEPS} steps",
        f"truncated noise at sigma / C of 8, 16, 32: {', '.join(f'{r:.2f}' for r in shown)} of the Gaussian's loss at equal accuracy",
    )


def test_the_jacobian_of_a_clipped_gradient_is_its_slope() -> None:
    script = paper("hu_fisher")
    pick = np.random.Generator(np.random.PCG64(8))
    pixels = np.append(pick.uniform(0.1, 0.9, 64), 1.0)
    label, weights = np.eye(10)[3], pick.normal(0, 0.2, (65, 10))
    found = script.jacobian(pixels, label, weights, 0.3)
    for q in (0, 17, 63):
        up, down = (pixels + s * 1e-6 * np.eye(65)[q] for s in (1, -1))
        one, other = (
            np.clip(script.gradient(p, label, weights), -0.3, 0.3).ravel() for p in (up, down)
        )
        assert found[:, q] == pytest.approx((one - other) / 2e-6, abs=1e-6)
    free = script.jacobian(pixels, label, weights, np.inf)
    assert (np.abs(free - found) > 1e-3).any()  # control: some entries are clipped


def test_line_8_of_hus_algorithm_1_is_not_the_fisher_information_loss() -> None:
    script = paper("hu_fisher")
    eta = np.array([0.5, 0.5])
    for move, printed in ((np.array([[1.0], [-1.0]]), 0.0), (np.array([[1.0], [1.0]]), 1.0)):
        exact = float(np.linalg.norm(eta[:, None] * move, 2))
        assert float(np.linalg.norm(eta @ move)) == printed
        assert exact == pytest.approx(0.5**0.5)
    sums = np.linspace(-30, 30, 7)
    bounded, plain = script.losses("rectified", sums, 8.0), script.losses("Gaussian", sums, 8.0)
    assert (bounded <= plain).all()
    assert (np.diff(bounded[3:]) < 0).all()


def test_lines_are_cut_at_the_window() -> None:
    plot = paper("plot")
    window = (0.0, 10.0, 0.0, 10.0)
    assert plot._path([(-10, 5), (20, 5)], window) == "M0.00 5.00L10.00 5.00"
    assert plot._path([(-5, -5), (-1, -1)], window) == ""
    broken = plot._path([(1, 1), (2, 2), (float("nan"), 3), (4, 4), (5, 5)], window)
    assert broken == "M1.00 1.00L2.00 2.00M4.00 4.00L5.00 5.00"
