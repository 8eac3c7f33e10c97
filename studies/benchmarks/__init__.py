"""Timings, side by side: ``python -m studies.benchmarks [NAME…]`` measures, and writes
one table for each name.
"""
