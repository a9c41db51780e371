"""What the tests in headless Chromium share."""

import base64
import json
import re
from pathlib import Path

import numpy as np

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
PHONES = [(320, 568), (390, 844)]
DESKTOP = (1200, 900)


def open_page(driver, address, size=DESKTOP, scheme="light", media=""):
    """Load a page with a window, a colour scheme and a medium; forget what was logged before."""
    driver.get("about:blank")
    for log in ("browser", "performance"):
        driver.get_log(log)
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    driver.get(address.as_uri() if isinstance(address, Path) else address)


def requests(driver):
    """Addresses that were asked for since the page was opened, but those of the browser's own pages."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if not url.startswith("chrome://")]


def screenshot(driver, path):
    height = driver.execute_script("return document.documentElement.scrollHeight")
    width = driver.execute_script("return innerWidth")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = {"captureBeyondViewport": True, "clip": clip}
    path.write_bytes(
        base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", shot)["data"])
    )
    return path


def luminance(color):
    """Luminance by WCAG 2 of a colour, #rrggbb or three numbers up to 255."""
    if isinstance(color, str):
        color = [int(part, 16) for part in re.findall("[0-9a-f]{2}", color)]
    red, green, blue = (part / 255 for part in color)
    parts = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)
    ]
    return float(np.dot([0.2126, 0.7152, 0.0722], parts))


def contrast(first, second):
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)
