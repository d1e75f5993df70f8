package dev.octet.trainer.device.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * Binding of NCCL's C interface (nccl.h of NCCL 2), as far as Octet calls it. A communicator is an opaque pointer; device addresses, streams and communicators are
 * passed as numbers. The GPU must be current in the calling thread.
 */
public final class Nccl {
    /** {@code NCCL_UNIQUE_ID_BYTES}: an id is a struct of so many bytes, and passed by value. */
    static final int ID_BYTES = 128;

    private static final MemoryLayout ID = MemoryLayout.structLayout(MemoryLayout.sequenceLayout(ID_BYTES, JAVA_BYTE));

    /** {@code ncclFloat32} of ncclDataType_t. */
    private static final int FLOAT32 = 7;

    /** {@code ncclAvg} of ncclRedOp_t, since 2.10. */
    private static final int AVERAGE = 4;

    /** {@code ncclInProgress} of ncclResult_t: no error so far. */
    private static final int IN_PROGRESS = 7;

    /** NCCL_VERSION(2,10,0): the first release with {@link #AVERAGE}. */
    private static final int OLDEST = 21000;

    private final LoadedLibrary library;
    private final int version;
    private final MethodHandle error;
    private final MethodHandle uniqueId;
    private final MethodHandle join;
    private final MethodHandle allReduce;
    private final MethodHandle groupStart;
    private final MethodHandle groupEnd;
    private final MethodHandle asyncError;
    private final MethodHandle destroy;
    private final MethodHandle abort;

    private Nccl(LoadedLibrary library) {
        this.library = library;
        error = library.handle("ncclGetErrorString", FunctionDescriptor.of(ADDRESS, JAVA_INT));
        version = readVersion(library);
        uniqueId = library.function("ncclGetUniqueId", ADDRESS);
        join = library.function("ncclCommInitRank", ADDRESS, JAVA_INT, ID, JAVA_INT);
        allReduce = library.function(
                "ncclAllReduce",
                JAVA_LONG, // send
                JAVA_LONG, // receive
                JAVA_LONG, // count
                JAVA_INT, // type
                JAVA_INT, // operation
                JAVA_LONG, // communicator
                JAVA_LONG); // stream
        groupStart = library.function("ncclGroupStart");
        groupEnd = library.function("ncclGroupEnd");
        asyncError = library.function("ncclCommGetAsyncError", JAVA_LONG, ADDRESS);
        destroy = library.function("ncclCommDestroy", JAVA_LONG);
        abort = library.function("ncclCommAbort", JAVA_LONG);
    }

    /**
     * Binds the library.
     *
     * @throws UnavailableException when it lacks a function, or is older than averages
     */
    static Nccl of(LoadedLibrary library) {
        Nccl nccl = new Nccl(library);
        if (nccl.version < OLDEST) {
            throw new UnavailableException(
                    nccl.name() + " is too old: averages came with 2.10",
                    library.path(),
                    library.library().remedy());
        }
        return nccl;
    }

    private static int readVersion(LoadedLibrary library) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment number = arena.allocate(JAVA_INT);
            int code = (int) library.function("ncclGetVersion", ADDRESS).invokeExact(number);
            return code == 0 ? number.get(JAVA_INT, 0) : 0;
        } catch (UnavailableException e) {
            throw e;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** Name and version: {@code NCCL 2.27.3}. */
    String name() {
        // since 2.9 major * 10000 + minor * 100 + patch; before, major * 1000
        return version < 10_000
                ? "NCCL " + version / 1000 + "." + version / 100 % 10 + "." + version % 100
                : "NCCL " + version / 10_000 + "." + version / 100 % 100 + "." + version % 100;
    }

    /** ncclGetUniqueId: what all ranks of a communicator give when they join it; made by one of them. */
    byte[] uniqueId() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment id = arena.allocate(ID);
            check("ncclGetUniqueId", (int) uniqueId.invokeExact(id));
            return id.toArray(JAVA_BYTE);
        } catch (UnavailableException e) {
            throw e;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /**
     * ncclCommInitRank: joins the other ranks, and returns when all have come.
     *
     * @param id of {@link #uniqueId}
     * @return the communicator, of the GPU that is current
     */
    long join(int size, byte[] id, int rank) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment communicator = arena.allocate(JAVA_LONG);
            MemorySegment value = arena.allocate(ID).copyFrom(MemorySegment.ofArray(id));
            check("ncclCommInitRank", (int) join.invokeExact(communicator, size, value, rank));
            return communicator.get(JAVA_LONG, 0);
        } catch (UnavailableException e) {
            throw e;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** ncclAllReduce of F32 in place, an average; queued in the stream. */
    void average(long address, long count, long communicator, long stream) {
        try {
            check("ncclAllReduce", (int)
                    allReduce.invokeExact(address, address, count, FLOAT32, AVERAGE, communicator, stream));
        } catch (UnavailableException e) {
            throw e;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** ncclGroupStart: the calls up to {@link #endGroup} are one. */
    void startGroup() {
        call("ncclGroupStart", groupStart);
    }

    /** ncclGroupEnd. */
    void endGroup() {
        call("ncclGroupEnd", groupEnd);
    }

    private void call(String function, MethodHandle handle) {
        try {
            check(function, (int) handle.invokeExact());
        } catch (UnavailableException e) {
            throw e;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /**
     * ncclCommGetAsyncError: whether work that was queued has failed meanwhile, on this rank or as another went away.
     *
     * @throws UnavailableException when it has
     */
    void requireGood(long communicator) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment code = arena.allocate(JAVA_INT);
            check("ncclCommGetAsyncError", (int) asyncError.invokeExact(communicator, code));
            if (code.get(JAVA_INT, 0) != IN_PROGRESS) {
                check("a collective of NCCL", code.get(JAVA_INT, 0));
            }
        } catch (UnavailableException e) {
            throw e;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** ncclCommDestroy, for a communicator whose work is done. */
    void leave(long communicator) {
        try {
            check("ncclCommDestroy", (int) destroy.invokeExact(communicator));
        } catch (UnavailableException e) {
            throw e;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** ncclCommAbort, for a communicator that failed: ends its work without waiting for others. */
    void abort(long communicator) {
        try {
            int _ = (int) abort.invokeExact(communicator);
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    private void check(String function, int code) throws Throwable {
        if (code != 0) {
            MemorySegment text = (MemorySegment) error.invokeExact(code);
            throw new UnavailableException(
                    function + " failed: " + text.reinterpret(Long.MAX_VALUE).getString(0) + " (" + code + ")",
                    name() + ", " + library.path(),
                    "set NCCL_DEBUG=INFO for its reasons; each rank needs a GPU of its own; gradient_reduction: f32"
                            + " does without NCCL");
        }
    }
}
