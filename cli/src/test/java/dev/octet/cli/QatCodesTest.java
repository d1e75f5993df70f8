package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.StoredScale;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.IntUnaryOperator;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Codes and scales in the checkpoints of {@code octet export}, beside what the forward pass of training computed with, bit by bit. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QatCodesTest {
    private static final Path LLAMA =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-lm/llama");
    private static final CodeGrid E4M3 = new CodeGrid.Floats(Float8Format.E4M3FN);
    private static final CodeGrid E2M1 = new CodeGrid.Floats(Float8Format.E2M1);

    @TempDir
    Path folder;

    private Path exported(String operands, String target) throws IOException {
        Path config = folder.resolve("run.yaml");
        Files.writeString(
                config, """
                    data: {train: '%s', max_length: 24}
                    loss: {type: causal-lm}
                    batch_size: 4
                    steps: 3
                    optimizer: {lr: 1.0e-3}
                    precision: {mode: qat, exempt_last: true, scales: {fold_at: 3, type: bf16}, %s}
                    """.formatted(LLAMA.resolve("../../../text/train.jsonl").normalize(), operands));
        Path run = folder.resolve("run");
        CommandLine trained =
                CommandLine.run("train", LLAMA.toString(), "--config", config.toString(), "-o", run.toString());
        assertEquals(ExitCode.OK, trained.code(), trained.err());
        Path out = folder.resolve("out");
        CommandLine exported = CommandLine.run("export", run.toString(), "-o", out.toString(), "--target", target);
        assertEquals(ExitCode.OK, exported.code(), exported.err() + exported.out());
        return out;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "weights: {format: int8, narrow_range: true}, inputs: {format: int8} | compressed-tensors | 14",
                "weights: {format: int4, granularity: group, group_size: 32} | compressed-tensors | 14",
                "weights: {format: e4m3, granularity: tensor}, inputs: {format: e4m3} | modelopt | 14",
                "weights: {format: e4m3}, inputs: {format: e4m3} | compressed-tensors | 14",
                // k and v have 64 rows, and engines want q, k and v alike
                "weights: {format: e4m3, granularity: block, group_size: 128},"
                        + " inputs: {method: dynamic, format: e4m3, granularity: group, group_size: 128} | fp8 | 8",
                "method: dynamic, weights: {format: mxfp8}, inputs: {format: mxfp8} | compressed-tensors | 14",
                "weights: {format: nvfp4}, inputs: {method: dynamic, format: nvfp4} | compressed-tensors | 14",
                "weights: {method: modelopt-lsq, variant: tied, format: nvfp4},"
                        + " inputs: {method: dynamic, format: nvfp4} | modelopt | 14"
            })
    void codes_and_scales_of_a_checkpoint_are_those_of_the_forward_pass(String operands, String target, int linears)
            throws IOException {
        Path out = exported(operands, target);
        int compared = 0;
        try (CheckpointFile checkpoint = new CheckpointFolder(folder.resolve("run")).openNewest();
                ModelFile file = ModelFile.open(out.resolve("model.safetensors"))) {
            Map<String, Tensor> trained = checkpoint.state().parameters();
            Map<String, Tensor> stored = file.model().tensors();
            for (String name : trained.keySet()) {
                String module = name.replaceAll("\\.weight$", "");
                boolean written = stored.containsKey(module + ".weight_scale")
                        || stored.containsKey(module + ".weight_scale_inv");
                if (name.endsWith(".weight") && written) {
                    compare(module, trained, stored);
                    compared++;
                }
            }
        }
        assertEquals(linears, compared);
    }

    /** The scale of each element and its code are the file's and, from masters and learned parameters, the forward pass's. */
    private static void compare(String module, Map<String, Tensor> trained, Map<String, Tensor> stored) {
        Tensor master = requireNonNull(trained.get(module + ".weight"));
        int rows = (int) master.shape().dim(0);
        int cols = (int) master.shape().dim(1);
        float[] w = master.toFloats();
        Codes codes = Codes.of(module, stored, cols);
        float[] steps = steps(module, trained, w, rows, cols, codes.grid());
        float[] scales = scales(module, stored, rows, cols);
        // a divisor of compressed-tensors is rounded once more
        boolean divisor = stored.containsKey(module + ".weight_global_scale");
        for (int i = 0; i < w.length; i++) {
            String where = module + " [" + i / cols + ", " + i % cols + "]";
            assertEquals(steps[i], scales[i], divisor ? 2 * Math.ulp(steps[i]) : 0, where);
            float code = codes.grid().nearest(w[i] / steps[i]);
            float expected = codes.grid() instanceof CodeGrid.Integers ? code + 0f : code; // they have no -0
            assertEquals(Float.floatToRawIntBits(expected), Float.floatToRawIntBits(codes.value(i)), where);
        }
    }

    /** What stands in the file: the numbers that codes are. */
    private record Codes(Tensor tensor, CodeGrid grid, int cols) {
        static Codes of(String module, Map<String, Tensor> stored, int cols) {
            Tensor packed = stored.get(module + ".weight_packed");
            Tensor codes = packed != null ? packed : requireNonNull(stored.get(module + ".weight"));
            return new Codes(
                    codes,
                    switch (codes.dtype()) {
                        case I8 -> CodeGrid.Integers.symmetric(8);
                        case I32 -> CodeGrid.Integers.signed(4);
                        case U8 -> E2M1;
                        default -> E4M3;
                    },
                    cols);
        }

        float value(int i) {
            return switch (tensor.dtype()) {
                case I8 -> tensor.bytes().get(ValueLayout.JAVA_BYTE, i);
                case I32 -> {
                    int word = tensor.bytes().get(Tensor.I32_LE, i / 8 * 4L);
                    yield ((word >>> (i % 8 * 4)) & 15) - 8;
                }
                case U8 -> {
                    int pair = tensor.bytes().get(ValueLayout.JAVA_BYTE, i / 2);
                    yield Float8Format.E2M1.decode((pair >>> (i % 2 * 4)) & 15);
                }
                default -> Float8Format.E4M3FN.decode(tensor.bytes().get(ValueLayout.JAVA_BYTE, i) & 0xFF);
            };
        }
    }

    /** Spread over the elements: one of all, of a row, or of blocks in a row or in squares. */
    private static float[] spread(float[] of, Shape shape, int rows, int cols) {
        int high = shape.elementCount() == 1 ? 1 : (int) shape.dim(0);
        int wide = (int) (shape.elementCount() / high);
        IntUnaryOperator at = i -> i / cols / Math.ceilDiv(rows, high) * wide + i % cols / Math.ceilDiv(cols, wide);
        float[] all = new float[rows * cols];
        for (int i = 0; i < all.length; i++) {
            all[i] = of[at.applyAsInt(i)];
        }
        return all;
    }

    private static float[] numbers(Tensor stored) {
        float[] all = new float[(int) stored.shape().elementCount()];
        for (int i = 0; i < all.length; i++) {
            int code = stored.dtype().bits() == Byte.SIZE ? stored.bytes().get(ValueLayout.JAVA_BYTE, i) & 0xFF : 0;
            all[i] = switch (stored.dtype()) {
                case U8 -> Math.scalb(1f, code - 127);
                case F8_E4M3FN -> Float8Format.E4M3FN.decode(code);
                default -> StoredScale.get(stored.dtype(), stored.bytes(), i);
            };
        }
        return all;
    }

    private static float[] scales(String module, Map<String, Tensor> stored, int rows, int cols) {
        Tensor scale = stored.get(module + ".weight_scale");
        Tensor found = scale != null ? scale : requireNonNull(stored.get(module + ".weight_scale_inv"));
        float[] of = numbers(found);
        Tensor divisor = stored.get(module + ".weight_global_scale");
        Tensor second = stored.get(module + ".weight_scale_2");
        for (int i = 0; i < of.length; i++) {
            of[i] = divisor != null
                    ? of[i] / divisor.toFloats()[0]
                    : second != null ? of[i] * second.toFloats()[0] : of[i];
        }
        return spread(of, found.shape(), rows, cols);
    }

    private static float[] steps(
            String module, Map<String, Tensor> trained, float[] w, int rows, int cols, CodeGrid grid) {
        String quantizer = module + ".weight_quantizer.";
        Tensor scale = trained.get(quantizer + "scale");
        Tensor amax = trained.get(quantizer + "amax");
        Tensor global = trained.get(quantizer + "global_scale");
        if (scale == null && amax == null) { // MXFP8: of the values themselves
            float[] of = new float[rows * cols / 32];
            for (int i = 0; i < w.length; i++) {
                of[i / 32] = Math.max(of[i / 32], Math.abs(w[i]));
            }
            for (int i = 0; i < of.length; i++) {
                float least = of[i] / 448;
                int exponent = Math.getExponent(least);
                of[i] = Math.scalb(1f, Math.scalb(1f, exponent) < least ? exponent + 1 : exponent);
            }
            return spread(of, Shape.of(rows, cols / 32), rows, cols);
        }
        Tensor found = scale != null ? scale : requireNonNull(amax);
        float[] of = found.toFloats();
        for (int i = 0; i < of.length; i++) {
            of[i] = scale != null ? of[i] : of[i] / grid.high();
            if (global != null) {
                float g = global.toFloats()[0];
                of[i] = E4M3.nearest(Math.clamp(of[i] / g, 0x1p-9f, 448)) * g;
            }
        }
        return spread(of, found.shape(), rows, cols);
    }

    @Test
    void weights_that_engines_load_as_one_have_one_upper_scale_in_nvfp4() throws IOException {
        Path out = exported("weights: {format: nvfp4}, inputs: {method: dynamic, format: nvfp4}", "modelopt");
        try (ModelFile file = ModelFile.open(out.resolve("model.safetensors"))) {
            Map<String, Tensor> stored = file.model().tensors();
            for (List<String> group : List.of(
                    List.of("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                    List.of("mlp.gate_proj", "mlp.up_proj"))) {
                for (String kind : List.of("weight_scale_2", "input_scale")) {
                    Set<Float> scales = new HashSet<>();
                    for (String module : group) {
                        scales.add(requireNonNull(stored.get("model.layers.0." + module + "." + kind))
                                .toFloats()[0]);
                    }
                    assertEquals(1, scales.size(), group + " " + kind);
                }
            }
        }
        CommandLine verified = CommandLine.run("verify", out.toString(), "--for", "tensorrt-llm");
        assertTrue(!verified.out().contains("fused-scales"), verified.out());
    }
}
