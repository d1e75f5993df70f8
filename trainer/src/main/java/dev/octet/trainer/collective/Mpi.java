package dev.octet.trainer.collective;

import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The functions of an installed MPI library that ranks need, the same for both ABIs: messages between two ranks that are begun, and asked whether they are done. Handles
 * that never change are bound once.
 */
final class Mpi {
    /** Path or name of the library, for one that is not found by itself. */
    static final String LIBRARY = "OCTET_MPI_LIBRARY";

    private static final List<String> OPEN_MPI = List.of("libmpi.so.40", "libmpi.40.dylib");
    private static final List<String> MPICH = List.of("libmpich.so.12", "libmpi.so.12", "libmpi.12.dylib");
    private static final List<String> ANY = List.of("libmpi.so", "libmpich.so");

    private static final int VERSION_BYTES = 8192;

    /** MPI_THREAD_SERIALIZED and MPI_THREAD_MULTIPLE, the same numbers in both ABIs. */
    private static final int SERIALIZED = 2;

    private static final int MULTIPLE = 3;

    private final String name;
    private final MpiAbi abi;
    private final SymbolLookup library;
    private final MethodHandle isend;
    private final MethodHandle irecv;
    private final MethodHandle test;

    private Mpi(String name, SymbolLookup library) {
        this.name = name;
        this.library = library;
        this.abi = MpiAbi.of(library);
        MemoryLayout handle = abi.handle();
        Object world = abi.world(library);
        Object bytes = abi.bytes(library);
        isend = message("MPI_Isend", handle, bytes, world);
        irecv = message("MPI_Irecv", handle, bytes, world);
        test = MethodHandles.insertArguments(
                function("MPI_Test", ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.ADDRESS),
                2,
                abi.ignoredStatus());
    }

    /**
     * Loads the library that belongs to a launcher.
     *
     * @throws UnavailableException when there is none
     */
    static Mpi load(RankEnvironment.Launcher launcher, Map<String, String> variables) {
        List<String> names = new ArrayList<>();
        String own = variables.getOrDefault(LIBRARY, "");
        if (!own.isEmpty()) {
            names.add(own);
        } else if (launcher == RankEnvironment.Launcher.MPICH) {
            names.addAll(MPICH);
            names.addAll(ANY);
        } else {
            names.addAll(OPEN_MPI);
            if (launcher != RankEnvironment.Launcher.OPEN_MPI) {
                names.addAll(MPICH);
            }
            names.addAll(ANY);
        }
        for (String name : names) {
            Optional<SymbolLookup> library = library(name);
            if (library.isPresent()) {
                return new Mpi(name, library.get());
            }
        }
        throw new UnavailableException(
                "no MPI library was found",
                String.join(", ", names) + "; " + LIBRARY + (own.isEmpty() ? " is not set" : "=" + own),
                "install Open MPI or MPICH (Debian: libopenmpi3 or libmpich12), or set " + LIBRARY
                        + " to the library that " + launcher.text() + " belongs to");
    }

    private static Optional<SymbolLookup> library(String name) {
        try {
            SymbolLookup library = SymbolLookup.libraryLookup(name, Arena.global());
            return library.find("MPI_Init_thread").map(_ -> library);
        } catch (IllegalArgumentException e) {
            return Optional.empty(); // not here under this name
        }
    }

    private MethodHandle function(String symbol, MemoryLayout... arguments) {
        return Linker.nativeLinker()
                .downcallHandle(
                        library.find(symbol)
                                .orElseThrow(() -> new UnavailableException(
                                        name + " has no function " + symbol,
                                        LIBRARY + ", or the system's loader",
                                        "set " + LIBRARY + " to a library of Open MPI or MPICH")),
                        FunctionDescriptor.of(ValueLayout.JAVA_INT, arguments));
    }

    private MethodHandle message(String symbol, MemoryLayout handle, Object bytes, Object world) {
        MethodHandle all = function(
                symbol,
                ValueLayout.ADDRESS,
                ValueLayout.JAVA_INT,
                handle,
                ValueLayout.JAVA_INT,
                ValueLayout.JAVA_INT,
                handle,
                ValueLayout.ADDRESS);
        return MethodHandles.insertArguments(MethodHandles.insertArguments(all, 5, world), 2, bytes);
    }

    /** MPI_Init_thread, so that a rank that fails can end the others from another thread. */
    void init() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment provided = arena.allocate(ValueLayout.JAVA_INT);
            check(
                    "MPI_Init_thread",
                    call(
                            function(
                                    "MPI_Init_thread",
                                    ValueLayout.ADDRESS,
                                    ValueLayout.ADDRESS,
                                    ValueLayout.JAVA_INT,
                                    ValueLayout.ADDRESS),
                            MemorySegment.NULL,
                            MemorySegment.NULL,
                            MULTIPLE,
                            provided));
            int level = provided.get(ValueLayout.JAVA_INT, 0);
            if (level < SERIALIZED) {
                throw new UnavailableException(
                        "the MPI library lets only one thread call it (level " + level + ")",
                        version(),
                        "use one that was built with MPI_THREAD_MULTIPLE");
            }
        }
    }

    /** MPI_Comm_rank. */
    int rank() {
        return number("MPI_Comm_rank");
    }

    /** MPI_Comm_size. */
    int size() {
        return number("MPI_Comm_size");
    }

    private int number(String symbol) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment number = arena.allocate(ValueLayout.JAVA_INT);
            check(symbol, call(function(symbol, abi.handle(), ValueLayout.ADDRESS), abi.world(library), number));
            return number.get(ValueLayout.JAVA_INT, 0);
        }
    }

    /** Name and version, as the library says them. */
    String version() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = arena.allocate(VERSION_BYTES);
            MemorySegment length = arena.allocate(ValueLayout.JAVA_INT);
            check(
                    "MPI_Get_library_version",
                    call(function("MPI_Get_library_version", ValueLayout.ADDRESS, ValueLayout.ADDRESS), text, length));
            return text.getString(0)
                    .lines()
                    .findFirst()
                    .orElse(name)
                    .replaceAll("\\s+", " ")
                    .strip();
        }
    }

    /** Bytes of a request. */
    long requestBytes() {
        return abi.handle().byteSize();
    }

    /** Begins to send. */
    void send(MemorySegment data, int to, int tag, MemorySegment request) {
        try {
            check("MPI_Isend", (int) isend.invokeExact(data, (int) data.byteSize(), to, tag, request));
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    /** Begins to receive. */
    void receive(MemorySegment data, int from, int tag, MemorySegment request) {
        try {
            check("MPI_Irecv", (int) irecv.invokeExact(data, (int) data.byteSize(), from, tag, request));
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    /**
     * Whether what was begun is done.
     *
     * @param flag room for an int
     */
    boolean isDone(MemorySegment request, MemorySegment flag) {
        try {
            check("MPI_Test", (int) test.invokeExact(request, flag));
        } catch (Throwable e) {
            throw unexpected(e);
        }
        return flag.get(ValueLayout.JAVA_INT, 0) != 0;
    }

    /** MPI_Abort: ends all ranks, this process included. */
    void abort(int exitCode) {
        int _ = call(
                function("MPI_Abort", abi.handle(), ValueLayout.JAVA_INT), abi.world(library), Math.max(1, exitCode));
    }

    /** MPI_Finalize: waits for all ranks. */
    void end() {
        check("MPI_Finalize", call(function("MPI_Finalize")));
    }

    private static int call(MethodHandle function, Object... arguments) {
        try {
            return (int) function.invokeWithArguments(arguments);
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    /** Most libraries end all ranks themselves where something is wrong. */
    private static void check(String function, int status) {
        if (status != 0) {
            throw new IllegalStateException(function + " failed with " + status);
        }
    }

    /** A downcall declares {@code Throwable}, but throws only for invalid arguments. */
    private static RuntimeException unexpected(Throwable e) {
        return e instanceof IllegalStateException known
                ? known
                : new IllegalStateException("a call of a native library failed", e);
    }
}
