"""A headless Chromium, driven by its DevTools protocol through two pipes, which needs no library and no port."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39}


def find() -> str | None:
    """The program: $SUBCUBIC_CHROMIUM, else what is on the path."""
    named = os.environ.get("SUBCUBIC_CHROMIUM")
    return named or next((found for found in map(shutil.which, NAMES) if found), None)


class Chromium:
    """One browser with one page. Problems a person would see in the console gather in ``problems``."""

    def __init__(self, program: str, profile: Path, downloads: Path, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self.problems: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]
        flags += [
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            f"--user-data-dir={profile}",
        ]
        # The browser reads commands from descriptor 3 and writes answers to 4.
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._log = open(profile.with_name(f"{profile.name}.log"), "wb")
        self._process = subprocess.Popen(
            ["bash", "-c", shell, program, *flags, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(20)
        except (OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for descriptor in (self._in, self._out):
            os.close(descriptor)
        self._log.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self._seconds
        while True:
            answer = self._next(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file as a person does, by its file address, and wait until it is loaded."""
        self._events.clear()
        self.call("Page.navigate", url="about:blank")
        self._wait_loaded()
        place = path.resolve().as_uri()
        self.call("Page.navigate", url=place + fragment)
        self._wait_loaded()
        # The event may have been that of a page which was still being loaded before.
        self.wait(f"location.href.split('#')[0] === {json.dumps(place)} && document.readyState === 'complete'")

    def wait(self, script: str, seconds: float = 20.0) -> Any:
        """The first true value of an expression, asked for until there is one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if value := self.run(script):
                    return value
            except RuntimeError as error:  # the page is just being left
                if "context" not in str(error):
                    raise
            time.sleep(0.05)
        raise TimeoutError(f"never true: {script}")

    def run(self, script: str) -> Any:
        """Value of an expression in the page; a promise is awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", script))
        return found["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key)
        for _ in range(times):
            common = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _KEYS[key]}
            self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click the middle of the first element that fits, with the mouse."""
        # Where it is once it has stopped moving: scrolling and what a download shows take a few frames.
        place = self.run(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const at = () => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };"
            "let old = [], now = at();"
            "for (let still = 0; still < 3; still = String(old) === String(now) ? still + 1 : 0) {"
            " await new Promise((done) => setTimeout(done, 20)); old = now; now = at(); }"
            "return now; })()"
        )
        where = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **where)

    def view(self, width: int, height: int, dark: bool = False, still: bool = False) -> None:
        """Set the window's size and what the person prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        features += [{"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path) -> None:
        """Write the window as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _wait_loaded(self) -> None:
        end = time.monotonic() + self._seconds
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._next(end)
        self._events.clear()

    def _next(self, end: float) -> dict[str, Any]:
        """The next message, of which events are noted."""
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._in, 1 << 16)
            if not data:
                raise RuntimeError("the browser ended")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, said = message.get("method"), message.get("params", {})
        if method is None:
            return
        self._events.append(message)
        if method == "Runtime.exceptionThrown":
            self.problems.append(said["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.problems.append(str([argument.get("value") for argument in said["args"]]))
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.problems.append(said["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            address = said["request"]["url"]
            if not address.startswith(("file:", "data:", "about:")):
                self.problems.append(f"asked for {address}")
