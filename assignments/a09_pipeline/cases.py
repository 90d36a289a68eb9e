"""Calls of this assignment's functions, as the tests make them: supplied, nothing to write.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

from dataclasses import replace

from ringside import checking

SHORT = 300  # characters of a line's schedules; longer ones are named if schedule.py has them
NAMES = ("gpipe", "one_f_one_b", "interleaved")


class Call(checking.Call):
    """One step of a pipeline; ``world_size`` counts the stages, ``n`` the samples."""

    place = "stage"

    def with_options(self, **options):
        """The same with more of the function's options in its line."""
        words = [f"--{name} {value}" for name, value in options.items()]
        return replace(self, line=" ".join([self.line, *words]))

    def second(self):
        """The same as a second step, after one with other numbers."""
        return replace(self, about=f"{self.about}, second step", line=f"{self.line} --steps 2")


def stage_call(name, words, batch_sizes, num_chunks=1, dtype="float64"):
    """``stage.run`` with these actions: one text a stage."""
    shown = _shown(name, words)
    chunks = f", {num_chunks} chunks" if num_chunks > 1 else ""
    options = f" --chunks {num_chunks}" if num_chunks > 1 else ""
    options += f" --precision {dtype}" if dtype != "float64" else ""
    return Call(
        "stage:run", len(words), sum(batch_sizes), dtype,
        about=f"{name}, microbatches of {_listed(batch_sizes)} samples{chunks}, {dtype}",
        line=f"ringside run callers.py:try_stage --ranks {len(words)} -- --schedules "
        f'"{shown}" --batch-sizes "{list(batch_sizes)}"{options}',
    )  # fmt: skip


def torch_call(name, words, batch_sizes, num_chunks=1, recompute=False, dropout=0.0):
    """``pipeline_torch.run`` with these actions: one text a stage."""
    shown = _shown(name, words)
    chunks = f", {num_chunks} chunks" if num_chunks > 1 else ""
    again = ", recomputing" if recompute else ""
    again += f", dropout {dropout:g}" if dropout else ""
    options = f" --chunks {num_chunks}" if num_chunks > 1 else ""
    options += " --recompute True" if recompute else ""
    options += f" --dropout {dropout:g}" if dropout else ""
    return Call(
        "pipeline_torch:run", len(words), sum(batch_sizes), "float64",
        about=f"{name}, microbatches of {_listed(batch_sizes)} samples{chunks}{again}",
        line=f"ringside run callers_torch.py:try_pipeline --ranks {len(words)} -- --schedules "
        f'"{shown}" --batch-sizes "{list(batch_sizes)}"{options}',
    )  # fmt: skip


def _shown(name, words):
    return name if name in NAMES and sum(map(len, words)) > SHORT else words


def _listed(values):
    words = ", ".join(str(value) for value in values)
    return words if len(words) <= 60 else f"{words[:57]}..."
