package dev.octet.trainer.collective;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;

/** The two ways in which MPI libraries represent handles. */
enum MpiAbi {
    /** Handles are pointers to objects of the library that are exported under names of their own. */
    OPEN_MPI,
    /** Handles are integers that mpi.h defines; MPICH, Intel MPI, MVAPICH and Cray agreed on them (the MPICH ABI compatibility initiative). */
    MPICH;

    private static final String WORLD = "ompi_mpi_comm_world";

    static MpiAbi of(SymbolLookup library) {
        return library.find(WORLD).isPresent() ? OPEN_MPI : MPICH;
    }

    /** Type of a communicator, a data type and a request. */
    MemoryLayout handle() {
        return switch (this) {
            case OPEN_MPI -> ValueLayout.ADDRESS;
            case MPICH -> ValueLayout.JAVA_INT;
        };
    }

    /** MPI_STATUS_IGNORE. */
    MemorySegment ignoredStatus() {
        return switch (this) {
            case OPEN_MPI -> MemorySegment.NULL;
            case MPICH -> MemorySegment.ofAddress(1);
        };
    }

    /** MPI_COMM_WORLD. */
    Object world(SymbolLookup library) {
        return switch (this) {
            case OPEN_MPI -> library.findOrThrow(WORLD);
            case MPICH -> 0x44000000;
        };
    }

    /** MPI_BYTE. */
    Object bytes(SymbolLookup library) {
        return switch (this) {
            case OPEN_MPI -> library.findOrThrow("ompi_mpi_byte");
            case MPICH -> 0x4c00010d;
        };
    }
}
