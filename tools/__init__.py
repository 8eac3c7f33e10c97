"""What turns the pages into notebooks, and the notebooks into the book."""
