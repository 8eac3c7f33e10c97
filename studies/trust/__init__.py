"""A study of the tests: which of them catch planted defects.

The page on trust reads what is stored.
"""
