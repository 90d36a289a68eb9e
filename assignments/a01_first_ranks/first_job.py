"""A first job: print who is where. Supplied; it needs your ``where.py``.

ringside launch first_job.py --site local --out where_job
"""

import os

from mpi4py import MPI
from where import where

where(MPI.COMM_WORLD, os.environ.get("CUDA_VISIBLE_DEVICES"))
