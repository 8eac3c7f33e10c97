"""Tests of the book's own checks: other seeds, planted defects, other versions."""
