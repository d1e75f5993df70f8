package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** docs/states.md against the program. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StatesPageTest {
    private static List<String> page() throws IOException {
        return Files.readAllLines(Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/states.md"));
    }

    private static Map<String, String> settings(String keys) {
        String yaml = "data: {train: a}\nloss: {type: mse}\nsteps: 1\noptimizer: {states: {" + keys + "}}\n";
        return Settings.of(TrainingConfig.of(YamlFile.parse(yaml, "c.yaml"), Path.of("")));
    }

    @Test
    void its_table_has_exactly_the_keys_of_each_engine_with_their_defaults() throws IOException {
        Map<String, String> listed = new TreeMap<>();
        page().stream()
                .dropWhile(l -> !l.equals("| key | engine | default | what |"))
                .skip(2)
                .takeWhile(l -> l.startsWith("| `"))
                .map(l -> l.split("\\|"))
                .filter(cells -> !cells[2].equals(" all "))
                .forEach(cells -> {
                    for (String key : cells[1].replace("`", "").split(",", -1)) {
                        listed.put(
                                cells[2].replace("`", "").strip() + "." + key.strip(),
                                cells[3].replace("`", "").strip());
                    }
                });
        Map<String, String> read = new TreeMap<>();
        for (String engine : List.of("msamp", "te", "torchao", "bf16")) {
            settings("engine: " + engine).forEach((key, value) -> {
                String prefix = "optimizer.states.";
                if (key.startsWith(prefix) && !key.endsWith(".engine")) {
                    read.put(engine + "." + key.substring(prefix.length()), value);
                }
            });
        }
        assertEquals(read, listed);
    }

    @Test
    void its_example_is_a_configuration() throws IOException {
        List<String> lines =
                page().stream().filter(l -> l.startsWith("optimizer: {")).toList();
        assertTrue(!lines.isEmpty());
        for (String line : lines) {
            assertTrue(line.length() <= 100, line);
            TrainingConfig.of(
                    YamlFile.parse("data: {train: a}\nloss: {type: mse}\nsteps: 1\n" + line + "\n", "c.yaml"),
                    Path.of(""));
        }
    }
}
