package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.MsampScale;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.config.PrecisionConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.StatePlan;
import dev.octet.trainer.precision.MsampPolicy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** docs/msamp.md against the program. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MsampPageTest {
    private static String page() throws IOException {
        return Files.readString(Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/msamp.md"));
    }

    private static TrainingParts parts(String precision) {
        return StackRun.wide(2)
                .with("gradient_accumulation: 2", "precision: {mode: msamp" + precision + "}")
                .parts();
    }

    private static PrecisionConfig precision(String keys) {
        return parts(keys).config().precision();
    }

    @Test
    void its_example_is_a_configuration() throws IOException {
        MatchResult yaml = Pattern.compile("```yaml\\n(.*?)```", Pattern.DOTALL)
                .matcher(page())
                .results()
                .findFirst()
                .orElseThrow();
        List<String> lines = new ArrayList<>(Arrays.asList(yaml.group(1).strip().split("\n")));
        assertEquals(
                MsampPolicy.Level.O2,
                ((MsampPolicy) SmallRun.parts(SmallRun.with(lines.toArray(String[]::new)))
                                .config()
                                .precision()
                                .policy())
                        .level());
    }

    @Test
    void its_defaults_are_those_of_the_program() throws IOException {
        List<MatchResult> rows = Pattern.compile("(?m)^\\| `(\\w+)` \\| `([\\w-]+)`")
                .matcher(page())
                .results()
                .toList();
        List<String> seen = new ArrayList<>();
        for (MatchResult row : rows) {
            String key = row.group(1);
            boolean ofRanks = key.equals("gradient_reduction") || key.equals("auto_scale");
            String others = ofRanks ? ", ranks: 2" : "";
            if (Pattern.matches("opt_level|base|use_te|ranks|compat|gradient_reduction|auto_scale", key)) {
                seen.add(key);
                assertEquals(precision(others), precision(others + ", " + key + ": " + row.group(2)), key);
            }
        }
        assertTrue(
                seen.containsAll(List.of("opt_level", "base", "use_te", "ranks", "gradient_reduction", "compat")),
                seen::toString);
    }

    @ParameterizedTest
    @CsvSource({"O1, 11, 0", "O2, 6, 0", "O3, 6, 1"})
    void its_bytes_of_a_parameter_are_those_of_a_run(String level, double kept, double weight) throws IOException {
        assertTrue(Pattern.compile("(?m)^\\| `" + level + "` .*\\| " + (int) kept + "(,| \\|)")
                .matcher(page())
                .find());
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(parts(", opt_level: " + level), device)) {
            StatePlan plan = trainer.plan().states().orElseThrow();
            assertTrue(plan.engine().contains("opt_level: " + level), plan.engine());
            // biases and norms have weights and gradients in F32
            assertEquals(kept, plan.each(plan.masters() + plan.gradients() + plan.moments()), 0.05);
            assertEquals(weight, plan.each(plan.weights()), 0.05);
        }
    }

    @Test
    void its_numbers_of_scales_are_those_of_the_rules() throws IOException {
        String page = page();
        assertTrue(page.contains("max being 448 (E4M3), 57344 (E5M2) or 65504 (F16)"));
        assertEquals(448, Float8Format.E4M3FN.maxValue());
        assertEquals(57344, Float8Format.E5M2.maxValue());
        assertEquals(0x1p7f, MsampScale.MENDED.quantScale(3.5f, 1, 448));
        assertTrue(
                page.contains("first " + WindowedScale.SIZE + " steps") && page.contains("last " + WindowedScale.SIZE));
        assertTrue(page.contains("scales end at 2^126"));
        assertEquals(0x1p126f, MsampScale.MENDED.quantScale(0x1p-149f, 1, 448));
        assertTrue(page.contains("| infinite amax | keeps the scale | gives its reciprocal |"));
        assertEquals(8, MsampScale.MENDED.quantScale(Float.POSITIVE_INFINITY, 8, 448));
        assertEquals(0.125f, MsampScale.ORIGINAL.quantScale(Float.POSITIVE_INFINITY, 8, 448));
    }
}
