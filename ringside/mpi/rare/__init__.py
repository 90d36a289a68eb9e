"""Parts of MPI that programs rarely use; the kit has them so that MPI programs run unchanged."""
