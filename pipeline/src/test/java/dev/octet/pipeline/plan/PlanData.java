package dev.octet.pipeline.plan;

import dev.octet.converter.hf.TransformerSizes;
import dev.octet.formats.checkpoint.ModelConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** What {@code testdata/golden/plan} holds: configurations of published models, and what is known of them. */
final class PlanData {
    static final Path FOLDER = Path.of(System.getProperty("octet.testdata"), "golden/plan");

    private PlanData() {}

    /** The sizes of a published model. */
    static TransformerSizes sizes(String model) throws IOException {
        return TransformerSizes.of(
                ModelConfig.read(FOLDER.resolve("configs"), model + ".json").orElseThrow(), model);
    }

    /** The cells of the rows of a file. */
    static List<String[]> rows(String file) throws IOException {
        return Files.readAllLines(FOLDER.resolve(file)).stream()
                .filter(l -> !l.startsWith("#"))
                .map(l -> l.split(" \\| ", -1))
                .toList();
    }

    /** {@code key=value} by spaces. */
    record Setting(Map<String, Integer> values) {
        static Setting of(String text) {
            Map<String, Integer> all = new LinkedHashMap<>();
            for (String part : text.split(" ", -1)) {
                if (part.contains("=")) {
                    all.put(part.split("=", 2)[0], Integer.parseInt(part.split("=", 2)[1]));
                }
            }
            return new Setting(all);
        }

        int get(String key) {
            return Objects.requireNonNull(values.get(key), key);
        }
    }
}
