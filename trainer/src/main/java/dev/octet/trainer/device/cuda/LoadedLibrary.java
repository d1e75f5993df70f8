package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * A library loaded in this process; never unloaded.
 *
 * @param path its file, or only its name if the system does not report the path
 * @param major version in the file name
 */
record LoadedLibrary(CudaLibrary library, String path, int major, SymbolLookup symbols) {
    /**
     * A function that returns a status.
     *
     * @throws UnavailableException when the library lacks it
     */
    MethodHandle function(String name, MemoryLayout... arguments) {
        return handle(name, FunctionDescriptor.of(ValueLayout.JAVA_INT, arguments));
    }

    /**
     * A function with any signature.
     *
     * @throws UnavailableException when the library lacks it
     */
    MethodHandle handle(String name, FunctionDescriptor descriptor) {
        return Linker.nativeLinker()
                .downcallHandle(
                        symbols.find(name)
                                .orElseThrow(() -> new UnavailableException(
                                        library.file(major) + " has no function " + name
                                                + ", so it is not the library that its name suggests",
                                        path,
                                        library.remedy())),
                        descriptor);
    }

    /** A downcall declares {@code Throwable}, but throws only for invalid arguments. */
    static IllegalStateException unexpected(Throwable e) {
        return new IllegalStateException("a call of a native library failed", e);
    }
}
