"""Real data for first networks: 1797 handwritten digits of 8 x 8 pixels.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI 1998,
doi 10.24432/C50P49, licence CC BY 4.0; its test set, in the order of its file.
"""

from pathlib import Path

import numpy as np

from ringside.arrays import Array


def load_digits() -> tuple[Array, Array]:
    """The images and what they show.

    Returns:
        Images of shape ``(1797, 64)``, float64, whole numbers from 0 to 16; digits, int64.
    """
    with np.load(Path(__file__).with_name("digits.npz")) as stored:
        return stored["images"].astype("float64"), stored["labels"].astype("int64")
