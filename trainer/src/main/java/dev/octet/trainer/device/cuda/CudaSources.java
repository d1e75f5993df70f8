package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.URL;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * All sources of kernels that came with Octet, found as resources. A source that is compiled with macros names the sets of them in comments of
 * its own, {@code // variants: HEAD=64; HEAD=128 CAUSAL=1}; one that names none is compiled without.
 */
final class CudaSources {
    private static final String VARIANTS = "// variants:";

    /** Folder of all resources of this module. */
    private static final String ROOT = "/dev/octet/trainer/";

    private CudaSources() {}

    /**
     * Every source with every set of macros, in order of their names.
     *
     * @throws IOException when the resources cannot be listed
     */
    static List<CudaSource> all() throws IOException {
        List<CudaSource> sources = new ArrayList<>();
        for (String name : names()) {
            sources.addAll(variants(CudaSource.of(CudaSource.class, name)));
        }
        return sources;
    }

    /** The sets of macros that a source names. */
    static List<CudaSource> variants(CudaSource plain) {
        List<CudaSource> variants = plain.text()
                .lines()
                .filter(l -> l.startsWith(VARIANTS))
                .flatMap(l -> Stream.of(l.substring(VARIANTS.length()).split(";", -1)))
                .map(v -> new CudaSource(plain.beside(), plain.file(), macros(v.strip())))
                .toList();
        return variants.isEmpty() ? List.of(plain) : variants;
    }

    private static Map<String, String> macros(String text) {
        Map<String, String> macros = new TreeMap<>();
        for (String word : text.split("\\s+", -1)) {
            int equals = word.indexOf('=');
            if (equals > 0) {
                macros.put(word.substring(0, equals), word.substring(equals + 1));
            }
        }
        return macros;
    }

    private static List<String> names() throws IOException {
        // the prelude is there in any case, so its address tells where resources lie: a folder, a jar, an image of the
        // JDK
        URL prelude = CudaSource.class.getResource(CudaSource.PRELUDE);
        if (prelude == null) {
            throw new IOException("no resource " + CudaSource.PRELUDE);
        }
        try {
            URI uri = prelude.toURI();
            if (uri.getScheme().equals("jar")) {
                try (FileSystem jar = FileSystems.newFileSystem(uri, Map.of())) {
                    return below(jar.getPath(ROOT));
                }
            }
            return below(parent(parent(Path.of(uri))));
        } catch (URISyntaxException e) {
            throw new IOException("resources cannot be listed at " + prelude, e);
        }
    }

    private static List<String> below(Path root) throws IOException {
        try (Stream<Path> files = Files.walk(root)) {
            return files.filter(f -> f.toString().endsWith(".cu"))
                    .map(f -> ROOT + root.relativize(f).toString().replace('\\', '/'))
                    .sorted()
                    .toList();
        }
    }

    private static Path parent(Path path) throws IOException {
        Path parent = path.getParent();
        if (parent == null) {
            throw new IOException("resources cannot be listed next to " + path);
        }
        return parent;
    }
}
