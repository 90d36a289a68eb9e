"""A headless Chromium for tests, driven over its DevTools protocol.

with Browser() as browser:
    browser.open(url, width=390)
    browser.click("button", "Submit")
    assert browser.ask("document.title") == "Submitted"
    assert browser.errors == []
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import websocket

CHROMIUM = shutil.which("chromium")
PATIENCE_S = 600.0  # only ends what hangs: a loaded machine is slow
REFUSED = "net::ERR_CONNECTION_REFUSED"
KEYS = {"Enter": 13, "Escape": 27, "Backspace": 8, "Tab": 9}
# Where the middle of an element is, if a click there reaches it; else null. What comes into sight
# by scrolling may change its size, so the place is asked for twice.
REST = """(quiet_ms) => new Promise(done => {
  let timer = setTimeout(end, quiet_ms);
  const observer = new MutationObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(end, quiet_ms);
  });
  observer.observe(document.body, {subtree: true, childList: true, characterData: true});
  function end() { observer.disconnect(); done(true); }
})"""
PLACE = """async (css, text) => {
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  for (const one of document.querySelectorAll(css)) {
    if (text && one.textContent.trim() !== text) continue;
    one.scrollIntoView({block: 'center', behavior: 'instant'});
    await frame();
    const before = one.getBoundingClientRect();
    await frame();
    const box = one.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    const top = document.elementFromPoint(x, y);
    const still = before.top === box.top && before.left === box.left && box.width;
    if (still && (one.contains(top) || top?.contains(one))) return [x, y];
  }
  return null;
}"""


class Browser:
    """A browser with one page, which is used for one address after the other."""

    def __enter__(self) -> Browser:
        assert CHROMIUM is not None
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        self._process = subprocess.Popen(
            [
                CHROMIUM,
                *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *(
                    "--disable-background-networking",
                    "--hide-scrollbars",
                    "--disable-dev-shm-usage",
                ),
                # No name is resolved: what a page wants from elsewhere fails, and is an error.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                "--remote-allow-origins=*",
                "--remote-debugging-port=0",
                f"--user-data-dir={self._profile}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port, path = self._endpoint()
            self._socket = websocket.create_connection(
                f"ws://127.0.0.1:{port}{path}", timeout=PATIENCE_S
            )
            self._number, self._events, self._session = 0, [], None
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(AttributeError, OSError, websocket.WebSocketException):
            self._socket.close()
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _endpoint(self) -> list[str]:
        """Return the port and the path that the browser listens at."""
        told = Path(self._profile) / "DevToolsActivePort"
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                if len(lines := told.read_text().split()) == 2:
                    return lines
            assert self._process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; what happens meanwhile is remembered."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        self._socket.send(json.dumps(request))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._events.append(answer)

    def open(self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Open an address on a screen of a size, and forget what the page before it said."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._events.clear()
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def click(self, css: str, text: str = "", *, times: int = 1) -> None:
        """Click an element as a person does, once it is there and nothing lies over it.

        Args:
            css: chooses the element.
            text: what stands in it, from end to end; empty: whatever it is.
            times: 2 is a double click.
        """
        x, y = self.wait(f"({PLACE})({json.dumps(css)}, {json.dumps(text)})")
        self._mouse("mouseMoved", x, y)
        for count in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self._mouse(kind, x, y, button="left", clickCount=count)

    def _mouse(self, kind: str, x: float, y: float, **which: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **which)

    def sees(self, css: str, text: str) -> str:
        """Wait until an element shows `text`, and return all that it shows."""
        shown = f"[...document.querySelectorAll({json.dumps(css)})].map(one => one.innerText)"
        found = f"{shown}.find(words => words.includes({json.dumps(text)}))"
        return str(self.wait(found))

    def rests(self, *, for_ms: int = 1500) -> None:
        """Wait until nothing on the page has changed for so long."""
        self.ask(f"({REST})({for_ms})")

    def write(self, text: str) -> None:
        """Put text in where the cursor stands."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, ctrl: bool = False, shift: bool = False) -> None:
        """Press a key and let it go: `press("Enter", shift=True)`."""
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                modifiers=2 * ctrl + 8 * shift,
            )

    def ask(self, expression: str) -> Any:
        """Return what an expression of JavaScript is on this page; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Ask until the answer is true (an element of the page isn't: `!!element` is)."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := self.ask(expression)):
            assert time.monotonic() < deadline, f"still not so: {expression}"
            time.sleep(0.05)
        return value

    @property
    def errors(self) -> list[str]:
        """What the page complained of: exceptions, error logs, files that did not come."""
        self.ask("1")
        addresses: dict[str, str] = {}  # by the number of the request
        found = []
        for event in list(self._events):
            told = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    found.append(str(told["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if told["type"] in ("error", "assert"):
                    found.append(str([value.get("value") for value in told["args"]]))
                case "Log.entryAdded" if told["entry"]["level"] == "error":
                    entry = told["entry"]
                    if REFUSED not in entry["text"] or not self._comes(entry.get("url", "")):
                        found.append(f"{entry['text']} {entry.get('url', '')}")
                case "Network.requestWillBeSent":
                    addresses[told["requestId"]] = told["request"]["url"]
                case "Network.loadingFailed" if not told.get("canceled"):
                    address = addresses.get(told["requestId"], "")
                    if told["errorText"] != REFUSED or not self._comes(address):
                        found.append(f"{told['errorText']} {address}")
        return found

    def _comes(self, address: str) -> bool:
        """Whether an address answers now: a busy machine may refuse a connection once."""
        return bool(self.ask(f"fetch({json.dumps(address)}).then(() => true, () => false)"))

    def requested(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = [event for event in self._events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def picture(self, path: Path) -> None:
        """Save what the screen shows, as PNG."""
        answer = self.call("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))
