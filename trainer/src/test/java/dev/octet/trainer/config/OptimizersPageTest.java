package dev.octet.trainer.config;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.optimizer.ScheduleOption;
import dev.octet.trainer.optimizer.ScheduleType;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** docs/optimizers.md against the program. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OptimizersPageTest {
    private static final Pattern CODE = Pattern.compile("`([A-Za-z_0-9]+)`");

    /** Cells of the rows behind a section's heading that begin with one name in code. */
    private static Map<String, List<String>> rows(String heading) throws IOException {
        Path page = Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/optimizers.md");
        Map<String, List<String>> rows = new LinkedHashMap<>();
        Files.readAllLines(page).stream()
                .dropWhile(l -> !l.equals(heading))
                .skip(1)
                .takeWhile(l -> !l.startsWith("## ") && !l.startsWith("### "))
                .filter(l -> l.matches("\\| `[A-Za-z_]+` \\|.*") && !l.startsWith("| `type` |"))
                .map(l -> Arrays.stream(l.split("\\|")).map(String::strip).toList())
                .forEach(cells -> rows.put(cells.get(1).replace("`", ""), cells));
        return rows;
    }

    private static Set<String> names(String cell) {
        Set<String> names = new TreeSet<>();
        Matcher m = CODE.matcher(cell);
        while (m.find()) {
            names.add(m.group(1));
        }
        return names;
    }

    private static double number(String cell) {
        return Double.parseDouble(cell.split("[ ,]", -1)[0]);
    }

    @Test
    void it_has_every_optimizer_with_its_keys_and_defaults() throws IOException {
        Map<String, List<String>> rows = rows("## Optimizers");
        Set<String> types = new TreeSet<>();
        for (OptimizerConfig.Type type : OptimizerConfig.Type.values()) {
            types.add(type.key());
            List<String> cells = requireNonNull(rows.get(type.key()), type.key());
            OptimizerConfig config = TrainingConfig.of(
                            YamlFile.parse(
                                    "data: {train: a}\nloss: {type: mse}\nsteps: 1\noptimizer: {type: " + type.key()
                                            + "}\n",
                                    "c"),
                            Path.of(""))
                    .optimizer();
            assertEquals(config.lr(), number(cells.get(4)), type.key());
            assertEquals(config.weightDecay(), number(cells.get(5)), type.key());
            assertEquals(OptimizerConfig.KEYS.get(type), names(cells.get(6)), type.key());
            OperandType matrix = new OperandType(DType.F32, Shape.of(1024, 1024));
            double bytes = config.optimizer().memory(matrix).values().stream()
                            .mapToLong(OperandType::byteSize)
                            .sum()
                    / (double) matrix.count();
            assertEquals(bytes, number(cells.get(3)), 0.005, type.key());
        }
        assertEquals(types, rows.keySet());
    }

    @Test
    void it_has_every_schedule_with_its_options() throws IOException {
        Map<String, List<String>> rows = rows("## Schedules");
        assertEquals(ScheduleType.byName().keySet(), new TreeMap<>(rows).keySet());
        Set<String> values = Set.of("lr", "linear", "cosine", "log");
        rows.forEach((name, cells) -> {
            ScheduleType type = requireNonNull(ScheduleType.byName().get(name));
            Set<String> written = cells.size() > 3 ? names(cells.get(3)) : new TreeSet<>();
            written.removeAll(values);
            Set<String> options = new TreeSet<>();
            type.options().forEach(o -> options.add(o.name()));
            assertEquals(options, written, name);
        });
    }

    @Test
    void defaults_of_options_are_those_of_the_schedule() throws IOException {
        for (Map.Entry<String, List<String>> row : rows("## Schedules").entrySet()) {
            ScheduleType type = requireNonNull(ScheduleType.byName().get(row.getKey()));
            for (ScheduleOption o : type.options()) {
                Matcher m = Pattern.compile("`" + o.name() + "` (?:[a-z] = )?([0-9.e-]+)")
                        .matcher(row.getValue().get(3));
                if (m.find()) {
                    assertEquals(
                            Double.parseDouble(o.fallback().orElseThrow()),
                            Double.parseDouble(m.group(1)),
                            row.getKey() + " " + o.name());
                }
            }
        }
    }
}
