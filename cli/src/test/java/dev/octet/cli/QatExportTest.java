package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code octet export} of runs in mode {@code qat}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QatExportTest {
    private static final String INT8 =
            "{mode: qat, weights: {format: int8, narrow_range: true}, inputs: {format: int8}}";

    @TempDir
    Path folder;

    private Path train(String precision) throws IOException {
        TinyBert.samples(folder.resolve("train.npz"), 24, 1);
        TinyBert.samples(folder.resolve("eval.npz"), 6, 2);
        Path config = folder.resolve("run.yaml");
        Files.writeString(config, """
            data: {train: train.npz, eval: eval.npz}
            loss: {type: mse, output: logits, distillation: {teacher: '%s'}}
            batch_size: 8
            steps: 6
            optimizer: {lr: 1.0e-3}
            precision: %s
            """.formatted(TinyBert.MODEL, precision));
        Path run = folder.resolve("run");
        CommandLine line = CommandLine.run(
                "train", TinyBert.MODEL.toString(), "--config", config.toString(), "-o", run.toString());
        assertEquals(ExitCode.OK, line.code(), line.err());
        return run;
    }

    private CommandLine export(Path run, String target, Path out) {
        return CommandLine.run("export", run.toString(), "-o", out.toString(), "--target", target, "--json");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                INT8 + " | onnxruntime | int8",
                INT8 + " | compressed-tensors | int8",
                "{mode: qat, weights: {format: int8, narrow_range: true}, inputs: {method: dynamic, variant:"
                        + " zero_point, format: int8}} | compressed-tensors | int8",
                "{mode: qat, weights: {format: int8}, inputs: {method: dynamic, variant: zero_point, format: uint8,"
                        + " granularity: tensor}} | onnxruntime | int8-dynamic",
                "{mode: qat, weights: {format: int8}} | onnxruntime | int8-weight-only",
                "{mode: qat, method: range, weights: {method: lsq, format: int8}, inputs: {format: uint8}} |"
                        + " onnxruntime | int8",
                "{mode: qat, weights: {format: int8}, inputs: {format: int8}} | tensorrt | int8",
                "{mode: qat, weights: {format: int8}} | tensorrt | int8-weight-only",
                "{mode: qat, weights: {format: int8}, inputs: {method: pact, format: uint8}} | onnxruntime | int8",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 16}, inputs: {format: int8}} |"
                        + " onnxruntime | int4-int8",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 16}} | onnxruntime |"
                        + " int4-weight-only",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 32}} | compressed-tensors | int4",
                "{mode: qat, weights: {format: e4m3, granularity: tensor}, inputs: {format: e4m3}} | onnxruntime |"
                        + " fp8-per-channel",
                "{mode: qat, weights: {format: e4m3, granularity: tensor}, inputs: {format: e4m3}} | modelopt | fp8",
                "{mode: qat, weights: {format: e4m3}, inputs: {format: e4m3}} | compressed-tensors | fp8-dynamic",
                "{mode: qat, method: dynamic, weights: {format: mxfp8}, inputs: {format: mxfp8}} | compressed-tensors"
                        + " | mxfp8",
                "{mode: qat, weights: {method: modelopt-lsq, format: nvfp4}, inputs: {method: dynamic, format: nvfp4}}"
                        + " | compressed-tensors | nvfp4",
                "{mode: qat, weights: {format: nvfp4}, inputs: {method: dynamic, format: nvfp4}} | modelopt | nvfp4"
            })
    void what_was_trained_is_written_and_proves_itself(String precision, String target, String recipe)
            throws IOException {
        Path out = folder.resolve(target.equals("onnxruntime") || target.equals("tensorrt") ? "m.onnx" : "m");
        CommandLine line = export(train(precision), target, out);
        assertEquals(ExitCode.OK, line.code(), line.err() + line.out());
        JsonNode json = new ObjectMapper().readTree(line.out());
        assertEquals(recipe, json.path("recipe").asText());
        assertEquals(14, json.path("fp8_layers").asInt(), line.out());
        double worst = json.path("proof").path("worst").asDouble();
        // of weights alone ONNX Runtime makes a product that rounds inputs, too; of TensorRT's files nothing is fused
        boolean rounds = recipe.endsWith("weight-only") && !target.equals("tensorrt");
        double expected = rounds || recipe.equals("nvfp4") ? 0.02 : 1e-5;
        assertTrue(worst < expected, line.out());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{mode: qat, method: lsq+, weights: {format: int8}, inputs: {format: uint8}} | onnxruntime | LSQ+ adds"
                        + " an offset | no target has these codes",
                "{mode: qat, weights: {format: int8}, inputs: {method: pact, format: uint8}} | compressed-tensors | no"
                        + " zero points of inputs | --target onnxruntime",
                "{mode: qat, weights: {format: int8}, inputs: {method: pact, format: uint8}} | tensorrt | TensorRT has"
                        + " no zero points | --target onnxruntime",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 16}, inputs: {format: int8}} |"
                        + " tensorrt | with inputs in floats alone | --target onnxruntime",
                "{mode: qat, weights: {format: int8, narrow_range: true}, inputs: {method: dynamic, variant:"
                        + " zero_point, format: int8}} | onnxruntime | for the whole tensor, not for each token |"
                        + " --target compressed-tensors",
                "{mode: qat, weights: {format: int8}, inputs: {method: dynamic, variant: zero_point, format: int8,"
                        + " granularity: tensor}} | tensorrt | TensorRT has no zero points | --target onnxruntime",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 32}, inputs: {method: dynamic,"
                        + " variant: zero_point, format: int8}} | compressed-tensors | dynamic int8 per row with"
                        + " zero points | no target has these codes",
                "{mode: qat, weights: {method: dorefa, format: uint4}} | onnxruntime | squeezed by tanh | --target"
                        + " onnx has the weights as floats",
                "{mode: qat, weights: {format: int3}} | compressed-tensors | weights in int3 have no type in files |"
                        + " no target",
                "{mode: qat, weights: {format: int4, granularity: group, group_size: 16}, inputs: {format: int8}} |"
                        + " compressed-tensors | nothing for weights in | --target onnxruntime"
            })
    void what_a_target_cannot_hold_is_refused_with_the_targets_that_can(
            String precision, String target, String why, String fix) throws IOException {
        Path out = folder.resolve(target.equals("onnxruntime") || target.equals("tensorrt") ? "m.onnx" : "m");
        CommandLine line = export(train(precision), target, out);
        assertEquals(ExitCode.USAGE, line.code(), line.out());
        assertTrue(line.err().contains(why), line.err());
        assertTrue(line.err().contains(fix), line.err());
        assertTrue(Files.notExists(out));
    }

    @Test
    void a_checkpoint_says_that_its_inputs_have_zero_points_of_each_token() throws IOException {
        Path out = folder.resolve("m");
        String precision = "{mode: qat, weights: {format: int8, narrow_range: true}, inputs: {method: dynamic, variant:"
                + " zero_point, format: uint8}}";
        CommandLine line = export(train(precision), "compressed-tensors", out);
        assertEquals(ExitCode.OK, line.code(), line.err());
        JsonNode inputs =
                new ObjectMapper().readTree(out.resolve("config.json").toFile()).findValue("input_activations");
        assertEquals(8, inputs.path("num_bits").asInt(), inputs.toString());
        assertEquals("int", inputs.path("type").asText());
        assertEquals("token", inputs.path("strategy").asText());
        assertTrue(inputs.path("dynamic").asBoolean());
        assertFalse(inputs.path("symmetric").asBoolean(true));
    }
}
