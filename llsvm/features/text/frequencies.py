"""Document frequencies of hashed columns, counted in a reading of their own, for tfidf: as scikit-learn's
TfidfTransformer counts them of HashingVectorizer's rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR


class ColumnFrequencies:
    """documents: (n_columns,) uint32, those that have an n-gram of the column. n_documents: of all."""

    def __init__(self, documents: NDArray[np.uint32], n_documents: int = 0) -> None:
        self.documents = documents
        self.n_documents = n_documents

    def add(self, rows: CSR) -> None:
        """Documents that come next, in each of whose rows a column is there at most once."""
        np.add.at(self.documents, rows.indices, np.uint32(1))
        self.n_documents += len(rows.indptr) - 1

    def idf(self) -> NDArray[np.float64]:
        """(n_columns,) as of a vocabulary."""
        return inverse(self.documents, self.n_documents)


def inverse(documents: NDArray[np.uint32], n_documents: int) -> NDArray[np.float64]:
    """(n,) ln((1 + n_documents) / (1 + documents)) + 1."""
    return np.log((1.0 + n_documents) / (1.0 + documents)) + 1.0
