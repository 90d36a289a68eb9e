"""The checks of ``decode_torch`` that students have, too."""

from pathlib import Path

from ringside.checking.examples import beside

examples = beside(Path(__file__).resolve().parents[1] / "decode_torch.py")
cases = examples.decode_cases_torch
