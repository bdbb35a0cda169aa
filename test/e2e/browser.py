"""A headless browser, driven through its DevTools protocol over a pipe: the standard library is enough."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
LIMIT_S = 60


def find():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. Every word that it says on its console, and every request that it makes, is kept."""

    def __init__(self, width=1200, height=900):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_us, to_browser = os.pipe()
        from_browser, to_us = os.pipe()

        def in_the_child():  # the protocol's fixed numbers: 3 reads, 4 writes
            low, high = os.dup(from_us), os.dup(to_us)
            os.dup2(low, 3, inheritable=True)
            os.dup2(high, 4, inheritable=True)

        flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={self.profile.name}",
                 f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen([find()] + flags, preexec_fn=in_the_child, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.to_browser, self.from_browser = to_browser, from_browser
        self.rest, self.number = b"", 0
        self.console, self.requests, self.events = [], [], []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        os.close(self.to_browser)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_browser)
        self.profile.cleanup()

    def _message(self, deadline):
        while b"\0" not in self.rest:
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.from_browser, 1 << 16)
            if not piece:
                raise EOFError("the browser ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data):]
        deadline = time.monotonic() + LIMIT_S
        while (answer := self._message(deadline)).get("id") != self.number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path):
        self.console, self.requests, self.events = [], [], []
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        deadline = time.monotonic() + LIMIT_S
        while "Page.loadEventFired" not in self.events:
            self._note(self._message(deadline))

    def run(self, script):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description"))
        return result["result"].get("value")

    def key(self, name, code, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name if text == "" else "Space",
                      windowsVirtualKeyCode=code, text=text if kind == "keyDown" else "")

    def point_at(self, selector, x=0.5, y=0.5):
        """Moves the mouse to a place in the element, in shares of its width and height."""
        box = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
                       "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "
                       "return [r.left, r.top, r.width, r.height]; })()")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + x * box[2], y=box[1] + y * box[3])

    def scheme(self, name, media=""):
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
