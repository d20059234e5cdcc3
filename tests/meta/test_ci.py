"""`.ci/run` installs what some tests need where it may, says so where it may not, and never fails for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.projects import ROOT

REAL = ("bash", "dirname", "timeout")


def run(folder: Path, *, user: int = 0, apt: str | None = None, there: tuple[str, ...] = ()) -> str:
    """Run the script with made-up programs beside bash's own; return what it says."""
    for name in REAL:
        (folder / name).symlink_to(str(shutil.which(name)))
    made = {"make": 'echo "make $*"', "id": f"echo {user}", **dict.fromkeys(there, "true")}
    if apt is not None:
        made["apt-get"] = f'echo "$*" >> {folder}/asked\n{apt}'
    for name, body in made.items():
        (folder / name).write_text(f"#!{folder}/bash\n{body}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        [str(folder / "bash"), str(ROOT / ".ci" / "run")],
        env={"PATH": str(folder), "VENV": "here"}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["make lowest VENV=here", "make test VENV=here"]
    return done.stdout


def test_what_is_there_is_not_installed(tmp_path: Path) -> None:
    said = run(tmp_path, apt="exit 1", there=("chromium", "initdb"))
    assert "installed" not in said
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("user", "apt", "said"),
    [
        (0, "exit 0", "installed: chromium\n"),
        (0, 'case "$*" in *install*) exit 100;; esac', "not installed: chromium; its tests are skipped"),
        (0, 'case "$*" in *update*) exit 100;; esac', "not installed: chromium; their tests are skipped"),
        (0, None, "needs root and apt-get"),
        (1000, "exit 0", "needs root and apt-get"),
    ],
)  # fmt: skip
def test_a_missing_browser_is_installed_or_named(
    tmp_path: Path, user: int, apt: str | None, said: str
) -> None:
    assert said in run(tmp_path, user=user, apt=apt, there=("initdb",))
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
    assert ("install -y" in asked) == (
        apt is not None and user == 0 and "update" not in (apt or "")
    )


def test_a_missing_r_is_named(tmp_path: Path) -> None:
    there = ("chromium", "initdb")
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    assert "not here: R;" in run(tmp_path / "without", there=there)
    assert "not here" not in run(tmp_path / "with", there=(*there, "Rscript"))
