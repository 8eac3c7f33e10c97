"""The small language model that runs in this process. All others are asked through the task of Inspect."""

from lsalib.sts.models.smollm2 import Conversation, SmolLM2

__all__ = ["Conversation", "SmolLM2", "open_model"]


def open_model(name: str = SmolLM2.name) -> SmolLM2:
    """The small model, by its name.

    Raises:
        ImportError: if a package is missing, with the command that installs it.
        ValueError: if the name is another one.

    Example:
        >>> open_model("gpt-2")
        Traceback (most recent call last):
        ValueError: name must be smollm2-135m-instruct, got 'gpt-2'; lsalib.sts.inspect_task asks all other models
    """
    if name != SmolLM2.name:
        raise ValueError(f"name must be {SmolLM2.name}, got {name!r}; lsalib.sts.inspect_task asks all other models")
    return SmolLM2()
