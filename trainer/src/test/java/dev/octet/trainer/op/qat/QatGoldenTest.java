package dev.octet.trainer.op.qat;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every rule against testdata/golden/training/qat, which torch made from the formulas of papers and libraries. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QatGoldenTest {
    private static final Path FOLDER = Path.of(System.getProperty("octet.testdata"), "golden", "training", "qat");
    private static final List<String> INPUTS = List.of("x", "step", "offset", "pre", "global");

    static List<String> cases() throws IOException {
        try (Stream<Path> files = Files.list(FOLDER)) {
            return files.map(f -> f.getFileName().toString()).sorted().toList();
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void forward_has_the_bits_of_torch_and_gradients_are_within_a_millionth(String file) throws IOException {
        try (ModelFile opened = ModelFile.open(FOLDER.resolve(file));
                Arena arena = Arena.ofConfined()) {
            Model golden = opened.model();
            QuantizeNode node = node(golden);
            Map<Integer, CpuTensor> inputs = new HashMap<>();
            Map<Integer, CpuTensor> gradients = new HashMap<>();
            for (int i = 0; i < INPUTS.size(); i++) {
                Tensor t = golden.tensors().get(INPUTS.get(i));
                if (t != null) {
                    inputs.put(i, tensor(t));
                    if (golden.tensors().containsKey("d" + INPUTS.get(i))) {
                        gradients.put(i, empty(t, arena));
                    }
                }
            }
            CpuTensor x = requireNonNull(inputs.get(0));
            var blocks = node.blocks(x.shape());
            GridQuantize op = new GridQuantize(
                    x.type(), node.grid(), blocks, node.rule(), node.form(), (float) node.factor(x.shape(), blocks));
            CpuTensor y = empty(golden.tensor("x"), arena);
            Operands frame = new Operands(inputs, y, tensor(golden.tensor("dy")), gradients);
            CpuContext cpu = new CpuContext(Parallel.ALONE, Gemms.best());
            new GridQuantizeCpu().forward(op, frame, cpu);
            new GridQuantizeCpu().backward(op, frame, cpu);
            assertArrayEquals(golden.tensor("y").toFloats(), floats(y), "y");
            for (int i : gradients.keySet()) {
                assertEquals(true, op.isDifferentiable(i), INPUTS.get(i));
                near("d" + INPUTS.get(i), golden, floats(requireNonNull(gradients.get(i))));
            }
        }
    }

    private static QuantizeNode node(Model golden) {
        List<String> names = new ArrayList<>();
        for (String name : INPUTS) {
            names.add(golden.tensors().containsKey(name) ? name : "");
        }
        List<Attribute> attributes = new ArrayList<>();
        for (String key : List.of("grid", "granularity", "rule", "parameter", "offset", "count")) {
            attributes.add(Attribute.of(key, requireNonNull(golden.metadata().get(key), key)));
        }
        QuantizeNode node = QuantizeNode.read(Node.of(
                "n", "GridQuantize", Node.OCTET_DOMAIN, names, List.of("y"), attributes.toArray(Attribute[]::new)));
        boolean lsq = node.rule() == StepRule.LSQ;
        return new QuantizeNode(
                node.grid(),
                node.granularity(),
                false,
                node.rule(),
                node.form(),
                lsq ? node.count() : QuantizeNode.Count.NONE,
                false);
    }

    private static void near(String name, Model golden, float[] actual) {
        float[] expected = golden.tensor(name).toFloats();
        assertEquals(expected.length, actual.length, name);
        double largest = 0;
        for (float e : expected) {
            largest = Math.max(largest, Math.abs(e));
        }
        for (int i = 0; i < expected.length; i++) {
            assertEquals(expected[i], actual[i], 1e-6 * largest, name + " [" + i + "], largest " + largest);
        }
    }

    private static CpuTensor tensor(Tensor t) {
        return new CpuTensor(new OperandType(t.dtype(), t.shape()), t.bytes());
    }

    private static CpuTensor empty(Tensor like, Arena arena) {
        OperandType type = new OperandType(like.dtype(), like.shape());
        return new CpuTensor(type, arena.allocate(type.byteSize(), 64));
    }

    private static float[] floats(CpuTensor t) {
        float[] all = new float[(int) t.count()];
        t.read(0, all, 0, all.length);
        return all;
    }

    private record Operands(
            Map<Integer, CpuTensor> inputs, CpuTensor y, CpuTensor dy, Map<Integer, CpuTensor> gradients)
            implements Frame<CpuTensor> {
        @Override
        public boolean hasInput(int i) {
            return inputs.containsKey(i);
        }

        @Override
        public CpuTensor input(int i) {
            return requireNonNull(inputs.get(i));
        }

        @Override
        public CpuTensor output(int j) {
            return y;
        }

        @Override
        public boolean hasUpstream(int j) {
            return true;
        }

        @Override
        public CpuTensor upstream(int j) {
            return dy;
        }

        @Override
        public boolean wantsGradient(int i) {
            return gradients.containsKey(i);
        }

        @Override
        public CpuTensor gradient(int i) {
            @Nullable CpuTensor g = gradients.get(i);
            return requireNonNull(g);
        }

        @Override
        public boolean accumulates(int i) {
            return false;
        }
    }
}
