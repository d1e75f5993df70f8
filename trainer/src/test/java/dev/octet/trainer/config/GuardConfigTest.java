package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Limit;
import dev.octet.trainer.config.GuardConfig.Trigger;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GuardConfigTest {
    private static final String RUN = """
        data: {train: a.npz}
        loss: {type: mse}
        steps: 9
        """;
    private static final String FP8 = RUN + "precision: {mode: fp8}\n";

    private static TrainingConfig config(String yaml) {
        return TrainingConfig.of(YamlFile.parse(yaml, "c.yaml"), Path.of("runs"));
    }

    private static GuardConfig guard(String yaml) {
        return config(yaml).guard();
    }

    @Test
    void every_key_has_a_default() {
        GuardConfig g = guard(FP8 + "guard: {}\n");
        assertTrue(g.watchesProducts());
        assertEquals(10, g.every());
        assertEquals(List.of(Level.CURRENT, Level.HIGH_PRECISION), g.demote());
        assertEquals(100, g.quiet());
        assertEquals(1600, g.maxQuiet());
        for (Trigger t : Trigger.values()) {
            assertTrue(g.limit(t).promote() < g.limit(t).demote(), t.key());
        }
        assertTrue(g.spike().isEmpty(), "a snapshot takes memory, so it is asked for");
    }

    @Test
    void a_recipe_without_delayed_scales_goes_down_to_high_precision_at_once() {
        assertEquals(
                List.of(Level.HIGH_PRECISION),
                guard(RUN + "precision: {mode: fp8, recipe: current}\nguard: {}\n")
                        .demote());
    }

    @Test
    void a_limit_keeps_its_other_half_in_proportion() {
        GuardConfig g =
                guard(FP8 + "guard: {clipped: {demote: 0.2}, amax_jump: {demote: 1.5}, cast_error: {promote: 0.2}}\n");
        assertEquals(new Limit(0.2, 0.001), g.clipped());
        assertEquals(new Limit(1.5, 0.75), g.amaxJump());
        assertEquals(new Limit(0.25, 0.2), g.castError());
    }

    @Test
    void a_run_without_the_key_has_the_settings_it_always_had() {
        TrainingConfig bare = config(FP8);
        assertFalse(bare.guard().isOn());
        assertTrue(Settings.of(bare).keySet().stream().noneMatch(k -> k.startsWith("guard")));
        assertEquals("100", Settings.of(config(FP8 + "guard: {}\n")).get("guard.quiet"));
        assertEquals("3", Settings.of(config(FP8 + "guard: {spike: {}}\n")).get("guard.spike.retries"));
    }

    @Test
    void a_run_in_another_precision_is_guarded_against_spikes() {
        GuardConfig g = guard(RUN + "precision: {mode: bf16}\nguard: {spike: {loss: 5}}\n");
        assertFalse(g.watchesProducts());
        assertEquals(5, g.spike().orElseThrow().loss());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "fp8 | {clipped: {demote: 0.01, promote: 0.02}} | guard.clipped.promote | would be demoted again",
                "fp8 | {clipped: {demote: 0.01, promote: 0.01}} | guard.clipped.promote | would be demoted again",
                "fp8 | {clipped: {demote: 0}} | guard.clipped.demote | would be demoted again",
                "fp8 | {quiet: 0} | guard.quiet | out of range",
                "fp8 | {quiet: 5} | guard.quiet | before it is measured again",
                "fp8 | {every: 20, quiet: 10} | guard.quiet | before it is measured again",
                "fp8 | {max_quiet: 50} | guard.max_quiet | below quiet",
                "fp8 | {demote: []} | guard.demote | no level is left",
                "fp8 | {demote: [bf16]} | guard.demote | unknown level 'bf16'",
                "fp8 | {demote: [high_precision, current]} | guard.demote | not below",
                "fp8, recipe: current | {demote: [current, high_precision]} | guard.demote | no delayed scale",
                "bf16 | {} | guard.spike | casts nothing to FP8",
                "bf16 | {every: 10, spike: {}} | guard.every | casts nothing to FP8",
                "fp32 | {clipped: {demote: 0.5}} | guard.clipped | casts nothing to FP8",
                "fp8 | {spike: {loss: 0, grad_norm: 0}} | guard.spike.loss | neither",
                "fp8 | {spike: {retries: 0}} | guard.spike.retries | out of range",
                "fp8 | {replay: a.jsonl, quiet: 100} | guard.quiet | measures nothing",
                "fp8 | {replay: a.jsonl, spike: {}} | guard.spike | measures nothing",
                "fp8 | {clip: 1} | guard.clip | unknown key",
            })
    void rules_that_contradict_each_other_are_refused_with_their_line(
            String mode, String guard, String key, String what) {
        String yaml = RUN + "precision: {mode: " + mode + "}\nguard: " + guard + "\n";
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> config(yaml));
        assertTrue(e.what().contains(what), e.what());
        assertEquals("c.yaml, line 5, key " + key, e.where());
        assertFalse(e.fix().isEmpty());
    }

    @Test
    void a_run_that_stops_at_numbers_that_are_not_finite_cannot_also_go_back() {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> config(FP8 + "on_non_finite: stop\nguard: {spike: {}}\n"));
        assertTrue(e.where().contains("line 5, key on_non_finite"), e.where());
    }

    @Test
    void the_page_lists_every_key_with_its_default() throws IOException {
        Path page = Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/training.md");
        List<String> rows = Files.readAllLines(page).stream()
                .dropWhile(l -> !l.startsWith("## Guard rails"))
                .dropWhile(l -> !l.startsWith("| key |"))
                .skip(2)
                .takeWhile(l -> l.startsWith("|"))
                .toList();
        StringBuilder yaml = new StringBuilder("guard: {");
        Set<String> keys = new TreeSet<>();
        for (String row : rows) {
            String[] cells = row.split("\\|", -1);
            List<String> names = Arrays.stream(cells[1].replace("`", "").split(","))
                    .map(String::strip)
                    .toList();
            keys.addAll(names);
            String value = cells[2].strip();
            if (names.size() == 1 && value.startsWith("`")) {
                yaml.append(names.getFirst())
                        .append(": ")
                        .append(value.replace("`", ""))
                        .append(", ");
            } else if (value.matches("[0-9, ]+")) {
                String[] values = value.split(",", -1);
                for (int i = 0; i < names.size(); i++) {
                    yaml.append(names.get(i))
                            .append(": ")
                            .append(values[i].strip())
                            .append(", ");
                }
            }
        }
        GuardConfig documented = guard(FP8 + yaml.substring(0, yaml.length() - 2) + "}\n");
        assertEquals(guard(FP8 + "guard: {}\n"), documented);
        Set<String> read = new TreeSet<>();
        Settings.of(config(FP8 + "guard: {}\n")).keySet().stream()
                .filter(k -> k.startsWith("guard."))
                .forEach(k -> read.add(k.split("\\.", -1)[1]));
        assertEquals(read, keys);
    }

    @Test
    void a_guard_does_not_change_what_debug_has_fixed() {
        String debug = "debug: {all: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {FakeQuant:"
                + " {enabled: true, gemms: [fprop], tensors: [activation], quant_format: FP8E4M3}}}}\n";
        assertFalse(config(FP8 + debug).guard().isOn());
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> config(FP8 + debug + "guard: {}\n"));
        assertTrue(e.what().contains("debug fixes how products are computed"), e.what());
        assertEquals("c.yaml, line 6, key guard", e.where());
    }
}
