package dev.octet.trainer.device.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** cuDNN's interface on this processor, compiled from {@code host_cudnn.cpp}: it computes the graphs that it is given, operation by operation. */
final class HostCudnn {
    private static final String SOURCE = "host_cudnn.cpp";

    private HostCudnn() {}

    /** Bound as the real one is. */
    static Cudnn of(HostCompiler compiler) {
        return of(compiler, text());
    }

    private static Cudnn of(HostCompiler compiler, String text) {
        Path file = compiler.compile(SOURCE, text);
        return Cudnn.of(new LoadedLibrary(
                CudaLibrary.CUDNN, file.toString(), 9, SymbolLookup.libraryLookup(file, Arena.global())));
    }

    /** Its file. */
    static Path compiled(HostCompiler compiler) {
        return compiler.compile(SOURCE, text());
    }

    /** One that says it is 9.15. */
    static Cudnn older(HostCompiler compiler) {
        return of(compiler, text().replace("return 92400;", "return 91500;"));
    }

    /** Its plans, for a handle with a stream. */
    static AttentionPlans plans(HostCompiler compiler) {
        return plans(compiler, 90);
    }

    /** The same on a GPU of another capability. */
    static AttentionPlans plans(HostCompiler compiler, int capability) {
        Cudnn cudnn = of(compiler);
        return new AttentionPlans(cudnn, new AttentionPlans.Target.Handle(cudnn.open(1)), capability);
    }

    private static String text() {
        try (InputStream in = HostCudnn.class.getResourceAsStream(SOURCE)) {
            if (in == null) {
                throw new IllegalStateException("no resource " + SOURCE);
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(SOURCE, e);
        }
    }
}
