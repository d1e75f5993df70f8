package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestNumbers;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.AutocastList;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForm.OfZeros;
import dev.octet.trainer.state.StateForms;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Two Linears of MS-AMP next to torch, state by state. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MsampOracleTest {
    private static final Path GOLDEN = Path.of(System.getProperty("octet.testdata"), "golden", "training");
    private static final int STEPS = 20;
    private static final double MAX_NORM = 0.3;
    private static final int ROWS = 16;
    private static final int IN = 16;
    private static final int OUT = 8;

    private static GraphModel model(Dim rows, Tensor w1, Tensor w2) {
        List<Node> nodes = List.of(
                Node.of(
                        "first",
                        "Linear",
                        Node.OCTET_DOMAIN,
                        List.of("x", "w1"),
                        List.of("h"),
                        Attribute.of("transB", 1)),
                Node.of("act", "Relu", List.of("h"), List.of("a")),
                Node.of(
                        "second",
                        "Linear",
                        Node.OCTET_DOMAIN,
                        List.of("a", "w2"),
                        List.of("y"),
                        Attribute.of("transB", 1)));
        return GraphModel.of(
                Graph.of(
                        "mlp",
                        nodes,
                        List.of(Initializer.of(w1), Initializer.of(w2)),
                        List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(rows, Dim.of(IN))))),
                        List.of(new ValueInfo("y", new TensorType(DType.F32, List.of(rows, Dim.of(OUT)))))),
                10,
                21);
    }

    private static StateForms forms(MsampPolicy policy) {
        MsampScale rule = policy.recipe().rule();
        boolean coded = policy.level() != MsampPolicy.Level.O1;
        return new StateForms(
                policy.weights(),
                policy.gradients(),
                coded
                        ? Map.of(
                                "exp_avg", new StateForm.PowerOfTwo(DType.F8_E4M3FN, rule, OfZeros.ONE),
                                "exp_avg_sq", new StateForm.PowerOfTwo(DType.F16, rule, OfZeros.ONE))
                        : Map.of(),
                null,
                coded ? StateForms.Arithmetic.MSAMP : StateForms.Arithmetic.MSAMP_F32);
    }

    private static String digest(Tensor t) {
        try {
            byte[] bytes = t.bytes().toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
            return HexFormat.of()
                    .formatHex(MessageDigest.getInstance("SHA-256").digest(bytes))
                    .substring(0, 16);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A code in a thousand may differ: the norm's last bit depends on the order of its sum. */
    private static boolean isNear(Tensor t, String sum) {
        CpuTensor numbers = new CpuTensor(new OperandType(t.dtype(), t.shape()), t.bytes());
        double found = Arrays.stream(TestNumbers.read(numbers)).map(Math::abs).sum();
        double expected = sum.equals("inf") ? Double.POSITIVE_INFINITY : Double.parseDouble(sum);
        return found == expected || Math.abs(found - expected) <= 1e-4 * expected;
    }

    private static Tensor piece(Tensor all, String name, int at, int cols) {
        Shape shape = Shape.of(ROWS, cols);
        long bytes = 4L * ROWS * cols;
        return new Tensor(new TensorSpec(name, DType.F32, shape), all.bytes().asSlice(at * bytes, bytes));
    }

    /**
     * Sums of products are FP32 here and FP64 rounded to FP32 there; both are rounded to BF16 and cast, after which no bit of any state differs on these
     * numbers. Gradients are compared as what their codes stand for, with their scales. Where gradients are clipped, sums of magnitudes are compared.
     */
    @ParameterizedTest
    @CsvSource({
        "O1, mended",
        "O1, original",
        "O2, mended",
        "O2, original",
        "O3, mended",
        "O3, original",
        "O1, clipped",
        "O2, clipped",
        "O2, te"
    })
    void
            twenty_steps_with_overflows_leave_the_scales_windows_weights_gradients_and_moments_of_torchs_emulation_bit_by_bit(
                    String level, String rule) throws IOException {
        MsampPolicy policy = new MsampPolicy(
                new Autocast("bf16", DType.BF16, AutocastList.CPU),
                new TrainingRecipe.Msamp(
                        rule.equals("original") ? MsampScale.ORIGINAL : MsampScale.MENDED, rule.equals("te")),
                MsampPolicy.Level.valueOf(level));
        List<String[]> rows = Files.readAllLines(GOLDEN.resolve("msamp.csv")).stream()
                .map(l -> l.split(",", -1))
                .filter(r -> r[0].equals(level) && r[1].equals(rule))
                .toList();
        try (ModelFile file = ModelFile.open(GOLDEN.resolve("msamp.safetensors"));
                CpuDevice device = CpuDevice.of(2)) {
            Tensor w1 = requireNonNull(file.model().tensors().get("w1"));
            Tensor w2 = requireNonNull(file.model().tensors().get("w2"));
            GraphModel open = model(Dim.of("rows"), w1, w2);
            TrainingSetup setup = new TrainingSetup(
                            new GraphSource(open, (graph, sizes) -> model(Dim.of(ROWS), w1, w2)),
                            Parameters.of(open.graph()),
                            Set.of("w1", "w2"),
                            new LossConfig(LossConfig.Type.MSE, Optional.empty(), "labels", -100, Optional.empty()),
                            policy,
                            new LossScaling.GradScaler(1024, 2, 0.5f, 3),
                            Optimizer.Adam.ADAMW,
                            List.of(),
                            rule.equals("clipped") ? MAX_NORM : Double.POSITIVE_INFINITY,
                            List.of())
                    .withStates(forms(policy));
            List<String> differences = new ArrayList<>();
            try (TrainingSession session = new TrainingSession(setup, device)) {
                for (int step = 0; step < STEPS; step++) {
                    List<MicroBatch> batches = new ArrayList<>();
                    for (int i = 0; i < 2; i++) {
                        int at = 2 * step + i;
                        batches.add(new MicroBatch(
                                at,
                                List.of(0L),
                                Map.of(
                                        "x",
                                                piece(
                                                        requireNonNull(file.model()
                                                                .tensors()
                                                                .get("x")),
                                                        "x",
                                                        at,
                                                        IN),
                                        "labels",
                                                piece(
                                                        requireNonNull(file.model()
                                                                .tensors()
                                                                .get("t")),
                                                        "labels",
                                                        at,
                                                        OUT))));
                    }
                    try (Arena arena = Arena.ofConfined()) {
                        Map<String, Tensor> sums = new HashMap<>();
                        StepResult result = session.step(
                                batches,
                                0.01,
                                g -> g.names().forEach(w -> sums.put("d:" + w, floats(arena, "d:" + w, g.read(w)))),
                                false);
                        Map<String, Tensor> all = new HashMap<>(session.state(arena));
                        all.putAll(sums);
                        compare(step, rows, all, result, differences);
                    }
                }
            }
            assertEquals(List.of(), differences);
        }
    }

    private static Tensor floats(Arena arena, String name, float[] values) {
        return Tensor.ofFloats(arena, name, Shape.of(values.length), values);
    }

    /** 22 states and the loss, two gradients where they did not overflow; moments in F32 have no scales. */
    private static int level(List<String[]> rows, boolean overflowed) {
        return (rows.getFirst()[0].equals("O1") ? 19 : 23) + (overflowed ? 0 : 2);
    }

    private static void compare(
            int step, List<String[]> rows, Map<String, Tensor> state, StepResult result, List<String> differences) {
        int compared = 0;
        double loss = result.loss();
        for (String[] row : rows) {
            if (Integer.parseInt(row[2]) != step) {
                continue;
            }
            compared++;
            if (row[3].equals("loss")) {
                double tolerance = row[1].equals("clipped") ? 1e-4 : 1e-6;
                double expected = row[4].equals("inf") ? Double.POSITIVE_INFINITY : Double.parseDouble(row[4]);
                boolean same = expected == loss || Math.abs(expected - loss) <= tolerance * Math.abs(expected);
                if (!same) {
                    differences.add("step " + step + ": loss " + loss + ", torch " + expected);
                }
            } else {
                boolean isWeight = row[3].equals("w1") || row[3].equals("w2");
                Tensor t = state.get(isWeight ? TrainingSession.codesName(row[3]) : row[3]);
                if (t == null
                        || !(row[1].equals("clipped")
                                ? isNear(t, row[4])
                                : digest(t).equals(row[4]))) {
                    differences.add("step " + step + ": " + row[3] + (t == null ? " missing" : ""));
                }
            }
        }
        assertEquals(level(rows, result.skipped()), compared);
    }
}
