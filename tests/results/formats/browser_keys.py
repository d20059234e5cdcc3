"""A browser that is driven by its keys: Chromium's debugging protocol over two pipes, nothing else.

Messages are JSON, each ended by a null byte; the browser reads descriptor 3 and writes descriptor 4.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = next((p for n in ("chromium", "google-chrome") if (p := shutil.which(n))), None)
KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39}

FOCUSED = """(() => {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  return {tag: e.tagName, text: (e.getAttribute('aria-label') || e.textContent).trim().slice(0, 60),
    href: e.getAttribute('href'), outline: style.outlineStyle + ' ' + style.outlineWidth,
    left: box.left, value: e.value, open: e.parentElement ? e.parentElement.open : undefined};
})()"""


class Browser:
    """One page of one browser; close it."""

    def __init__(self, folder: Path, url: str) -> None:
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        # high numbers, so that neither is in the way of the other's place
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, from_write)]

        def place() -> None:
            os.dup2(theirs[0], 3)
            os.dup2(theirs[1], 4)

        self.process = subprocess.Popen(
            [
                str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                f"--user-data-dir={folder / 'keys'}", "about:blank",
            ],
            preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for fd in (to_read, from_write, *theirs):
            os.close(fd)
        self._out, self._in = os.fdopen(to_write, "wb"), os.fdopen(from_read, "rb")
        self._number, self._session = 0, ""
        self._left = b""
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.send("Page.enable")
        self.open(url)

    def open(self, url: str) -> None:
        """Load a page, anew where it is loaded already."""
        self.send("Page.navigate", url=url)
        while self._read().get("method") != "Page.loadEventFired":
            pass
        self.send("Page.bringToFront")

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while (answer := self._read()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._in.fileno(), 1 << 16)
            assert more, "the browser has ended"
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def evaluate(self, script: str) -> Any:
        return self.send("Runtime.evaluate", expression=script, returnByValue=True)["result"].get(
            "value"
        )

    def press(self, key: str, *, shift: bool = False) -> dict[str, Any]:
        """Press a key and return what has the focus then."""
        text = {"text": "\r"} if key == "Enter" else {}
        common = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": KEYS[key],
            "modifiers": 8 * shift,
        }
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)
        found: dict[str, Any] = self.evaluate(FOCUSED)
        return found

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._out.close()
        self._in.close()
