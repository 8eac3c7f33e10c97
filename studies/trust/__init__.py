"""Studies of the book's own checks: other seeds, planted defects, other versions.

Each program stores what it found in ``STORE``, with the date and the commit; the page on trust reads it from there. A
stored result may be older than the code: nothing fails because of that.
"""

import subprocess
from datetime import date
from pathlib import Path

__all__ = ["STORE", "made"]

STORE = Path("lsalib/data/trust")


def made(root: Path) -> dict[str, str]:
    """The date, and the commit of the checkout; "" where git knows none."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    asked = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return {"date": f"{date.today()}", "commit": asked.stdout.strip()}
