package dev.octet.trainer.collective;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The JVM's handlers of signals, kept while a native library is loaded. UCX, which MPI libraries use, puts a handler of its own in place of the JVM's for SIGSEGV, which a
 * JVM needs: null checks and safepoints are such signals, and the process was gone at the first.
 */
final class SignalHandlers {
    /** SIGHUP to SIGTERM, all that a library may take; SIGKILL and the like are refused by the system and left out. */
    private static final int LAST = 15;

    /** More than any system's struct sigaction takes; what is in it is never looked at. */
    private static final long STRUCT_BYTES = 1024;

    private final Map<Integer, MemorySegment> handlers = new LinkedHashMap<>();
    private final Optional<MethodHandle> sigaction;

    private SignalHandlers(Optional<MethodHandle> sigaction) {
        this.sigaction = sigaction;
    }

    /** What is installed now. */
    static SignalHandlers current() {
        FunctionDescriptor descriptor = FunctionDescriptor.of(
                ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS);
        Linker linker = Linker.nativeLinker();
        SignalHandlers kept = new SignalHandlers(
                linker.defaultLookup().find("sigaction").map(f -> linker.downcallHandle(f, descriptor)));
        for (int signal = 1; signal <= LAST; signal++) {
            MemorySegment handler = Arena.ofAuto().allocate(STRUCT_BYTES, Long.BYTES);
            if (kept.call(signal, MemorySegment.NULL, handler) == 0) {
                kept.handlers.put(signal, handler);
            }
        }
        return kept;
    }

    /** Installs them again. */
    void restore() {
        handlers.forEach((signal, handler) -> {
            // SIGKILL can be asked for, but not set
            int _ = call(signal, handler, MemorySegment.NULL);
        });
    }

    private int call(int signal, MemorySegment set, MemorySegment get) {
        if (sigaction.isEmpty()) {
            return -1; // Windows has no such signals
        }
        try {
            return (int) sigaction.get().invokeExact(signal, set, get);
        } catch (Throwable e) {
            throw new IllegalStateException("a call of a native library failed", e);
        }
    }
}
