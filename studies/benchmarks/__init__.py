"""Side-by-side timings: ``python -m studies.benchmarks`` writes ``studies/benchmarks/results.md``."""
