"""From a page's text to an executed notebook, and back again to compare."""
