package dev.octet.trainer.device.cuda;

import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.opentest4j.TestAbortedException;

/** What of CUDA this machine has for tests that need no GPU. A test that needs what is not there is skipped and says why. */
final class Installed {
    private static final KernelCompilers COMPILERS = KernelCompilers.of(CudaLibraries.ANY_MAJOR);

    private Installed() {}

    /** nvrtc, else nvcc. */
    static KernelCompiler compiler() {
        return COMPILERS.compiler().orElseThrow(() -> skip("no compiler of CUDA: " + COMPILERS.tried()));
    }

    /** Both, or one. */
    static List<KernelCompiler> compilers() {
        Optional<Nvcc> nvcc = Nvcc.find(Nvcc.places(System.getenv(), Path.of("/")));
        KernelCompiler first = compiler();
        return first instanceof Nvcc || nvcc.isEmpty() ? List.of(first) : List.of(first, nvcc.get());
    }

    /** A library of any major version. */
    static LoadedLibrary library(CudaLibrary library) {
        return switch (CudaLibraries.ofSystem().find(library)) {
            case LibrarySearch.Found f -> f.loaded();
            case LibrarySearch.Absent a -> throw skip(a.what());
        };
    }

    /** Prints why, for the log of a build that is not stopped by it. */
    static TestAbortedException skip(String why) {
        System.out.println("skipped: " + why);
        return new TestAbortedException(why);
    }
}
