"""Chromium without a window and without a network, driven through its own driver."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def missing() -> str:
    """Why no browser can be opened here; empty where one can."""
    names = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(names)} not found (on Debian: chromium, chromium-driver)" * bool(names)


@contextmanager
def chromium(width: int = 1360, height: int = 900, *, dark: bool = False) -> Iterator[Any]:
    """A driver with a new, empty profile; no name is resolved and no request gets out."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            size = {"width": width, "height": height, "deviceScaleFactor": 1}
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride", {**size, "mobile": width < 500}
            )
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            yield driver
        finally:
            driver.quit()


def opening_ms(driver: Any, index: Path) -> float:
    """Milliseconds from the start of a navigation to a page that answers to clicks and keys."""
    driver.get("about:blank")
    driver.get(index.as_uri())
    return float(
        driver.execute_script("return performance.getEntriesByName('usable')[0].startTime")
    )
