package dev.octet.trainer.collective;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;

/** The two ways in which MPI libraries represent handles. */
enum MpiAbi {
    /** Handles are pointers to objects of the library that are exported under names of their own. */
    OPEN_MPI(ValueLayout.ADDRESS, MemorySegment.NULL) {
        @Override
        Object world(SymbolLookup library) {
            return library.findOrThrow(WORLD);
        }

        @Override
        Object bytes(SymbolLookup library) {
            return library.findOrThrow("ompi_mpi_byte");
        }
    },
    /** Handles are integers that mpi.h defines; MPICH, Intel MPI, MVAPICH and Cray agreed on them (the MPICH ABI compatibility initiative). */
    MPICH(ValueLayout.JAVA_INT, MemorySegment.ofAddress(1)) {
        @Override
        Object world(SymbolLookup library) {
            return 0x44000000;
        }

        @Override
        Object bytes(SymbolLookup library) {
            return 0x4c00010d;
        }
    };

    private static final String WORLD = "ompi_mpi_comm_world";

    private final MemoryLayout handle;
    private final MemorySegment ignoredStatus;

    MpiAbi(MemoryLayout handle, MemorySegment ignoredStatus) {
        this.handle = handle;
        this.ignoredStatus = ignoredStatus;
    }

    static MpiAbi of(SymbolLookup library) {
        return library.find(WORLD).isPresent() ? OPEN_MPI : MPICH;
    }

    /** Type of a communicator, a data type and a request. */
    MemoryLayout handle() {
        return handle;
    }

    /** MPI_STATUS_IGNORE. */
    MemorySegment ignoredStatus() {
        return ignoredStatus;
    }

    /** MPI_COMM_WORLD. */
    abstract Object world(SymbolLookup library);

    /** MPI_BYTE. */
    abstract Object bytes(SymbolLookup library);
}
