package dev.octet.trainer.device.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The kernels of one source as functions of this processor. Only one launch of a library runs at a time: shared memory is in its static
 * variables.
 */
final class HostLibrary {
    private static final Map<Path, HostLibrary> LOADED = new ConcurrentHashMap<>();
    /** {@code struct Launch} of octet_host.h. */
    private static final long LAUNCH_BYTES = 32;

    private final SymbolLookup symbols;
    private final CudaSource source;
    private final MethodHandle launch;
    private final long sharedBytes;

    private HostLibrary(Path file, CudaSource source) {
        this.source = source;
        this.symbols = SymbolLookup.libraryLookup(file, Arena.global());
        this.launch = Linker.nativeLinker()
                .downcallHandle(
                        symbols.findOrThrow("octet_launch"),
                        FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
        try {
            this.sharedBytes = (long) Linker.nativeLinker()
                    .downcallHandle(symbols.findOrThrow("octet_shared_bytes"), FunctionDescriptor.of(JAVA_LONG))
                    .invokeExact();
        } catch (Throwable e) {
            throw new IllegalStateException("octet_shared_bytes of " + file, e);
        }
    }

    /** Bytes of the static shared arrays of all kernels of the source. */
    long sharedBytes() {
        return sharedBytes;
    }

    /** The library of a file, loaded once per process and never unloaded. */
    static HostLibrary of(Path file, CudaSource source) {
        return LOADED.computeIfAbsent(file, f -> new HostLibrary(f, source));
    }

    /**
     * A kernel with its arguments.
     *
     * @throws IllegalArgumentException when the source has no such kernel, or one with other arguments or for smaller blocks
     */
    Bound bind(String kernel, Grid grid, List<Object> arguments) {
        MemorySegment call = symbols.find("octet_call_" + kernel)
                .orElseThrow(() -> new IllegalArgumentException(source + " has no kernel " + kernel));
        check(kernel, grid, arguments);
        Arena arena = Arena.ofAuto();
        MemorySegment values = arena.allocate(8L * Math.max(1, arguments.size()), 8);
        MemorySegment parameters = arena.allocate(ADDRESS, Math.max(1, arguments.size()));
        for (int i = 0; i < arguments.size(); i++) {
            MemorySegment value = values.asSlice(8L * i, 8);
            switch (arguments.get(i)) {
                case Long l -> value.set(JAVA_LONG, 0, l);
                case Double d -> value.set(JAVA_LONG, 0, Double.doubleToRawLongBits(d));
                case Integer n -> value.set(JAVA_INT, 0, n);
                case Float f -> value.set(JAVA_INT, 0, Float.floatToRawIntBits(f));
                default ->
                    throw new IllegalArgumentException(kernel + ": argument " + i + " is a "
                            + arguments.get(i).getClass().getName());
            }
            parameters.setAtIndex(ADDRESS, i, value);
        }
        return new Bound(kernel, call, grid, values, parameters, arena.allocateFrom(kernel));
    }

    private void check(String kernel, Grid grid, List<Object> arguments) {
        MethodHandle about = Linker.nativeLinker()
                .downcallHandle(symbols.findOrThrow("octet_about_" + kernel), FunctionDescriptor.of(JAVA_INT, ADDRESS));
        String letters;
        int threads;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment to = arena.allocate(4096);
            threads = (int) about.invokeExact(to);
            letters = to.getString(0, StandardCharsets.US_ASCII);
        } catch (Throwable e) {
            throw new IllegalStateException("octet_about_" + kernel, e);
        }
        if (grid.threads() > threads) {
            throw new IllegalArgumentException(
                    kernel + " is for at most " + threads + " threads a block, not " + grid.threads());
        }
        StringBuilder given = new StringBuilder();
        for (Object a : arguments) {
            given.append(
                    switch (a) {
                        case Long l -> 'l';
                        case Integer i -> 'i';
                        case Float f -> 'f';
                        case Double d -> 'd';
                        default -> '?';
                    });
        }
        if (!letters.contentEquals(given)) {
            throw new IllegalArgumentException(kernel + " takes arguments " + letters + ", not " + given
                    + " (l: pointer or 64-bit integer, i: 32-bit integer, f: float, d: double)");
        }
    }

    /** A kernel with its arguments, as native memory. */
    final class Bound {
        private final String kernel;
        private final MemorySegment call;
        private final Grid grid;

        @SuppressWarnings("UnusedVariable") // the parameters point into it
        private final MemorySegment values;

        private final MemorySegment parameters;
        private final MemorySegment name;

        private Bound(
                String kernel,
                MemorySegment call,
                Grid grid,
                MemorySegment values,
                MemorySegment parameters,
                MemorySegment name) {
            this.kernel = kernel;
            this.call = call;
            this.grid = grid;
            this.values = values;
            this.parameters = parameters;
            this.name = name;
        }

        /**
         * Runs all blocks.
         *
         * @throws IllegalStateException when the kernel does what is undefined on a GPU: which kernel, block, thread, and what
         */
        void run(HostGpu.Order order) {
            MemorySegment error;
            synchronized (HostLibrary.this) {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment about = arena.allocate(LAUNCH_BYTES, 8);
                    about.set(JAVA_LONG, 0, grid.x());
                    about.set(JAVA_INT, 8, grid.y());
                    about.set(JAVA_INT, 12, grid.z());
                    about.set(JAVA_INT, 16, grid.threads());
                    about.set(JAVA_INT, 20, grid.sharedBytes());
                    about.set(JAVA_INT, 24, order.seed());
                    error = (MemorySegment) launch.invokeExact(call, name, about, parameters);
                } catch (Throwable e) {
                    throw new IllegalStateException("launch of " + kernel, e);
                }
                if (error.address() != 0) {
                    throw new IllegalStateException(
                            error.reinterpret(2048).getString(0, StandardCharsets.UTF_8) + " (" + source + ")");
                }
            }
        }

        String kernel() {
            return kernel;
        }
    }
}
