"""Text columns: documents to sparse rows of n-grams. ``vectorizer`` is the way in."""
