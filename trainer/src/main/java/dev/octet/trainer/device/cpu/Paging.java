package dev.octet.trainer.device.cpu;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.util.Optional;

/**
 * What a process says to the system about pages of mapped files: {@code madvise} of Linux and macOS. It changes no byte. Windows has no such call; there the system
 * takes written pages back when memory runs short.
 */
final class Paging {
    private static final int WILL_NEED = 3;
    private static final int DO_NOT_NEED = 4;
    /** Linux from 5.4 on: takes pages out of the page cache, too. */
    private static final int PAGE_OUT = 21;

    private static final boolean LINUX = System.getProperty("os.name").startsWith("Linux");
    private static final Optional<Advice> ADVICE = advice();

    private Paging() {}

    /** {@code int madvise(void *, size_t, int)}. */
    @FunctionalInterface
    interface Advice {
        int give(long address, long bytes, int advice);
    }

    private static Optional<Advice> advice() {
        if (System.getProperty("os.name").startsWith("Windows")) {
            return Optional.empty();
        }
        Linker linker = Linker.nativeLinker();
        return linker.defaultLookup().find("madvise").map(function -> {
            // the address as a number, as in all 64-bit calling conventions
            MethodHandle handle = linker.downcallHandle(
                    function,
                    FunctionDescriptor.of(
                            ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT));
            // a functional interface instead of invokeExact, which would make us catch Throwable
            return MethodHandleProxies.asInterfaceInstance(Advice.class, handle);
        });
    }

    /** Has the system read pages before they are used; returns at once. */
    static void ahead(MemorySegment pages) {
        ADVICE.ifPresent(a -> a.give(pages.address(), pages.byteSize(), WILL_NEED));
    }

    /** Writes pages of a mapped file back and gives their memory up. */
    static void drop(MemorySegment pages) {
        pages.force();
        ADVICE.ifPresent(a -> {
            if (!LINUX || a.give(pages.address(), pages.byteSize(), PAGE_OUT) != 0) {
                a.give(pages.address(), pages.byteSize(), DO_NOT_NEED);
            }
        });
    }
}
