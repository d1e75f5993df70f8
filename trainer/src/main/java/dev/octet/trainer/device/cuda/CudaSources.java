package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.op.Ops;
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
 * All kernel sources in Octet's resources. A source that is compiled with macros lists its variants in comments, {@code // variants:
 * HEAD=64; HEAD=128 CAUSAL=1}; a source without such a comment is compiled once, without macros.
 */
final class CudaSources {
    private static final String VARIANTS = "// variants:";

    /** Resource folder of this module. */
    private static final String ROOT = "/dev/octet/trainer/";

    private CudaSources() {}

    /**
     * Every variant of every source, sorted by name.
     *
     * @throws IOException when the resources cannot be listed
     */
    static List<CudaSource> all() throws IOException {
        List<CudaSource> sources = new ArrayList<>();
        for (String name : names()) {
            CudaSource plain = CudaSource.of(CudaSource.class, name);
            String file = name.substring(name.lastIndexOf('/') + 1);
            sources.addAll(variants(Ops.WRITTEN_SOURCES.stream()
                    .filter(s -> s.file().equals(file))
                    .findFirst()
                    .orElse(plain)));
        }
        return sources;
    }

    /** The variants that a source lists. */
    static List<CudaSource> variants(CudaSource plain) {
        List<CudaSource> variants = plain.text()
                .lines()
                .filter(l -> l.startsWith(VARIANTS))
                .flatMap(l -> Stream.of(l.substring(VARIANTS.length()).split(";", -1)))
                .map(v -> plain.with(macros(v.strip())))
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
        // the prelude always exists, so its URL shows where resources are: a folder, a jar or a JDK image
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
