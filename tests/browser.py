"""The distribution's Chromium without a window, driven over a pipe (the DevTools protocol): no driver is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
)


class Browser:
    """A context manager. complaints: what pages have said in the console, and what they failed to load."""

    def __enter__(self):
        self._profile = tempfile.mkdtemp(prefix="llsvm-chromium-")
        read_there, self._out = os.pipe()
        self._in, write_there = os.pipe()
        words = f'exec "$@" 3<&{read_there} 4>&{write_there}'
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", words, "bash", *command],
            pass_fds=(read_there, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._rest, self._number, self._session, self.complaints = b"", 0, None, []
        self._loaded = False
        pages = self._ask("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in pages if each["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        return self

    def __exit__(self, *error):
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(20)
        shutil.rmtree(self._profile, ignore_errors=True)

    def look(self, path, width, dark=False):
        """Load the file at ``path`` in a window so many pixels wide."""
        self._ask("Emulation.setEmulatedMedia", features=[_scheme(dark)])
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self._loaded = False
        self._ask("Page.navigate", url=f"file://{os.path.abspath(path)}")
        while not self._loaded:
            self._take(self._next())

    def value(self, expression):
        """Of JavaScript, as JSON has it."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self, path):
        """Of the whole page, as PNG."""
        found = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(found["data"]))

    def _ask(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._take(answer)

    def _take(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.loadingFailed"):
            self.complaints.append(f"{method}: {params}")
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith("file:"):
            self.complaints.append(f"asked for {params['request']['url']}")

    def _next(self):
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 20)
            assert more, "Chromium has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


def _scheme(dark):
    return {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
