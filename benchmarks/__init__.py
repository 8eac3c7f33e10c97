"""Side-by-side timings: ``python -m benchmarks`` writes ``benchmarks/results.md``."""
