"""Forty megabytes of outputs, and brackets a hundred thousand deep."""


def make(target, release, outside):
    target.mkdir()
    with open(target / "a03_allreduce.ipynb", "w") as file:
        file.write('{"cells": ' + "[" * 100_000)
        for _ in range(40):
            file.write("0," * (1 << 19))
