"""A headless Chromium, driven by chromedriver over its HTTP interface (W3C WebDriver)."""

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
KEYS = {"left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015", "escape": "\ue00c"}


class Browser:
    """One page of a Chromium with a fresh profile."""

    def __init__(self, driver, session):
        self._at = f"{driver}/session/{session}"

    def call(self, method, path, body=None):
        return request(method, self._at + path, body)

    def open(self, page):
        """Open a local file."""
        self.call("POST", "/url", {"url": page.absolute().as_uri()})

    def run(self, script, *args):
        """Run JavaScript and return its result."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def act(self, kind, actions, **more):
        self.call(
            "POST",
            "/actions",
            {"actions": [{"type": kind, "id": kind, "actions": actions, **more}]},
        )

    def move(self, x, y):
        """Move the mouse to a point of the window."""
        self.act("pointer", [self._to(x, y)], parameters={"pointerType": "mouse"})

    def drag(self, x, y, to):
        """Drag the mouse from a point to another at the same height."""
        press, release = {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}
        self.act(
            "pointer",
            [self._to(x, y), press, self._to((x + to) / 2, y), self._to(to, y), release],
            parameters={"pointerType": "mouse"},
        )

    def wheel(self, x, y, delta):
        """Turn the wheel over a point."""
        at = {"x": round(x), "y": round(y), "deltaX": 0, "deltaY": delta, "duration": 0}
        self.act("wheel", [{"type": "scroll", "origin": "viewport", **at}])

    def press(self, key):
        """Press a key, by its character or its name in `KEYS`."""
        key = KEYS.get(key, key)
        self.act("key", [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}])

    def logged(self):
        """Return the messages of the console since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def devtools(self, command, **arguments):
        """Send a command of Chromium's DevTools."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": arguments})

    def dark(self, dark=True):
        """Emulate a dark or a light system."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path=None):
        """Return a screenshot of the whole page as PNG; write it if a path is given."""
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        data = base64.b64decode(shot)
        if path is not None:
            path.write_bytes(data)
        return data

    def _to(self, x, y):
        at = {"x": round(x), "y": round(y), "duration": 0, "origin": "viewport"}
        return {"type": "pointerMove", **at}


def request(method, url, body=None):
    data = None if method != "POST" else json.dumps(body or {}).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as e:
        raise AssertionError(f"{method} {url}: {e.read().decode()[:2000]}") from None


@contextlib.contextmanager
def browser(width=1160, height=900):
    """Start chromedriver and a Chromium, and stop both."""
    with tempfile.TemporaryDirectory() as folder:
        log = f"{folder}/driver.log"
        driver = subprocess.Popen(
            [DRIVER, "--port=0", f"--log-path={log}"], stdout=subprocess.PIPE, text=True
        )
        try:
            at = f"http://127.0.0.1:{_port(driver)}"
            arguments = [
                *FLAGS,
                f"--window-size={width},{height}",
                f"--user-data-dir={folder}/user",
            ]
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
                "goog:loggingPrefs": {"browser": "ALL"},
            }
            made = request("POST", f"{at}/session", {"capabilities": {"alwaysMatch": wanted}})
            page = Browser(at, made["sessionId"])
            try:
                yield page
            finally:
                page.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(30)
            driver.stdout.close()
            time.sleep(0.2)  # Chromium's last writes to its profile


def _port(driver):
    """Return the port that chromedriver says it listens at."""
    for line in driver.stdout:
        if "successfully on port" in line:
            return int(line.rsplit("port", 1)[1].strip(" .\n"))
    raise AssertionError("chromedriver did not start")
