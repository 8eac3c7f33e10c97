"""From the checks in the notebooks to the ledger of claims."""
