package dev.octet.trainer.device.cuda;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

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
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.op.GpuFusions;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A head whose vocabulary is no multiple of 16 bytes, as large as copies pay. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class LongRowsTest {
    private static final int ROWS = 512;
    private static final int WIDTH = 512;
    private static final int CLASSES = 3821;
    private static final GraphModel MODEL = model();

    /**
     * Where a row begins decides in which order its exponentials are added: a bit of a log Σ exp, which has one gradient of some thousands rounded to its neighbour, in BF16 by
     * 2^-8 of itself, in E5M2 by a quarter.
     */
    private static final double MOST = 2e-3;

    private static GraphModel model() {
        SplittableRandom random = new SplittableRandom(7);
        Graph graph = Graph.of(
                "g",
                List.of(
                        Node.of("x", "Gather", "", List.of("table", "ids"), List.of("x")),
                        Node.of(
                                "logits",
                                "Linear",
                                Node.OCTET_DOMAIN,
                                List.of("x", "w"),
                                List.of("logits"),
                                Attribute.of("transB", 1L))),
                List.of(
                        Initializer.of(normal("table", random, 50, WIDTH)),
                        Initializer.of(normal("w", random, CLASSES, WIDTH))),
                List.of(info("ids", DType.I64, 1, ROWS)),
                List.of(info("logits", DType.F32, 1, ROWS, CLASSES)));
        return GraphModel.of(graph, 10, 23);
    }

    private static ValueInfo info(String name, DType type, long... dims) {
        return new ValueInfo(
                name, new TensorType(type, Arrays.stream(dims).mapToObj(Dim::of).toList()));
    }

    private static Tensor normal(String name, SplittableRandom random, int rows, int columns) {
        float[] values = new float[rows * columns];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) (0.1 * random.nextGaussian());
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(rows, columns), values);
    }

    private static Program program(String precision, UnaryOperator<ProgramOptions> changes) {
        LossConfig config =
                new LossConfig(LossConfig.Type.CAUSAL_LM, Optional.of("logits"), "labels", -100, Optional.empty());
        LossGraph loss = LossGraph.of(MODEL, config, new OperandType(DType.I64, Shape.of(1, ROWS)));
        Set<String> names = new TreeSet<>(Set.of("table", "w"));
        return Autodiff.program(
                loss.model(),
                changes.apply(ProgramOptions.training(loss.loss(), names, names, FusionsTest.policy(precision))));
    }

    /** The copies that are left are of weights; in FP8 those are no rows but one piece. */
    @ParameterizedTest
    @CsvSource({"bf16, 5, 3", "fp8, 1, 0"})
    void logits_in_long_rows_give_the_numbers_of_copies(String precision, int copies, int left) {
        Program program = program(precision, UnaryOperator.identity());
        Parameters parameters = Parameters.of(MODEL.graph());
        FusionsTest.Counting alone = new FusionsTest.Counting(TestGpus.host());
        Map<String, byte[]> seenAlone = new TreeMap<>();
        Map<String, byte[]> expected =
                FusionsTest.run(program, parameters, alone, List.of(), new FusionsTest.Observed(seenAlone));
        FusionsTest.Counting together = new FusionsTest.Counting(TestGpus.host());
        Map<String, byte[]> seen = new TreeMap<>();
        Map<String, byte[]> actual =
                FusionsTest.run(program, parameters, together, GpuFusions.ALL, new FusionsTest.Observed(seen));
        String linear = precision.equals("fp8") ? "Fp8Linear" : "Linear";
        String logits = "FORWARD logits " + linear + " result 0";
        assertArrayEquals(requireNonNull(seenAlone.get(logits)), seen.get(logits));
        assertEquals(seenAlone.keySet(), seen.keySet());
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach(
                (name, bytes) -> assertEquals(0, distance(bytes, requireNonNull(actual.get(name))), MOST, name));
        assertEquals(copies, Collections.frequency(alone.launches, "copy_rows"));
        assertEquals(left, Collections.frequency(together.launches, "copy_rows"));
    }

    /** Of F32, by the norm of the first. */
    private static double distance(byte[] expected, byte[] actual) {
        FloatBuffer a = ByteBuffer.wrap(expected).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
        FloatBuffer b = ByteBuffer.wrap(actual).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
        double norm = 0;
        double difference = 0;
        for (int i = 0; i < a.limit(); i++) {
            norm += (double) a.get(i) * a.get(i);
            difference += Math.pow((double) a.get(i) - b.get(i), 2);
        }
        return norm == 0 ? Math.sqrt(difference) : Math.sqrt(difference / norm);
    }

    @ParameterizedTest
    @ValueSource(strings = {"bf16", "fp8"})
    void logits_that_are_read_outside_lie_one_behind_the_other(String precision) {
        for (boolean outside : new boolean[] {false, true}) {
            Program program = program(precision, o -> outside ? o.withOutputs(List.of("logits")) : o);
            MemoryPlan roots = MemoryPlan.of(program);
            LongRows found = LongRows.of(program, roots, WorkWriter.first(TestGpus.host()));
            int gradient = precision.equals("bf16") ? 1 : 0; // which codes are made of at once in FP8
            assertEquals(outside ? gradient : 1 + gradient, found.bytes().size());
        }
    }
}
