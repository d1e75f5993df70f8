package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.StoredScale;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Codes and scales in the files of {@code octet export}, beside what the forward pass of training computed with, bit by bit. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QatCodesTest {
    private static final Path LLAMA =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-lm/llama");
    private static final CodeGrid E4M3 = new CodeGrid.Floats(Float8Format.E4M3FN);
    private static final CodeGrid E2M1 = new CodeGrid.Floats(Float8Format.E2M1);
    /** The head reads the embedding when it trains; its copy has the name that the model gave it. */
    private static final String TIED = "m.bert.embeddings.word_embeddings";

    private static final String HEAD = "m.cls.predictions.decoder";

    @TempDir
    static Path folder;

    private static final Map<Case, Path> EXPORTED = new HashMap<>();

    /**
     * A run and the file that is made of it.
     *
     * @param operands of {@code precision: {mode: qat}}
     * @param linears whose weights the file has in codes
     * @param inputs of them that have a scale of their own in the file
     */
    record Case(String operands, String target, int linears, int inputs) {
        boolean isGraph() {
            return target.equals("onnxruntime") || target.equals("tensorrt");
        }

        @Override
        public String toString() {
            return target + ", " + operands;
        }
    }

    static List<Case> cases() {
        String groups = "weights: {format: int4, granularity: group, group_size: 16}";
        String nvfp4 = "inputs: {method: dynamic, format: nvfp4}";
        return List.of(
                new Case(
                        "weights: {format: int8, narrow_range: true}, inputs: {format: int8}",
                        "compressed-tensors",
                        14,
                        8),
                new Case(
                        "weights: {format: int8, narrow_range: true},"
                                + " inputs: {method: dynamic, variant: zero_point, format: int8}",
                        "compressed-tensors",
                        14,
                        0),
                new Case("weights: {format: int4, granularity: group, group_size: 32}", "compressed-tensors", 14, 0),
                new Case("weights: {format: int4}", "compressed-tensors", 14, 0),
                new Case("weights: {format: e4m3, granularity: tensor}, inputs: {format: e4m3}", "modelopt", 14, 8),
                new Case("weights: {format: e4m3}, inputs: {format: e4m3}", "compressed-tensors", 14, 8),
                // k and v have 64 rows, and engines want q, k and v alike
                new Case(
                        "weights: {format: e4m3, granularity: block, group_size: 128},"
                                + " inputs: {method: dynamic, format: e4m3, granularity: group, group_size: 128}",
                        "fp8",
                        8,
                        0),
                new Case(
                        "method: dynamic, weights: {format: mxfp8}, inputs: {format: mxfp8}",
                        "compressed-tensors",
                        14,
                        0),
                new Case("weights: {format: nvfp4}, " + nvfp4, "compressed-tensors", 14, 8),
                new Case("weights: {method: modelopt-lsq, variant: tied, format: nvfp4}, " + nvfp4, "modelopt", 14, 8),
                new Case("weights: {format: int8}, inputs: {format: int8}", "onnxruntime", 14, 10),
                new Case("weights: {format: int8}, inputs: {method: pact, format: uint8}", "onnxruntime", 14, 10),
                new Case("weights: {format: int8}, inputs: {method: range, format: uint8}", "onnxruntime", 14, 10),
                new Case("weights: {format: int8, granularity: tensor}", "tensorrt", 14, 0),
                new Case(groups, "onnxruntime", 14, 0),
                new Case(groups, "tensorrt", 14, 0),
                new Case(groups + ", inputs: {format: int8}", "onnxruntime", 14, 10),
                new Case("weights: {format: int4}", "onnxruntime", 14, 0),
                new Case("weights: {format: e4m3, granularity: tensor}, inputs: {format: e4m3}", "onnxruntime", 14, 10),
                new Case("weights: {format: e4m3}, inputs: {format: e4m3}", "onnxruntime", 14, 10),
                new Case("weights: {format: e4m3}, inputs: {format: e4m3}", "tensorrt", 14, 10),
                new Case("weights: {method: modelopt-lsq, variant: tied, format: e4m3}", "onnxruntime", 14, 0));
    }

    /** The folder that has a run, and what was exported of it. Made once for a case. */
    private static Path exported(Case c) throws IOException {
        Path made = EXPORTED.get(c);
        if (made != null) {
            return made;
        }
        Path of = Files.createDirectory(folder.resolve("case-" + EXPORTED.size()));
        Path config = of.resolve("run.yaml");
        Path model = c.isGraph() ? TinyBert.MODEL : LLAMA;
        if (c.isGraph()) {
            TinyBert.samples(of.resolve("train.npz"), 24, 1);
            Files.writeString(config, """
                data: {train: train.npz}
                loss: {type: mse, output: logits, distillation: {teacher: '%s'}}
                batch_size: 8
                steps: 3
                optimizer: {lr: 1.0e-3}
                precision: {mode: qat, %s}
                """.formatted(TinyBert.MODEL, c.operands));
        } else {
            Files.writeString(config, """
                data: {train: '%s', max_length: 24}
                loss: {type: causal-lm}
                batch_size: 4
                steps: 3
                optimizer: {lr: 1.0e-3}
                precision: {mode: qat, exempt_last: true, scales: {fold_at: 3, type: bf16}, %s}
                """.formatted(
                            LLAMA.resolve("../../../text/train.jsonl").normalize(), c.operands));
        }
        Path run = of.resolve("run");
        CommandLine trained =
                CommandLine.run("train", model.toString(), "--config", config.toString(), "-o", run.toString());
        assertEquals(ExitCode.OK, trained.code(), trained.err());
        Path out = of.resolve(c.isGraph() ? "out.onnx" : "out");
        CommandLine exported = CommandLine.run("export", run.toString(), "-o", out.toString(), "--target", c.target);
        assertEquals(ExitCode.OK, exported.code(), exported.err() + exported.out());
        EXPORTED.put(c, of);
        return of;
    }

    /**
     * What a run trained, and what the file of it has: constants by name, weights as {@code MODULE.weight}.
     *
     * @param outputs where the output channels of weights are
     */
    private record Both(Map<String, Tensor> trained, Map<String, Tensor> stored, Outputs outputs) {
        /** Modules whose weights are in codes in the file, by the names that the run has for them. */
        List<String> modules() {
            List<String> modules = new ArrayList<>();
            for (String name : new TreeMap<>(trained).keySet()) {
                String module = name.replaceAll("\\.weight$", "");
                if (name.endsWith(".weight") && scales(module) != null) {
                    modules.add(module);
                }
            }
            return modules;
        }

        String written(String module) {
            return module.equals(TIED) ? HEAD : module;
        }

        @Nullable
        Tensor of(String module, String what) {
            return stored.get(written(module) + "." + what);
        }

        @Nullable
        Tensor scales(String module) {
            Tensor found = of(module, "weight_scale");
            return found != null ? found : of(module, "weight_scale_inv");
        }

        @Nullable
        Tensor codes(String module) {
            Tensor packed = of(module, "weight_packed");
            return packed != null ? packed : of(module, "weight");
        }

        /** With one bit of a tensor other than it was: the lowest of its first element. */
        Both with(Tensor changed) {
            Map<String, Tensor> other = new HashMap<>(stored);
            MemorySegment bytes = Arena.ofAuto().allocate(changed.bytes().byteSize());
            bytes.copyFrom(changed.bytes());
            bytes.set(ValueLayout.JAVA_BYTE, 0, (byte) (bytes.get(ValueLayout.JAVA_BYTE, 0) ^ 1));
            other.replaceAll((_, t) -> t.name().equals(changed.name()) ? new Tensor(t.spec(), bytes) : t);
            return new Both(trained, other, outputs);
        }
    }

    private enum Outputs {
        ROWS,
        COLUMNS
    }

    private interface Check {
        void of(Both both);
    }

    private static void check(Case c, Check check) throws IOException {
        Path of = exported(c);
        Path file = c.isGraph() ? of.resolve("out.onnx") : of.resolve("out/model.safetensors");
        try (CheckpointFile checkpoint = new CheckpointFolder(of.resolve("run")).openNewest();
                ModelFile opened = ModelFile.open(file)) {
            check.of(new Both(
                    checkpoint.state().parameters(),
                    constants(opened.model()),
                    c.isGraph() ? Outputs.COLUMNS : Outputs.ROWS));
        }
    }

    private static Map<String, Tensor> constants(Model model) {
        if (model.graph().isEmpty()) {
            return model.tensors();
        }
        Map<String, Tensor> all = new HashMap<>();
        model.graph()
                .get()
                .graph()
                .initializers()
                .forEach((name, i) -> i.tensor().ifPresent(t -> all.put(name, t)));
        return all;
    }

    @ParameterizedTest
    @MethodSource("cases")
    void codes_and_scales_of_a_file_are_those_of_the_forward_pass(Case c) throws IOException {
        check(c, both -> {
            List<String> modules = both.modules();
            modules.forEach(m -> assertEquals(Optional.empty(), difference(m, both)));
            assertEquals(c.linears, modules.size());
        });
    }

    @ParameterizedTest
    @MethodSource("cases")
    void scales_of_inputs_are_those_of_the_forward_pass(Case c) throws IOException {
        check(c, both -> {
            Set<String> compared = new HashSet<>();
            for (String name : both.trained.keySet()) {
                String module = name.replaceAll("\\.input_quantizer\\..*", "");
                if (name.contains(".input_quantizer.") && compared.add(module)) {
                    compareInput(module, both);
                }
            }
            assertEquals(c.inputs, compared.size());
            boolean none = both.stored.keySet().stream().noneMatch(n -> n.matches(".*\\.input(_global)?_scale"));
            assertEquals(c.inputs == 0, none);
        });
    }

    @ParameterizedTest
    @MethodSource("cases")
    void one_bit_of_a_code_or_a_scale_that_is_otherwise_is_noticed(Case c) throws IOException {
        check(c, both -> {
            String module = both.modules().getFirst();
            List<@Nullable Tensor> tensors = Arrays.asList(
                    both.codes(module),
                    both.scales(module),
                    both.of(module, "weight_scale_2"),
                    both.of(module, "weight_global_scale"));
            for (Tensor t : tensors) {
                if (t != null) {
                    assertTrue(difference(module, both.with(t)).isPresent(), t.name());
                }
            }
        });
    }

    /** The first element whose code, or scale, is not the one that the forward pass computed with from the run's masters. */
    private static Optional<String> difference(String module, Both both) {
        Tensor master = requireNonNull(both.trained.get(module + ".weight"));
        boolean turned = module.equals(TIED);
        int rows = (int) master.shape().dim(turned ? 1 : 0);
        int cols = (int) master.shape().dim(turned ? 0 : 1);
        Tensor scales = requireNonNull(both.scales(module));
        Codes codes = Codes.of(requireNonNull(both.codes(module)), both.outputs);
        Trained trained = Trained.of(module, both, codes.grid());
        Tensor divisor = both.of(module, "weight_global_scale");
        Tensor second = both.of(module, "weight_scale_2");
        if (divisor != null && divisor.toFloats()[0] != 1 / trained.global) {
            return Optional.of(module + ": divisor " + divisor.toFloats()[0] + ", trained " + trained.global);
        }
        if (second != null && trained.global != 1 && second.toFloats()[0] != trained.global) {
            return Optional.of(module + ": upper scale " + second.toFloats()[0] + ", trained " + trained.global);
        }
        float[] written = spread(numbers(scales), scales.shape(), rows, cols, both.outputs);
        float[] w = turned ? master.transposed(Arena.ofAuto()).toFloats() : master.toFloats();
        float[] own = turned ? transposed(trained.scales, cols) : trained.scales;
        for (int i = 0; i < w.length; i++) {
            String where = module + " [" + i / cols + ", " + i % cols + "]: ";
            if (own[i] != written[i]) {
                return Optional.of(where + "scale " + written[i] + ", trained " + own[i]);
            }
            float code = codes.grid().nearest(w[i] / (own[i] * trained.global));
            float expected = codes.grid() instanceof CodeGrid.Integers ? code + 0f : code; // they have no -0
            if (Float.floatToRawIntBits(expected) != Float.floatToRawIntBits(codes.value(i))) {
                return Optional.of(where + "code " + codes.value(i) + ", trained " + expected);
            }
        }
        return Optional.empty();
    }

    /** What stands in the file: the numbers that codes are. */
    private record Codes(Tensor tensor, CodeGrid grid) {
        static Codes of(Tensor codes, Outputs outputs) {
            boolean checkpoint = outputs == Outputs.ROWS; // these have no code -128
            return new Codes(
                    codes,
                    switch (codes.dtype()) {
                        case I8 -> checkpoint ? CodeGrid.Integers.symmetric(8) : CodeGrid.Integers.signed(8);
                        case I32, I4 -> CodeGrid.Integers.signed(4);
                        case U8 -> E2M1;
                        default -> E4M3;
                    });
        }

        float value(int i) {
            return switch (tensor.dtype()) {
                case I8 -> tensor.bytes().get(ValueLayout.JAVA_BYTE, i);
                case I4 -> (byte) (nibble(i) << 4) >> 4;
                case I32 -> {
                    int word = tensor.bytes().get(Tensor.I32_LE, i / 8 * 4L);
                    yield ((word >>> (i % 8 * 4)) & 15) - 8;
                }
                case U8 -> Float8Format.E2M1.decode(nibble(i));
                default -> Float8Format.E4M3FN.decode(tensor.bytes().get(ValueLayout.JAVA_BYTE, i) & 0xFF);
            };
        }

        private int nibble(int i) {
            int pair = tensor.bytes().get(ValueLayout.JAVA_BYTE, i / 2);
            return (pair >>> (i % 2 * 4)) & 15;
        }
    }

    /**
     * What the forward pass multiplied codes with.
     *
     * @param scales one for each element of the master, of two levels the lower one
     * @param global the upper one; 1 without
     */
    @SuppressWarnings("ArrayRecordComponent") // handed over, never compared
    private record Trained(float[] scales, float global) {
        static Trained of(String module, Both both, CodeGrid grid) {
            Tensor master = requireNonNull(both.trained.get(module + ".weight"));
            Outputs outputs = module.equals(TIED) ? Outputs.ROWS : both.outputs;
            int rows = (int) master.shape().dim(0);
            int cols = (int) master.shape().dim(1);
            String quantizer = module + ".weight_quantizer.";
            Tensor scale = both.trained.get(quantizer + "scale");
            Tensor amax = both.trained.get(quantizer + "amax");
            Tensor global = both.trained.get(quantizer + "global_scale");
            if (scale == null && amax == null) { // MXFP8: of the values themselves
                float[] of = powersOfTwo(master.toFloats());
                return new Trained(spread(of, Shape.of(rows, cols / 32), rows, cols, outputs), 1);
            }
            Tensor found = scale != null ? scale : requireNonNull(amax);
            float[] of = found.toFloats();
            float upper = global == null ? 1 : global.toFloats()[0];
            for (int i = 0; i < of.length; i++) {
                of[i] = scale != null ? of[i] : of[i] / grid.high();
                if (global != null) {
                    of[i] = E4M3.nearest(Math.clamp(of[i] / upper, 0x1p-9f, 448));
                }
            }
            return new Trained(spread(of, found.shape(), rows, cols, outputs), upper);
        }

        private static float[] powersOfTwo(float[] w) {
            float[] of = new float[w.length / 32];
            for (int i = 0; i < w.length; i++) {
                of[i / 32] = Math.max(of[i / 32], Math.abs(w[i]));
            }
            for (int i = 0; i < of.length; i++) {
                float least = of[i] / 448;
                int exponent = Math.getExponent(least);
                of[i] = Math.scalb(1f, Math.scalb(1f, exponent) < least ? exponent + 1 : exponent);
            }
            return of;
        }
    }

    private static float[] transposed(float[] of, int rows) {
        float[] turned = new float[of.length];
        int cols = of.length / rows;
        for (int i = 0; i < of.length; i++) {
            turned[i % cols * rows + i / cols] = of[i];
        }
        return turned;
    }

    /** Spread over the elements of a matrix: one of all, of an output channel, or of blocks in a grid. */
    private static float[] spread(float[] of, Shape shape, int rows, int cols, Outputs outputs) {
        boolean channels = shape.rank() == 1;
        int high = of.length == 1 || (channels && outputs == Outputs.COLUMNS) ? 1 : (int) shape.dim(0);
        int wide = of.length / high;
        float[] all = new float[rows * cols];
        for (int i = 0; i < all.length; i++) {
            int row = i / cols / Math.ceilDiv(rows, high);
            int col = i % cols / Math.ceilDiv(cols, wide);
            all[i] = of[row * wide + col];
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

    /** Of NVFP4 the upper scale, of others the scale and the zero point. */
    private static void compareInput(String module, Both both) {
        String quantizer = module + ".input_quantizer.";
        Tensor divisor = both.of(module, "input_global_scale");
        Tensor scale = both.of(module, "input_scale");
        Tensor global = both.trained.get(quantizer + "global_scale");
        if (global != null) {
            float expected = global.toFloats()[0];
            float written = divisor != null
                    ? divisor.toFloats()[0]
                    : requireNonNull(scale).toFloats()[0];
            assertEquals(divisor != null ? 1 / expected : expected, written, module);
            return;
        }
        Tensor own = both.trained.get(quantizer + "scale");
        Tensor pact = both.trained.get(quantizer + "amax");
        float expected = own != null ? own.toFloats()[0] : requireNonNull(pact).toFloats()[0] / 255;
        assertEquals(expected, numbers(requireNonNull(scale, module))[0], module);
        Tensor zeroPoint = both.of(module, "input_zero_point");
        if (zeroPoint != null) {
            Tensor learned = both.trained.get(quantizer + "zero_point");
            int code = zeroPoint.bytes().get(ValueLayout.JAVA_BYTE, 0);
            int unsigned = zeroPoint.dtype() == DType.U8 ? code & 0xFF : code - Byte.MIN_VALUE;
            int zero = learned != null ? (int) Math.rint(learned.toFloats()[0]) : pact != null ? 0 : 128;
            assertEquals(zero, unsigned, module);
        }
    }

    @Test
    void weights_that_engines_load_as_one_have_one_upper_scale_in_nvfp4() throws IOException {
        Case c = new Case("weights: {format: nvfp4}, inputs: {method: dynamic, format: nvfp4}", "modelopt", 14, 8);
        Path out = exported(c).resolve("out");
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
