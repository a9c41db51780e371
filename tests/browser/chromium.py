"""What the tests in headless Chromium share."""

import json
import re
from pathlib import Path

import numpy as np

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
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = [params["request"]["url"] for params in sent]
    return [url for url in urls if not url.startswith("chrome://")]


def luminance(color):
    """Luminance by WCAG 2 of a colour, #rrggbb or three numbers up to 255."""
    if isinstance(color, str):
        color = [int(part, 16) for part in re.findall("[0-9a-f]{2}", color)]
    c = np.array(color) / 255
    return float(
        [0.2126, 0.7152, 0.0722] @ np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    )


def contrast(first, second):
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)
