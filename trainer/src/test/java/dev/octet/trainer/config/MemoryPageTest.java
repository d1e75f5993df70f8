package dev.octet.trainer.config;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.OctetException;
import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.activation.Kept;
import dev.octet.trainer.activation.Recompute;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** docs/memory.md, its part about activations, against the program and the results that it cites. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MemoryPageTest {
    private static final Path DOCS =
            Path.of(System.getProperty("octet.testdata")).resolveSibling("docs");
    private static final String RESULTS = "../bench/results/2026-11-27-2core-recompute.txt";

    /** Columns of the results after the setting. */
    private static final int LASTING = 0;

    private static final int WITHIN = 1;
    private static final int TWICE = 2;

    private static double together(List<Double> planned) {
        return planned.get(LASTING) + planned.get(WITHIN);
    }

    private static List<String> page() throws IOException {
        return Files.readAllLines(DOCS.resolve("memory.md"));
    }

    /** Cells of the table with this head, row by row. */
    private static List<List<String>> table(String head) throws IOException {
        List<List<String>> rows = page().stream()
                .dropWhile(l -> !l.equals(head))
                .skip(2)
                .takeWhile(l -> l.startsWith("|"))
                .map(l -> Arrays.stream(l.substring(1).split("(?<!\\\\)\\|"))
                        .map(String::strip)
                        .toList())
                .toList();
        assertTrue(!rows.isEmpty(), head);
        return rows;
    }

    private static ActivationSettings read(String lines) {
        String yaml = "data: {train: a}\nloss: {type: mse}\nsteps: 1\noptimizer: {type: adamw}\n" + lines + "\n";
        return TrainingConfig.of(YamlFile.parse(yaml, "c.yaml"), Path.of("")).activations();
    }

    private static Recompute recompute(String keys) {
        return read("gradient_checkpointing: {" + keys + "}").recompute();
    }

    @Test
    void each_row_of_gradient_checkpointing_is_a_setting_and_no_kind_is_missing() throws IOException {
        Set<String> kinds = new TreeSet<>();
        for (List<String> row : table("| key | what backward computes again |")) {
            Recompute read = recompute(row.getFirst().replace("`", "").replace("\\|", "|"));
            kinds.add(read.getClass().getSimpleName()
                    + (read instanceof Recompute.Layers(int n) && n > 1 ? " of several" : ""));
        }
        assertEquals(Set.of("Layers", "Layers of several", "Matching", "Budget"), kinds);
        assertEquals(
                kinds.size(), Recompute.class.getPermittedSubclasses().length, "Layers has two rows, None has none");
        assertThrows(OctetException.class, () -> recompute("layers: all, every: 2"));
        assertThrows(OctetException.class, () -> recompute(""));
    }

    @Test
    void sizes_are_what_it_says() {
        assertEquals(new Recompute.Budget(4_000_000_000L), recompute("budget: 4GB"));
        assertEquals(new Recompute.Budget(4L << 30), recompute("budget: 4GiB"));
        assertEquals(new Recompute.Budget(512_000_000), recompute("budget: 512MB"));
        assertEquals(new Recompute.Budget(123), recompute("budget: 123"));
    }

    @Test
    void the_values_of_activations_are_those_of_the_program_and_keep_is_the_default() throws IOException {
        List<ActivationSettings> all = new ArrayList<>();
        for (List<String> row : table("| value | what is kept between forward and backward |")) {
            all.add(read("activations: " + row.getFirst().replace("`", "")));
        }
        assertEquals(Kept.values().length, Set.copyOf(all).size());
        assertEquals(ActivationSettings.NONE, all.getFirst());
        assertEquals(ActivationSettings.NONE, read(""));
    }

    /** Numbers of the result file's rows, by the row's name. */
    private static Map<String, List<Double>> results() throws IOException {
        Map<String, List<Double>> rows = new LinkedHashMap<>();
        for (String line : Files.readAllLines(DOCS.resolve(RESULTS))) {
            String[] cells = line.split(" {2,}", -1);
            List<Double> numbers = new ArrayList<>();
            for (int i = 1; i < cells.length; i++) {
                String number = cells[i].replaceAll("[,B%MBs ]", "");
                numbers.add(number.matches("[0-9.]+") ? Double.parseDouble(number) : Double.NaN);
            }
            if (numbers.size() >= 4) {
                rows.put(cells[0], numbers);
            }
        }
        return rows;
    }

    private static String mb(double bytes) {
        return String.format(Locale.ROOT, "%.1f MB", bytes / 1e6);
    }

    @Test
    void measured_numbers_are_those_of_the_results() throws IOException {
        Map<String, List<Double>> results = results();
        double plain = requireNonNull(results.get("plain")).get(WITHIN);
        for (List<String> row : table("| setting | values of a micro-batch | of that of plain | computed twice |")) {
            List<Double> measured =
                    requireNonNull(results.get(row.get(0).replace("`", "").replace(" and ", ", ")), row.get(0));
            assertEquals(mb(measured.get(WITHIN)), row.get(1));
            assertEquals(Math.round(100 * measured.get(WITHIN) / plain) + " %", row.get(2));
            assertEquals(measured.get(TWICE), Double.parseDouble(row.get(3).replace(" %", "")), row.get(0));
        }
    }

    @Test
    void planned_numbers_are_those_of_the_results_and_msamp_with_layers_is_below_60_percent_of_bf16()
            throws IOException {
        List<String> names =
                List.of("bf16", "bf16, layers: all", "fp8 delayed, layers: all", "msamp O3", "msamp O3, layers: all");
        List<List<String>> rows = table("| setting | lasts | within a step | together | of BF16 |");
        assertEquals(names.size(), rows.size());
        Map<String, List<Double>> results = results();
        double bf16 = together(requireNonNull(results.get("bf16")));
        for (int i = 0; i < names.size(); i++) {
            List<Double> planned = requireNonNull(results.get(names.get(i)), names.get(i));
            List<String> row = rows.get(i);
            assertEquals(
                    List.of(mb(planned.get(LASTING)), mb(planned.get(WITHIN)), mb(together(planned))),
                    row.subList(1, 4));
            assertEquals(Math.round(100 * together(planned) / bf16) + " %", row.get(4));
        }
        assertTrue(together(requireNonNull(results.get("msamp O3, layers: all"))) < 0.6 * bf16);
    }
}
