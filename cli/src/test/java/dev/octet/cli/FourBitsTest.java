package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What {@code octet quantize} says where a consumer has no codes of four bits, or a weight no whole groups; runs in mode {@code qat} are tried in {@link QatExportTest}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FourBitsTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models");

    @TempDir
    Path folder;

    private CommandLine quantize(Path model, String out, String... words) {
        String[] all = new String[words.length + 4];
        all[0] = "quantize";
        all[1] = model.toString();
        all[2] = "-o";
        all[3] = folder.resolve(out).toString();
        System.arraycopy(words, 0, all, 4, words.length);
        return CommandLine.run(all);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "int4 | modelopt | do not know int4; compressed-tensors does",
                "int4 | fp8 | not int4; compressed-tensors does",
                "int4-asymmetric | modelopt | do not know int4-asymmetric; compressed-tensors does"
            })
    void integers_of_four_bits_are_refused_for_readers_of_checkpoints_without_them(
            String recipe, String target, String why) {
        CommandLine line = quantize(MODELS.resolve("tiny-lm/llama"), "out", "--recipe", recipe, "--target", target);
        assertEquals(ExitCode.USAGE, line.code(), line.err());
        assertTrue(line.err().contains(why), line.err());
        assertTrue(line.err().contains("choose one of the targets compressed-tensors"), line.err());
        assertTrue(Files.notExists(folder.resolve("out")));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "int4-int8 | with inputs in floats alone | --recipe int4-weight-only or int8",
                "int4-asymmetric | no zero points of weights | --recipe int4-weight-only"
            })
    void integers_of_four_bits_are_refused_for_engines_without_them_before_anything_is_measured(
            String recipe, String why, String fix) throws IOException {
        Path samples = TinyBert.samples(folder.resolve("samples.npz"), 4, 1);
        CommandLine line = quantize(
                TinyBert.MODEL,
                "m.onnx",
                "--recipe",
                recipe,
                "--target",
                "tensorrt",
                "--calibration",
                samples.toString());
        assertEquals(ExitCode.USAGE, line.code(), line.err());
        assertTrue(line.err().contains(why), line.err());
        assertTrue(line.err().contains(fix), line.err());
        assertFalse(line.err().contains("calibrating"), line.err());
        assertTrue(Files.notExists(folder.resolve("m.onnx")));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "int4 | out | 24 inputs are no multiple of 32, the size of a block",
                "nvfp4 | out | 24 inputs are no multiple of 16, the size of a block",
                "int4-weight-only | m.onnx | its 24 inputs do not divide into groups of 32"
            })
    void a_weight_that_groups_do_not_divide_stays_in_floats_with_the_reason(String recipe, String out, String why) {
        Path model = MODELS.resolve("tiny-hf/gemma");
        CommandLine line = recipe.equals("int4")
                ? quantize(model, out, "--recipe", recipe, "--group-size", "32")
                : out.endsWith(".onnx")
                        ? quantize(model, out, "--recipe", recipe, "--target", "onnxruntime")
                        : quantize(model, out, "--recipe", recipe);
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.out().contains(why), line.out());
        assertTrue(Files.exists(folder.resolve(out)));
    }

    @Test
    void a_checkpoint_of_whose_weights_groups_divide_none_is_refused() {
        CommandLine line = quantize(MODELS.resolve("tiny-hf/qwen2"), "out", "--recipe", "int4");
        assertEquals(ExitCode.INPUT, line.code(), line.err());
        assertTrue(line.err().contains("32 inputs are no multiple of 128, the size of a block (12)"), line.err());
        assertTrue(Files.notExists(folder.resolve("out")));
    }
}
