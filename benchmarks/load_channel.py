"""How many bits a second one confined rank tells another by loading the machine: a rough figure.

    python benchmarks/load_channel.py

Rank 0 burns all cores in the time slots of ones and sleeps in those of zeros; rank 1 counts how far
it gets in each slot. The capacity is that of a binary channel with the share of wrong bits.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import numpy as np

from ringside import Session

SLOTS_S = (0.3, 0.1, 0.03, 0.01)
LASTS_S = 5.0
TALK = """
import threading
import time

import numpy as np


def burn(until_s):
    noise = np.ones(1 << 14)
    while time.monotonic() < until_s:
        np.sqrt(noise, out=noise)


def talk(comm, bits, slot_s, start_s):
    ends_s = start_s + slot_s * np.arange(1, len(bits) + 1)
    if comm.rank == 0:
        for bit, end_s in zip(bits, ends_s):
            burners = [threading.Thread(target=burn, args=(end_s,)) for _ in range(8 * bit)]
            for burner in burners:
                burner.start()
            time.sleep(max(0.0, end_s - time.monotonic()))
            for burner in burners:
                burner.join()
        return None
    while time.monotonic() < start_s:
        pass
    noise, counts = np.ones(1 << 10), []
    for end_s in ends_s:
        counts.append(0)
        while time.monotonic() < end_s:
            np.sqrt(noise, out=noise)
            counts[-1] += 1
    return counts
"""


def capacity(wrong: float) -> float:
    """Bits that one use of a binary symmetric channel carries."""
    if wrong in (0.0, 1.0):
        return 1.0
    return 1 + wrong * math.log2(wrong) + (1 - wrong) * math.log2(1 - wrong)


def main() -> None:
    """Print a line for each length of a slot."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "talk.py").write_text(TALK)
        with Session(folder, strict=True) as session:
            for slot_s in SLOTS_S:
                bits = np.random.default_rng(1).integers(0, 2, int(LASTS_S / slot_s))
                args = (bits, slot_s, time.monotonic() + 1.0)
                counts = np.array(session.call("talk:talk", 2, args).raise_for_error().values[1])
                bounds = np.quantile(counts, np.linspace(0.05, 0.95, 37))
                wrong = min(float(np.mean((counts < bound) != bits)) for bound in bounds)
                print(
                    f"slots of {slot_s * 1e3:3.0f} ms: {wrong:4.0%} wrong, "
                    f"{capacity(wrong) / slot_s:5.1f} bits a second"
                )


if __name__ == "__main__":
    main()
