"""The Chromium that the machine has, and how it is started without a screen and without a look at the network."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-quic",
)  # fmt: skip


def executable() -> str:
    """Its path; where there is none, the command ends and says so."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise SystemExit(f"No browser: none of {', '.join(NAMES)} is installed")
    return found
