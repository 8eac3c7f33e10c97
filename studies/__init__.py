"""What takes hours or is repeated now and then: stored experiments, benchmarks, and
tests of the book's own checks.
"""
