"""The numbers of MPI: wildcards, comparison results, error classes.

MPI leaves their values open. ANY_SOURCE, ANY_TAG and PROC_NULL are chosen so that a rank such as
-1, computed by mistake, is none of them and is refused.
"""

from __future__ import annotations

from typing import Final

from ringside.network.wire import (
    FIRST_INTERNAL_TAG,
    PROC_FAILED,
    PROC_FAILED_PENDING,
    REVOKED,
)

ANY_SOURCE: Final = -101
ANY_TAG: Final = -102
PROC_NULL: Final = -103
ROOT: Final = -104
UNDEFINED: Final = -32766

LARGEST_TAG: Final = FIRST_INTERNAL_TAG - 1  # the value of the attribute TAG_UB, MPICH's
BSEND_OVERHEAD: Final = 96

IDENT: Final = 0
CONGRUENT: Final = 1
SIMILAR: Final = 2
UNEQUAL: Final = 3

GRAPH: Final = 1
CART: Final = 2
DIST_GRAPH: Final = 3

ORDER_C: Final = 56
ORDER_F: Final = 57
ORDER_FORTRAN: Final = ORDER_F

COMM_TYPE_SHARED: Final = 1

THREAD_SINGLE: Final = 0
THREAD_FUNNELED: Final = 1
THREAD_SERIALIZED: Final = 2
THREAD_MULTIPLE: Final = 3

KEYVAL_INVALID: Final = -201
TAG_UB: Final = -202
IO: Final = -203
WTIME_IS_GLOBAL: Final = -204
UNIVERSE_SIZE: Final = -205
APPNUM: Final = -206
LASTUSEDCODE: Final = -207

LOCK_EXCLUSIVE: Final = 234
LOCK_SHARED: Final = 235
MODE_NOCHECK: Final = 1024
MODE_NOSTORE: Final = 2048
MODE_NOPUT: Final = 4096
MODE_NOPRECEDE: Final = 8192
MODE_NOSUCCEED: Final = 16384

WIN_BASE: Final = -208
WIN_SIZE: Final = -209
WIN_DISP_UNIT: Final = -210
WIN_CREATE_FLAVOR: Final = -211
WIN_MODEL: Final = -212
WIN_FLAVOR: Final = WIN_CREATE_FLAVOR
WIN_FLAVOR_CREATE: Final = 1
WIN_FLAVOR_ALLOCATE: Final = 2
WIN_FLAVOR_DYNAMIC: Final = 3
WIN_FLAVOR_SHARED: Final = 4
WIN_SEPARATE: Final = 1
WIN_UNIFIED: Final = 2

VERSION: Final = 3
SUBVERSION: Final = 1
MAX_PROCESSOR_NAME: Final = 128
MAX_ERROR_STRING: Final = 512
MAX_OBJECT_NAME: Final = 128

SUCCESS: Final = 0
ERR_BUFFER: Final = 1
ERR_COUNT: Final = 2
ERR_TYPE: Final = 3
ERR_TAG: Final = 4
ERR_COMM: Final = 5
ERR_RANK: Final = 6
ERR_ROOT: Final = 7
ERR_GROUP: Final = 8
ERR_OP: Final = 9
ERR_TOPOLOGY: Final = 10
ERR_DIMS: Final = 11
ERR_ARG: Final = 12
ERR_UNKNOWN: Final = 13
ERR_TRUNCATE: Final = 14
ERR_OTHER: Final = 15
ERR_INTERN: Final = 16
ERR_IN_STATUS: Final = 17
ERR_PENDING: Final = 18
ERR_REQUEST: Final = 19
ERR_KEYVAL: Final = 48
ERR_INFO_NOKEY: Final = 31
ERR_LASTCODE: Final = (1 << 30) - 1
ERR_PROC_FAILED: Final = PROC_FAILED
ERR_PROC_FAILED_PENDING: Final = PROC_FAILED_PENDING
ERR_REVOKED: Final = REVOKED

# Classes of errors in parts of MPI that aren't offered; programs compare codes with them.
_OTHER_ERRORS = [
    "ACCESS", "AMODE", "ASSERT", "BAD_FILE", "BASE", "CONVERSION", "DISP", "DUP_DATAREP",
    "ERRHANDLER", "FILE", "FILE_EXISTS", "FILE_IN_USE", "INFO", "INFO_KEY",
    "INFO_VALUE", "IO", "LOCKTYPE", "NAME", "NOT_SAME", "NO_MEM", "NO_SPACE",
    "NO_SUCH_FILE", "PORT", "PROC_ABORTED", "QUOTA", "READ_ONLY", "RMA_ATTACH",
    "RMA_CONFLICT", "RMA_FLAVOR", "RMA_RANGE", "RMA_SHARED", "RMA_SYNC", "SERVICE",
    "SESSION", "SIZE", "SPAWN", "UNSUPPORTED_DATAREP", "UNSUPPORTED_OPERATION",
    "VALUE_TOO_LARGE", "WIN",
]  # fmt: skip
OTHER_ERRORS: Final = {f"ERR_{name}": 100 + i for i, name in enumerate(_OTHER_ERRORS)}

ERROR_STRINGS: Final[dict[int, str]] = {
    SUCCESS: "No MPI error",
    ERR_BUFFER: "Invalid buffer pointer",
    ERR_COUNT: "Invalid count",
    ERR_TYPE: "Invalid datatype",
    ERR_TAG: "Invalid tag",
    ERR_COMM: "Invalid communicator",
    ERR_RANK: "Invalid rank",
    ERR_ROOT: "Invalid root",
    ERR_GROUP: "Invalid group",
    ERR_OP: "Invalid MPI_Op",
    ERR_TOPOLOGY: "Invalid topology",
    ERR_DIMS: "Invalid dimension argument",
    ERR_ARG: "Invalid argument",
    ERR_UNKNOWN: "Unknown error",
    ERR_TRUNCATE: "Message truncated",
    ERR_OTHER: "Other MPI error",
    ERR_INTERN: "Internal MPI error",
    ERR_IN_STATUS: "See the error field of each status",
    ERR_PENDING: "Pending request (no error)",
    ERR_REQUEST: "Invalid MPI_Request",
    ERR_KEYVAL: "Invalid keyval",
    ERR_INFO_NOKEY: "No such key in the info",
    ERR_PROC_FAILED: "A process has failed",
    ERR_PROC_FAILED_PENDING: "A process has failed, and the request stays open",
    ERR_REVOKED: "The communicator was revoked",
} | {
    code: name.removeprefix("ERR_").replace("_", " ").capitalize()
    for name, code in OTHER_ERRORS.items()
}
