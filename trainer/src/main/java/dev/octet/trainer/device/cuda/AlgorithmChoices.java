package dev.octet.trainer.device.cuda;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.PrivateFolder;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * Cache of the fastest algorithm measured for each product: one JSON file per GPU model and cublasLt version. A damaged file counts as
 * empty; a file that cannot be written is logged once.
 */
final class AlgorithmChoices {
    private static final System.Logger LOG = System.getLogger(AlgorithmChoices.class.getName());
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long MAX_BYTES = 16L << 20;

    private final Path file;
    private final String gpu;
    private final String version;
    private final Map<String, Choice> choices;
    private boolean warned;

    /**
     * A measured algorithm.
     *
     * @param algorithm the library's descriptor in hexadecimal, valid for the same library version
     * @param microseconds time of one product
     * @param candidates number of algorithms measured
     * @param clock of the multiprocessors behind the measurement, in MHz; 0 when it was not known
     */
    record Choice(String algorithm, double microseconds, int candidates, int clock) {}

    AlgorithmChoices(Path folder, String gpu, String version) {
        this.gpu = gpu;
        this.version = version;
        this.file = folder.resolve("cublaslt-" + version + "-"
                + gpu.replaceAll("[^A-Za-z0-9]+", "-").toLowerCase(Locale.ROOT) + ".json");
        this.choices = read();
    }

    /** The cached choice for a product. */
    Optional<Choice> get(String product) {
        return Optional.ofNullable(choices.get(product));
    }

    /** Caches a choice, and keeps choices that other processes wrote in the meantime. */
    void put(String product, Choice choice) {
        choices.put(product, choice);
        Map<String, Choice> all = read();
        all.putAll(choices);
        write(all);
    }

    private Map<String, Choice> read() {
        Map<String, Choice> read = new LinkedHashMap<>();
        try {
            openFolder(); // rejects a folder that others can write to
            if (!Files.isRegularFile(file) || Files.size(file) > MAX_BYTES) {
                return read;
            }
            JsonNode root = JSON.readTree(Files.readAllBytes(file));
            if (!root.path("gpu").asText().equals(gpu)
                    || !root.path("cublasLt").asText().equals(version)) {
                return read;
            }
            for (Map.Entry<String, JsonNode> e : root.path("choices").properties()) {
                choice(e.getValue()).ifPresent(c -> read.put(e.getKey(), c));
            }
            return read;
        } catch (IOException e) {
            return new LinkedHashMap<>(); // not JSON or not readable: measure again
        }
    }

    private void openFolder() throws IOException {
        Path folder = file.toAbsolutePath().getParent();
        if (folder != null) {
            PrivateFolder.open(folder);
        }
    }

    private static Optional<Choice> choice(JsonNode node) {
        String hex = node.path("algorithm").asText();
        // a choice without a clock was timed on a GPU that idled before: measure again
        if (!node.path("clock").isInt() || !hex.matches("[0-9a-f]{" + 2 * CublasLt.ALGORITHM_BYTES + "}")) {
            return Optional.empty();
        }
        return Optional.of(new Choice(
                hex,
                node.path("microseconds").asDouble(),
                node.path("candidates").asInt(),
                node.path("clock").asInt()));
    }

    private void write(Map<String, Choice> all) {
        ObjectNode root = JSON.createObjectNode();
        root.put("gpu", gpu);
        root.put("cublasLt", version);
        ObjectNode nodes = root.putObject("choices");
        all.forEach((product, choice) -> nodes.putObject(product)
                .put("algorithm", choice.algorithm())
                .put("microseconds", choice.microseconds())
                .put("candidates", choice.candidates())
                .put("clock", choice.clock()));
        try {
            openFolder();
            try (AtomicFile out = AtomicFile.create(file)) {
                out.write(ByteBuffer.wrap(JSON.writerWithDefaultPrettyPrinter()
                        .writeValueAsString(root)
                        .getBytes(StandardCharsets.UTF_8)));
                out.commit();
            }
        } catch (IOException e) {
            if (!warned) {
                warned = true;
                LOG.log(
                        System.Logger.Level.WARNING,
                        "measured algorithms cannot be cached, so each start measures them again: {0}; octet.cache or"
                                + " XDG_CACHE_HOME names another folder",
                        e.toString());
            }
        }
    }
}
