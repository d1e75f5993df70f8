package dev.octet.cli;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.List;
import java.util.function.LongBinaryOperator;

/** The signals that ask a process to end, as POSIX has them. */
final class Signals {
    /** SIGHUP, SIGINT, SIGTERM: the same numbers on Linux and macOS. */
    private static final List<Integer> ENDING = List.of(1, 2, 15);

    /** SIG_DFL and SIG_IGN, addresses of no function. */
    private static final long DEFAULT = 0;

    private static final long IGNORE = 1;

    private Signals() {}

    /**
     * Lets these signals end the process at once. A JVM that is ending ignores them: its handler waits for the end that is under way. A signal
     * that was ignored stays so, as whoever started the process wanted it.
     */
    static void restoreDefaults() {
        if (System.getProperty("os.name").startsWith("Windows")) {
            return; // has no such signals
        }
        Linker linker = Linker.nativeLinker();
        MethodHandle signal = linker.downcallHandle(
                linker.defaultLookup().findOrThrow("signal"),
                FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG));
        // a functional interface instead of invokeExact, which would make us catch Throwable
        LongBinaryOperator handler = MethodHandleProxies.asInterfaceInstance(
                LongBinaryOperator.class,
                MethodHandles.explicitCastArguments(signal, MethodType.methodType(long.class, long.class, long.class)));
        for (int number : ENDING) {
            if (handler.applyAsLong(number, DEFAULT) == IGNORE) {
                long _ = handler.applyAsLong(number, IGNORE);
            }
        }
    }
}
