"""What all models share: the kinds of request, their checks, and where an answer ends."""

from collections.abc import Sequence

__all__ = ["Conversation", "check", "check_answers", "check_conversations", "check_prompts", "cut"]

Conversation = list[dict[str, str]]

ROLES = ("system", "user", "assistant")


def check(prompts: Sequence[object]) -> None:
    """Refuse what is neither a list of texts nor one of conversations; the first entry says which of the two it is.

    Args:
        prompts: the texts to be continued, or the conversations to be answered.

    Raises:
        ValueError: as ``check_prompts`` and ``check_conversations``.

    Example:
        >>> check(["Score:", [{"role": "user", "content": "Hello"}]])
        Traceback (most recent call last):
        ValueError: prompts[1] must be a text of at least one character, got [{'role': 'user', 'content': 'Hello'}]
    """
    plain = not prompts or isinstance(prompts[0], str)
    (check_prompts if plain else check_conversations)(prompts)


def check_prompts(prompts: Sequence[object]) -> None:
    """Refuse what is not a list of non-empty texts.

    Args:
        prompts: the texts to be continued.

    Raises:
        ValueError: if one is empty or no text.

    Example:
        >>> check_prompts(["Score:", ""])
        Traceback (most recent call last):
        ValueError: prompts[1] must be a text of at least one character, got ''
    """
    if isinstance(prompts, str):
        raise ValueError(f"prompts must be a list of texts, got one text, {prompts!r:.80}")
    for n, prompt in enumerate(prompts):
        if not isinstance(prompt, str) or not prompt:
            raise ValueError(f"prompts[{n}] must be a text of at least one character, got {prompt!r:.80}")


def check_answers(answers: Sequence[str]) -> None:
    """Refuse what is not a sequence of at least one non-empty text.

    Args:
        answers: the answers to be valued.

    Raises:
        ValueError: if there is none, or one is empty or no text.

    Example:
        >>> check_answers([])
        Traceback (most recent call last):
        ValueError: answers must be a sequence of at least one non-empty text, got []
    """
    if isinstance(answers, str) or not answers or not all(isinstance(answer, str) and answer for answer in answers):
        raise ValueError(f"answers must be a sequence of at least one non-empty text, got {answers!r:.200}")


def check_conversations(conversations: Sequence[object]) -> None:
    """Refuse what is not a list of conversations: messages with a role and a content, the last one the user's.

    Args:
        conversations: the conversations to be answered.

    Raises:
        ValueError: if one is empty, or a message has another form.

    Example:
        >>> check_conversations([[{"role": "user", "text": "Hello"}]])  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        ValueError: conversations[0][0] must be {'role': 'system' | 'user' | 'assistant', 'content': text},
            got {'role': 'user', 'text': 'Hello'}
    """
    for n, conversation in enumerate(conversations):
        if not isinstance(conversation, list) or not conversation:
            raise ValueError(f"conversations[{n}] must be a list of at least one message, got {conversation!r:.80}")
        for m, message in enumerate(conversation):
            fits = isinstance(message, dict) and set(message) == {"role", "content"}
            if not fits or message["role"] not in ROLES or not isinstance(message["content"], str):
                raise ValueError(
                    f"conversations[{n}][{m}] must be {{'role': 'system' | 'user' | 'assistant', 'content': text}}, "
                    f"got {message!r:.200}"
                )
        if conversation[-1]["role"] != "user":
            raise ValueError(
                f"conversations[{n}] must end with a message of the user, got one of the {conversation[-1]['role']}"
            )


def cut(text: str, stop: Sequence[str]) -> str:
    """The text before the first of the stop strings.

    Args:
        text: an answer.
        stop: strings that end it; none of them empty.

    Returns:
        The text up to where the first of them begins; all of it where none occurs.

    Raises:
        ValueError: if a stop string is empty, or ``stop`` is a single text.

    Example:
        >>> cut("3.2\\nSentence 1", ["Sentence", "\\n"])
        '3.2'
    """
    if isinstance(stop, str) or not all(isinstance(end, str) and end for end in stop):
        raise ValueError(f"stop must be a sequence of non-empty texts, got {stop!r}")
    return text[: min((found for end in stop if (found := text.find(end)) >= 0), default=len(text))]
