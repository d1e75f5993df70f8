package dev.octet.trainer.device.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** NCCL's interface among threads of this process, compiled from {@code threaded_nccl.cpp}; its sums are those of a ring. */
final class ThreadedNccl {
    private static final String SOURCE = "threaded_nccl.cpp";

    private ThreadedNccl() {}

    /** Bound as the real one is. */
    static Nccl of(HostCompiler compiler) {
        Path file = compiler.compile(SOURCE, text());
        return Nccl.of(new LoadedLibrary(
                CudaLibrary.NCCL, file.toString(), 2, SymbolLookup.libraryLookup(file, Arena.global())));
    }

    private static String text() {
        try (InputStream in = ThreadedNccl.class.getResourceAsStream(SOURCE)) {
            if (in == null) {
                throw new IllegalStateException("no resource " + SOURCE);
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(SOURCE, e);
        }
    }
}
