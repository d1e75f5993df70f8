package dev.octet.cli;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.util.Map;
import java.util.function.IntBinaryOperator;

/**
 * Puts standard error back where the user has it.
 *
 * <p>The JVM prints a warning about its incubating vector module before any code of ours runs, and has no switch against it. The
 * launcher therefore starts the JVM with standard error going through a filter, keeps the real one as another file descriptor, and
 * says which in {@code OCTET_STDERR}. Making descriptor 2 that one again ends the filter, so that progress bars see a terminal
 * and the messages of native libraries come out in order.
 */
final class NativeStderr {
    private static final int STDERR = 2;

    private NativeStderr() {}

    /** Undoes the launcher's redirection, if there is one. When that fails, output still arrives through the filter. */
    static void restore(Map<String, String> environment) {
        String descriptor = environment.getOrDefault("OCTET_STDERR", "");
        if (descriptor.matches("[3-9]")) {
            duplicate(Integer.parseInt(descriptor));
        }
    }

    private static void duplicate(int from) {
        Linker linker = Linker.nativeLinker();
        MethodHandle dup2 = linker.downcallHandle(
                linker.defaultLookup().findOrThrow("dup2"),
                FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
        // a functional interface instead of invokeExact, which would make us catch Throwable
        int _ = MethodHandleProxies.asInterfaceInstance(IntBinaryOperator.class, dup2)
                .applyAsInt(from, STDERR);
    }
}
