package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.OctetException;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** docs/adapters.md against the program. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AdapterPageTest {
    @Test
    void its_table_has_exactly_the_keys_that_are_read() throws IOException {
        Path page = Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/adapters.md");
        Set<String> listed = new TreeSet<>(Files.readAllLines(page).stream()
                .dropWhile(l -> !l.equals("| key | default | what |"))
                .skip(2)
                .takeWhile(l -> l.startsWith("| `"))
                .map(l -> l.substring(3, l.indexOf('`', 3)))
                .toList());
        Set<String> read = new TreeSet<>();
        for (String type : List.of("LORA", "IA3", "LN_TUNING", "BITFIT", "BOTTLENECK")) {
            OctetException e = assertThrows(
                    OctetException.class,
                    () -> TrainingConfig.of(
                            YamlFile.parse(
                                    "data: {train: a}\nloss: {type: mse}\nsteps: 1\nadapter: {peft_type: " + type
                                            + ", qqqqqqqqqqqq: 1}\n",
                                    "c.yaml"),
                            Path.of("runs")));
            String valid = e.fix().substring(e.fix().indexOf("valid: ") + "valid: ".length());
            read.addAll(List.of(valid.split(", ")));
        }
        assertEquals(read, listed);
    }
}
