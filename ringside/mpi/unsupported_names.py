"""Names of mpi4py 4.1 that are not offered here, by class; ``MPI`` is the module itself."""

from __future__ import annotations

ABSENT: dict[str, frozenset[str]] = {
    "MPI": frozenset((
        "Add_error_class", "Add_error_code", "Add_error_string", "BUFFER_AUTOMATIC",
        "BottomType", "BufferAutomaticType", "COMBINER_CONTIGUOUS", "COMBINER_DARRAY",
        "COMBINER_DUP", "COMBINER_F90_COMPLEX", "COMBINER_F90_INTEGER",
        "COMBINER_F90_REAL", "COMBINER_HINDEXED", "COMBINER_HINDEXED_BLOCK",
        "COMBINER_HVECTOR", "COMBINER_INDEXED", "COMBINER_INDEXED_BLOCK",
        "COMBINER_NAMED", "COMBINER_RESIZED", "COMBINER_STRUCT", "COMBINER_SUBARRAY",
        "COMBINER_VALUE_INDEX", "COMBINER_VECTOR", "COMM_TYPE_HW_GUIDED",
        "COMM_TYPE_HW_UNGUIDED", "COMM_TYPE_RESOURCE_GUIDED", "Close_port",
        "DISPLACEMENT_CURRENT", "DISP_CUR", "DISTRIBUTE_BLOCK", "DISTRIBUTE_CYCLIC",
        "DISTRIBUTE_DFLT_DARG", "DISTRIBUTE_NONE", "ERR_ABI",
        "FILE_NULL", "F_ERROR", "F_SOURCE",
        "F_STATUS_SIZE", "F_TAG", "File", "Flush_buffer", "Get_abi_fortran_info",
        "Get_abi_info", "Get_abi_version", "Get_hw_resource_info", "Grequest",
        "Iflush_buffer", "InPlaceType", "Intercomm", "Lookup_name",
        "MAX_DATAREP_STRING", "MAX_INFO_KEY", "MAX_INFO_VAL",
        "MAX_LIBRARY_VERSION_STRING", "MAX_PORT_NAME", "MAX_PSET_NAME_LEN",
        "MAX_STRINGTAG_LEN", "MODE_APPEND", "MODE_CREATE", "MODE_DELETE_ON_CLOSE",
        "MODE_EXCL", "MODE_RDONLY", "MODE_RDWR", "MODE_SEQUENTIAL", "MODE_UNIQUE_OPEN",
        "MODE_WRONLY", "Open_port", "Publish_name", "Register_datarep",
        "Remove_error_class", "Remove_error_code", "Remove_error_string", "SEEK_CUR",
        "SEEK_END", "SEEK_SET", "SESSION_NULL", "Session", "TYPECLASS_COMPLEX",
        "TYPECLASS_INTEGER", "TYPECLASS_LOGICAL", "TYPECLASS_REAL", "Unpublish_name",
        "_comm_lock", "_addressof", "_comm_lock_table", "_handleof", "_sizeof",
        "buffer", "memory",
    )),
    "Comm": frozenset((
        "Attach_buffer", "Call_errhandler", "Create_errhandler",
        "Detach_buffer", "Flush_buffer", "Get_parent", "Iagree",
        "Iflush_buffer", "Ishrink", "Join", "Precv_init", "Psend_init",
        "f2py", "fromhandle", "fromint", "handle",
    )),
    "Intracomm": frozenset((
        "Accept", "Connect", "Create_from_group", "Create_intercomm", "Spawn",
        "Spawn_multiple",
    )),
    "Request": frozenset((
        "Cancel", "cancel", "f2py", "fromhandle", "fromint", "handle",
    )),
    "Prequest": frozenset((
        "Parrived", "Pready", "Pready_list", "Pready_range",
    )),
    "Status": frozenset((
        "f2py", "tomemory",
    )),
    "Group": frozenset((
        "Create_from_session_pset", "f2py", "fromhandle", "fromint", "handle",
    )),
    "Op": frozenset((
        "f2py", "fromhandle", "fromint", "handle",
    )),
    "Datatype": frozenset((
        "Create_darray", "Create_f90_complex", "Create_f90_integer", "Create_f90_real",
        "Get_contents", "Get_envelope", "Get_value_index", "Match_size", "Pack",
        "Pack_external", "Pack_external_size", "Pack_size", "Unpack", "Unpack_external",
        "combiner", "contents", "decode", "envelope", "f2py", "fromhandle", "fromint",
        "handle",
    )),
    "Message": frozenset((
        "f2py", "free", "fromhandle", "fromint", "handle",
    )),
    "Info": frozenset((
        "f2py", "fromhandle", "fromint", "handle",
    )),
    "Win": frozenset((
        "Allocate_shared", "Attach", "Call_errhandler", "Create_dynamic",
        "Create_errhandler", "Detach", "Shared_query", "f2py", "fromhandle", "fromint",
        "handle",
    )),
    "Errhandler": frozenset((
        "f2py", "free", "fromhandle", "fromint", "handle",
    )),
}  # fmt: skip
