"""A function that calls yours inside a rank, for the tests: nothing to write."""

from given import model
from mpi4py import MPI

from ringside.checking.callers import find


def faulty(comm, error, *arguments):
    """Call ``train`` with a model whose first three samples on rank 1 raise an error."""
    right, left = model.of_sample, [3 if comm.Get_rank() == 1 else 0]

    def of_sample(params, sample):
        if left[0]:
            left[0] -= 1
            text = "spoilt sample"
            raise ValueError(text) if error == "ValueError" else _OtherError(MPI.ERR_ARG, text)
        return right(params, sample)

    model.of_sample = of_sample
    try:
        return find("elastic:train")(comm, *arguments)
    finally:
        model.of_sample = right


class _OtherError(MPI.Exception):
    """An error of MPI that tells of no failure."""

    def __init__(self, number, text):
        super().__init__(number)
        self.text = text

    def __str__(self):
        return self.text
