"""The report as a browser shows it: no complaint, every picture there, in both schemes, on a phone.

A page of our own holds the report in a frame and says where its pictures are; another one reads the
pixels of the screenshot. Chromium is the only library.
"""

from __future__ import annotations

import atexit
import base64
import html as escaping
import json
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from dprelease.results.formats import html
from dprelease.results.formats.json_ import build_manifest
from dprelease.results.formats.note import note
from dprelease.results.validate.rules import check
from dprelease.schema.domain import Domain
from tests.results.formats import releases
from tests.results.formats.browser_keys import CHROMIUM, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here"),
]
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
MEASURE = """<!DOCTYPE html><body style="margin:0"><iframe id=f style="width:%dpx;height:100px;border:0"
srcdoc="%s"></iframe><pre id=out></pre><script>
document.getElementById('f').onload = (event) => {
  const view = event.target.contentWindow, page = view.document;
  const box = (e) => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; };
  const paint = (e) => view.getComputedStyle(e).fill;
  document.getElementById('out').textContent = JSON.stringify({
    height: page.documentElement.scrollHeight, width: page.documentElement.scrollWidth,
    plots: [...page.querySelectorAll('svg[role=img]')].map(box),
    accent: paint(page.querySelector('.dot')), paper: view.getComputedStyle(page.body).backgroundColor,
    titles: [...page.querySelectorAll('h2')].map((h) => h.textContent.trim()),
    tables: page.querySelectorAll('table').length,
    focusable: [...page.querySelectorAll('a, summary, [tabindex="0"]')].every((e) => e.tabIndex === 0),
  });
};</script>"""
LABELS = """<!DOCTYPE html><body style="margin:0"><iframe id=f style="width:390px;height:100px;border:0"
srcdoc="%s"></iframe><pre id=out></pre><script>
document.getElementById('f').onload = (event) => {
  const page = event.target.contentWindow.document;
  for (const width of ['400px', '390px']) {  // laid out at this width, whatever the frame was loaded at
    event.target.style.width = width; void page.body.offsetWidth;
  }
  const cut = (e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1;
  document.getElementById('out').textContent = JSON.stringify({
    width: page.documentElement.scrollWidth,
    sideways: [...page.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).length,
    cut: [...page.querySelectorAll('.plot .names li')].filter((e) => cut(e) || cut(e.firstElementChild)).length,
    all: page.querySelectorAll('.plot .names li').length,
  });
};</script>"""
LOOK = """<!DOCTYPE html><body><img id=i src="data:image/png;base64,%s"><pre id=out></pre><script>
const image = document.getElementById('i');
image.onload = () => {
  const canvas = document.createElement('canvas');
  canvas.width = image.width; canvas.height = image.height;
  const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);
  const wanted = %s, close = (d, k, c) => Math.abs(d[k] - c[0]) + Math.abs(d[k+1] - c[1]) + Math.abs(d[k+2] - c[2]) < 12;
  document.getElementById('out').textContent = JSON.stringify(wanted.boxes.map((b) => {
    const d = context.getImageData(...b.map(Math.round)).data;
    let accent = 0, paper = 0;
    for (let k = 0; k < d.length; k += 4) {
      accent += close(d, k, wanted.accent); paper += close(d, k, wanted.paper);
    }
    return [accent, d.length / 4 - paper];
  }));
};</script>"""


def report() -> str:
    clinic = releases.clinic()
    what_if = [
        {"epsilon": e, "errors": {"count": 4.5 * f, "mean_bmi": 0.3 * f}}
        for e, f in (("1/4", 2.0), ("1", 0.5), ("2", 0.25))
    ]
    budget = {"spent": "17/2", "total": "12", "history": ["7", "8", "17/2"]}
    manifest = build_manifest(
        clinic, check(clinic), {}, software=releases.SOFTWARE, budget=budget, what_if=what_if
    )
    return html.write(clinic, manifest)["report.html"].decode()


def chromium(folder, page: str, *flags: str) -> tuple[str, str]:
    """Return the page's DOM after loading, and what the browser said."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000",
            "--enable-logging=stderr", *flags, file.as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    return done.stdout, done.stderr


@cache
def browser() -> Browser:
    """Return the browser in which pages measure; it ends with the tests."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "empty.html").touch()
    started = Browser(folder, (folder / "empty.html").as_uri())
    atexit.register(started.close)
    started.send("Emulation.setScrollbarsHidden", hidden=True)
    return started


def said(folder, page: str, *flags: str):
    """Return what a page of ours says of the one in its frame, in the dark scheme or not."""
    file = folder / "measure.html"
    file.write_text(page, encoding="utf-8")
    scheme = {"name": "prefers-color-scheme", "value": "dark" if flags else "light"}
    browser().send("Emulation.setEmulatedMedia", features=[scheme])
    browser().open(file.as_uri())
    found = browser().evaluate("document.getElementById('out').textContent")
    assert found, page[-500:]
    return json.loads(found)


def rgb(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)[:3]]


@cache
def measured(width: int, *flags: str):
    """Return where the pictures of the report are, at this width."""
    with tempfile.TemporaryDirectory() as folder:
        return said(Path(folder), MEASURE % (width, escaping.escape(report())), *flags)


@pytest.mark.parametrize(
    ("width", "flags"), [(1200, ()), (500, DARK)], ids=["desktop, light", "phone, dark"]
)
def test_every_picture_is_drawn_inside_the_page(width, flags, tmp_path):
    page = report()
    found = measured(width, *flags)
    assert found["width"] <= width  # nothing sticks out: tables scroll inside their own box
    assert len(found["plots"]) == 1 + 4 + 3 + 2 + 1  # budget, statistics, bins, prices, burn-down
    assert found["tables"] == 1 + 5 + 1 + 1 + 1
    assert found["focusable"]
    assert "What another budget would buy" in found["titles"]
    assert (sum(rgb(found["paper"])) < 200) == bool(flags)
    for box, (accent, ink) in seen(tmp_path, page, found, width, *flags):
        assert box[2] > 100, box
        assert accent >= 3, f"nothing in the accent colour at {box}"
        assert ink >= 150, f"next to nothing is drawn at {box}"


def seen(folder, page: str, found, width: int, *flags: str):
    """Return each picture's box with its pixels in the accent colour, and those not of paper."""
    picture = folder / "picture.png"
    _, log = chromium(
        folder, page, f"--window-size={width},{found['height']}", f"--screenshot={picture}", *flags
    )
    assert "CONSOLE" not in log, log
    wanted = {"boxes": found["plots"], "accent": rgb(found["accent"]), "paper": rgb(found["paper"])}
    png = base64.b64encode(picture.read_bytes()).decode()
    return zip(found["plots"], said(folder, LOOK % (png, json.dumps(wanted))), strict=True)


def test_twin_pictures_with_nothing_in_them(tmp_path):
    whole = report()
    found = measured(1200)
    empty = re.sub(r"<(?:rect|line|circle|path)[^>]*/>", "", whole)
    assert all(accent < 3 for _, (accent, _) in seen(tmp_path, empty, found, 1200))


@pytest.mark.parametrize("control", [False, True], ids=["as it is", "without wrapping"])
def test_long_names_are_whole_on_a_phone(control, tmp_path):
    """Groups that differ in their last words can be told apart."""
    labels = [
        f"The region beyond the hills and the {w}"
        for w in ("northern river", "sea", "old town's walls")
    ]
    plan = releases.plan(
        [releases.statistic("count", "count", Domain(0, 5000), "1", block="rows", error=4.5)],
        [releases.block("rows")],
        keys=[(label,) for label in labels],
    )
    made = releases.noised(plan, {"count": [(900.0, 880.0, 920.0, "ok")] * len(labels)})
    page = html.write(made, build_manifest(made, check(made), {}, software=releases.SOFTWARE))
    text = page["report.html"].decode()
    if control:
        text = text.replace('class="longer"', "").replace('class="long"', "")
    found = said(tmp_path, LABELS % escaping.escape(text))
    assert found["width"] <= 390
    assert (found["cut"], found["all"]) == (3 if control else 0, 3)


@pytest.mark.parametrize(("width", "whole"), [(794, True), (390, False)])
def test_no_column_of_a_note_leaves_the_page(width, whole, tmp_path):
    """On A4 every table fits; on a phone a table scrolls in its own box, and the page does not."""
    made = releases.clinic()
    manifest = build_manifest(made, check(made), {}, software=releases.SOFTWARE)
    text = note(made, manifest, "html", release="ab" * 32).decode()
    found = said(tmp_path, LABELS.replace("390", str(width)) % escaping.escape(text))
    assert found["width"] == width
    assert (found["sideways"] == 0) == whole


def test_a_complaint_of_the_browser_would_be_seen(tmp_path):
    page = report().replace("</body>", "<script>1</script></body>")
    _, log = chromium(tmp_path, page, "--dump-dom")
    assert "CONSOLE" in log and "Content Security Policy" in log


def test_the_report_prints_with_the_exact_statement_on_paper(tmp_path):
    pdf = tmp_path / "report.pdf"
    chromium(tmp_path, report(), "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
    data = pdf.read_bytes()
    assert data.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 6


@pytest.mark.parametrize("today", [True, False], ids=["today's", "of the first edition"])
def test_paper_has_the_ends_of_intervals_as_a_desktop_has(today, tmp_path, monkeypatch):
    """A sheet is as narrow as a small tablet, and on it no table of numbers can be opened; old pages stay as they are."""
    monkeypatch.setattr(html, "of_today", lambda _: today)
    text = report()
    file = tmp_path / "paper.html"
    file.write_text(text, encoding="utf-8")
    of = browser()
    of.send("Emulation.setEmulatedMedia", media="print", features=[])
    of.send("Emulation.setDeviceMetricsOverride", width=688, height=900, deviceScaleFactor=1, mobile=False)  # fmt: skip
    try:
        of.open(file.as_uri())
        shown = of.evaluate(
            "[...document.querySelectorAll('.plot .ends')].map((e) => getComputedStyle(e).display).join()"
        )
    finally:
        of.send("Emulation.clearDeviceMetricsOverride")
        of.send("Emulation.setEmulatedMedia", media="", features=[])
    assert set(shown.split(",")) == {"block" if today else "none"}


def test_on_paper_prices_stand_with_their_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(html, "of_today", lambda _: True)
    priced = [{"epsilon": "2", "errors": {"count": 2.0}}]
    made = releases.clinic()
    manifest = build_manifest(made, check(made), {}, software=releases.SOFTWARE, what_if=priced)
    file = tmp_path / "paper.html"
    file.write_bytes(html.write(made, manifest)["report.html"])
    of = browser()
    of.send("Emulation.setEmulatedMedia", media="print", features=[])
    try:
        of.open(file.as_uri())
        said = "getComputedStyle(document.querySelector('%s')).%s"
        whole = of.evaluate(said % ("#prices", "breakInside"))
        follows = of.evaluate(said % ("#prices > p", "breakAfter"))
    finally:
        of.send("Emulation.setEmulatedMedia", media="", features=[])
    assert (whole, follows) == ("avoid", "avoid")
