"""A real browser for tests: Debian's Chromium without a window, driven over its DevTools protocol.

The protocol is JSON over a websocket, so nothing but a websocket client is needed, which the connectors have, too. A `Page`
notes everything that a person with open developer tools would see as a mistake: errors of scripts, what the
Content-Security-Policy refuses, requests that fail.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from firesteel_support.servers import program, running

__all__ = ["Browser", "Page", "chromium"]

#: For what will never happen: machines may be slow.
_PATIENCE = 120.0

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
]


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, or a skipped test where Chromium cannot be had."""
    executable = program("Chromium", "chromium", "chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        told = directory / "DevToolsActivePort"
        command = [executable, *_FLAGS, f"--user-data-dir={directory}", "about:blank"]
        with running("chromium", command, directory, lambda: told.read_text().count("\n") >= 1):
            port, path = told.read_text().split("\n")[:2]
            with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, compression=None) as socket:
                yield Browser(socket)


class Browser:
    """The connection to a browser: sends commands and hands events to the pages."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        threading.Thread(target=self._read, name="chromium-events", daemon=True).start()

    def page(self, width: int = 1366, height: int = 768) -> Page:
        """A new tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session, target)
        self._pages[session] = page
        page.begin()
        page.resize(width, height)
        return page

    def call(self, method: str, params: Mapping[str, Any], session: str | None = None) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        number = next(self._numbers)
        answer = self._answers[number] = queue.SimpleQueue()
        message = {"id": number, "method": method, "params": dict(params)}
        self._socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        result = answer.get(timeout=_PATIENCE)
        if "error" in result:
            raise RuntimeError(f"{method}: {result['error']}")
        found: dict[str, Any] = result["result"]
        return found

    def _read(self) -> None:
        with contextlib.suppress(Exception):  # the browser ends: nobody waits for more
            for text in self._socket:
                message = json.loads(text)
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif message.get("sessionId") in self._pages:
                    self._pages[message["sessionId"]].note(message["method"], message["params"])


class Page:
    """One tab, with what a person does in it, and the mistakes that it made."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        self._requests: dict[str, str] = {}
        self.mistakes: list[str] = []
        self.requested: list[str] = []

    def begin(self) -> None:
        """Have the browser tell what happens."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", {"targetId": self._target})

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, params, self._session)

    # What happens.

    def note(self, method: str, params: dict[str, Any]) -> None:
        """Keep what went wrong."""
        if method == "Network.requestWillBeSent":
            self._requests[params["requestId"]] = params["request"]["url"]
            self.requested.append(params["request"]["url"])
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            self.mistakes.append(f"{params['response']['status']} {params['response']['url']}")
        elif method == "Network.loadingFailed" and not params.get("canceled"):
            url = self._requests.get(params["requestId"])
            self.mistakes.append(f"{params['errorText']} {url}")
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.mistakes.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.mistakes.append(" ".join(str(each.get("value")) for each in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["source"] != "network":
            self.mistakes.append(params["entry"]["text"])

    # What a person does.

    def open(self, url: str) -> None:
        """Go to an address, and wait until its scripts have run."""
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def ready_after(self, url: str, condition: str) -> float:
        """Go to an address, with nothing in the cache; milliseconds until an expression is true, as the browser counts them."""
        self._call("Network.setCacheDisabled", cacheDisabled=True)
        look = f"if ({condition}) window.readyAfter = performance.now(); else requestAnimationFrame(look);"
        source = f"const look = () => {{ {look} }}; requestAnimationFrame(look);"
        self._call("Page.addScriptToEvaluateOnNewDocument", source=f"{{ {source} }}")
        self._call("Page.navigate", url=url)
        self.wait("window.readyAfter !== undefined")
        return float(self.run("window.readyAfter"))

    def click(self, selector: str, text: str | None = None) -> None:
        """Click the middle of the first element that is there, with this text if one is given, when it is there."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find(e => {json.dumps(text)} === null || e.textContent.trim() === {json.dumps(text)})"
        self.wait(f"Boolean({found})")
        place = self.run(
            f"(() => {{ const e = {found}; e.scrollIntoView({{block: 'nearest', inline: 'nearest'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def move(self, x: float, y: float) -> None:
        """Move the pointer."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other: letters, or names such as ArrowRight."""
        codes = {
            "Enter": 13,
            "Tab": 9,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
        }
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
            code = codes.get(key, 0)
            self._call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
            self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Write into what has the focus."""
        self._call("Input.insertText", text=text)

    def choose_file(self, selector: str, path: Path) -> None:
        """Choose a file in a field for one."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"Boolean({field})")
        found = self._call("Runtime.evaluate", expression=field)["result"]["objectId"]
        self._call("DOM.setFileInputFiles", files=[str(path)], objectId=found)

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        """Be a screen of this size."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def prefer(self, scheme: str) -> None:
        """Be a system with light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def offline(self, is_offline: bool) -> None:
        """Lose the network, or have it back."""
        self._call(
            "Network.emulateNetworkConditions",
            offline=is_offline,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    # What a person sees.

    def run(self, expression: str) -> Any:
        """The value of an expression, of a promise when it is kept."""
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(f"{expression}: {details.get('exception', {}).get('description', details)}")
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Return when an expression is true."""
        deadline = time.monotonic() + _PATIENCE
        while not self._holds(condition):
            if time.monotonic() > deadline:
                text = self.run("document.body.innerText")
                raise AssertionError(
                    f"not true: {condition}; the page shows:\n{text}\nmistakes: {self.mistakes}"
                )
            time.sleep(0.03)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.run(condition))
        except RuntimeError as error:
            if "navigated" not in str(error):
                raise
            return False  # the page was left while it was asked: ask the next one

    def wait_for_text(self, text: str, selector: str = "body") -> None:
        """Return when an element contains a text."""
        self.wait(
            f"[...document.querySelectorAll({json.dumps(selector)})].some(e => e.textContent.includes({json.dumps(text)}))"
        )

    def screenshot(self, path: Path) -> None:
        """Write what can be seen as a PNG file."""
        answer = self._call("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        path.write_bytes(base64.b64decode(answer["data"]))

    def save(self, path: Path) -> None:
        """`screenshot`, when the figures and drawings of the newest answer are there."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.screenshot(path)
