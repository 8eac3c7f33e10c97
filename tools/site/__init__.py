"""From the notebooks to the book: Sphinx extensions, the PDF, interactive figures."""
