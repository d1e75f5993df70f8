package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * The available compiler: nvrtc if found, else nvcc.
 *
 * @param compiler empty when neither was found
 * @param place path of its file; empty without a compiler
 * @param tried everything tried without success
 */
record KernelCompilers(Optional<KernelCompiler> compiler, String place, List<String> tried) {
    /** System property: {@code nvcc} where nvrtc is to be left aside, for a cache of kernels that nvcc compiled. */
    static final String SETTING = "octet.cuda.compiler";

    /**
     * Searches for a compiler.
     *
     * @param newestMajor newest CUDA major version that the driver supports
     */
    static KernelCompilers of(int newestMajor) {
        return of(CudaLibraries.ofSystem(), System.getenv(), newestMajor);
    }

    static KernelCompilers of(CudaLibraries libraries, Map<String, String> environment, int newestMajor) {
        List<String> tried = new ArrayList<>();
        if (!System.getProperty(SETTING, "").equals("nvcc")) {
            Optional<KernelCompilers> nvrtc = nvrtc(libraries, newestMajor, tried);
            if (nvrtc.isPresent()) {
                return nvrtc.get();
            }
        }
        return nvcc(environment, tried);
    }

    private static Optional<KernelCompilers> nvrtc(CudaLibraries libraries, int newestMajor, List<String> tried) {
        switch (libraries.find(CudaLibrary.NVRTC, newestMajor)) {
            case LibrarySearch.Found f -> {
                try {
                    return Optional.of(new KernelCompilers(
                            Optional.of(Nvrtc.of(f.loaded())), f.loaded().path(), List.of()));
                } catch (UnavailableException e) {
                    tried.add(e.what() + ": " + e.where());
                }
            }
            case LibrarySearch.Absent a -> tried.add(a.what() + ": " + a.where());
        }
        return Optional.empty();
    }

    private static KernelCompilers nvcc(Map<String, String> environment, List<String> tried) {
        List<Path> places = Nvcc.places(environment, Path.of("/"));
        Optional<Nvcc> nvcc = Nvcc.find(places);
        if (nvcc.isPresent()) {
            return new KernelCompilers(
                    nvcc.map(KernelCompiler.class::cast), nvcc.get().program().toString(), tried);
        }
        tried.add("nvcc was not found: tried "
                + places.stream().map(Path::toString).distinct().collect(Collectors.joining(", ")));
        return new KernelCompilers(Optional.empty(), "", tried);
    }

    /** One line for the user. */
    String text() {
        return compiler.map(c -> c.version() + ", " + place)
                .or(() -> PrebuiltKernels.version().map(v -> "none; kernels prebuilt by " + v))
                .orElse("none");
    }
}
