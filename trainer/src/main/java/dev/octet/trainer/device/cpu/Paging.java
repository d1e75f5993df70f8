package dev.octet.trainer.device.cpu;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Optional;
import java.util.function.LongBinaryOperator;

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
    private static final Optional<MethodHandle> ADVISE = advise();
    private static final Optional<LongBinaryOperator> AHEAD = advice(WILL_NEED);
    private static final Optional<LongBinaryOperator> OUT = LINUX ? advice(PAGE_OUT) : Optional.empty();
    private static final Optional<LongBinaryOperator> AWAY = advice(DO_NOT_NEED);

    private Paging() {}

    /** {@code int madvise(void *, size_t, int)}, the address as a number. */
    private static Optional<MethodHandle> advise() {
        if (System.getProperty("os.name").startsWith("Windows")) {
            return Optional.empty();
        }
        Linker linker = Linker.nativeLinker();
        return linker.defaultLookup()
                .find("madvise")
                .map(function -> linker.downcallHandle(
                        function,
                        FunctionDescriptor.of(
                                ValueLayout.JAVA_INT,
                                ValueLayout.JAVA_LONG,
                                ValueLayout.JAVA_LONG,
                                ValueLayout.JAVA_INT)));
    }

    /** From address and bytes to 0, or -1 where the system does not know this advice. */
    private static Optional<LongBinaryOperator> advice(int number) {
        // a functional interface instead of invokeExact, which would make us catch Throwable
        return ADVISE.map(handle -> MethodHandleProxies.asInterfaceInstance(
                LongBinaryOperator.class,
                MethodHandles.explicitCastArguments(
                        MethodHandles.insertArguments(handle, 2, number),
                        MethodType.methodType(long.class, long.class, long.class))));
    }

    /** Has the system read pages before they are used; returns at once. */
    static void ahead(MemorySegment pages) {
        boolean _ = given(AHEAD, pages);
    }

    /** Writes pages of a mapped file back and gives their memory up. */
    static void drop(MemorySegment pages) {
        pages.force();
        boolean _ = given(OUT, pages) || given(AWAY, pages);
    }

    private static boolean given(Optional<LongBinaryOperator> advice, MemorySegment pages) {
        return advice.isPresent() && advice.get().applyAsLong(pages.address(), pages.byteSize()) == 0;
    }
}
