"""When to ask a server again, and how long to wait before."""

import email.utils
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

__all__ = ["is_temporary", "persist", "retry_after"]

FIRST, LONGEST = 0.5, 60.0

Answer = TypeVar("Answer")


def is_temporary(status: int) -> bool:
    """Whether a refusal with this HTTP status can end by itself: too slow, too many requests, or the server's own trouble.

    Args:
        status: an HTTP status of 400 or more.

    Returns:
        True where asking again makes sense.

    Example:
        >>> [status for status in (400, 401, 404, 408, 429, 500, 501, 503) if is_temporary(status)]
        [408, 429, 500, 503]
    """
    return status in (408, 429) or (status >= 500 and status != 501)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds for which a server asks to be left alone.

    Args:
        headers: of its refusal, with lower-case names; ``retry-after`` holds seconds or a date.
        now: the present, with its time zone; None means the clock.

    Returns:
        Seconds, not negative; None where the server does not say.

    Example:
        >>> retry_after({"retry-after": "2.5"}), retry_after({}), retry_after({"retry-after": "soon"})
        (2.5, None, None)
        >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, datetime.fromtimestamp(0, UTC))
        10.0

    Source: RFC 9110, section 10.2.3.
    """
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if abs(seconds) < float("inf") else None


def delay(attempt: int, chance: float, asked: float | None = None) -> float | None:
    """Exponential backoff with jitter, ``min(60, 0.5 · 2^attempt) · (1 + chance) / 2`` seconds, but not less than asked for.

    Args:
        attempt: how often the request was made before, less one.
        chance: a random number in [0, 1).
        asked: the seconds that the server asks for.

    Returns:
        Seconds to wait; None where the server asks for more than a minute: then it is better to stop and go on later.

    Example:
        >>> [delay(attempt, 0.0) for attempt in (0, 1, 9)], delay(0, 0.0, 7.0), delay(0, 0.0, 3600.0)
        ([0.25, 0.5, 30.0], 7.0, None)
    """
    if asked is not None and asked > LONGEST:
        return None
    return max(min(LONGEST, FIRST * 2**attempt) * (1 + chance) / 2, asked or 0.0)


def persist(
    ask: Callable[[], Answer],
    *,
    attempts: int,
    temporary: Callable[[Exception], tuple[bool, float | None]],
    pause: Callable[[float], bool | None],
    chance: Callable[[], float],
) -> Answer:
    """Ask until there is an answer, the error is a lasting one, or the attempts are used up.

    Args:
        ask: makes the request.
        attempts: the most requests.
        temporary: says of an error whether to go on, and what wait the server asks for.
        pause: waits that many seconds; true means to give up instead.
        chance: random numbers in [0, 1), for the jitter.

    Returns:
        What ``ask`` returned.

    Raises:
        Exception: the last error of ``ask``.

    Example:
        >>> waits, fails = [], iter([OSError(), OSError()])
        >>> def ask():
        ...     for error in fails:
        ...         raise error
        ...     return "3.2"
        >>> persist(ask, attempts=3, temporary=lambda error: (True, None), pause=waits.append, chance=lambda: 0.0)
        '3.2'
        >>> waits
        [0.25, 0.5]
    """
    for attempt in range(attempts):
        try:
            return ask()
        except Exception as error:
            again, asked = temporary(error)
            wait = delay(attempt, chance(), asked)
            if not again or wait is None or attempt + 1 == attempts or pause(wait):
                raise
    raise ValueError(f"attempts must be a whole number of at least 1, got {attempts}")
