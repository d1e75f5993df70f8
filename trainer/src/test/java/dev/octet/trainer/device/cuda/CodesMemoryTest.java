package dev.octet.trainer.device.cuda;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
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
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.LayerFilter;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Codes of activations lie in memory in one form at a time: as they are until the last product that takes them so, their transpose until the weight's gradient. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CodesMemoryTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final Arena ARENA = Arena.ofAuto();
    private static final int WIDTH = 32;

    /** The head, whose vocabulary is odd, stays in BF16. */
    private static PrecisionPolicy fp8() {
        return new Fp8Policy(
                Autocast.bf16(),
                new Fp8Settings(
                        DelayedScaling.DEFAULT,
                        Set.of(),
                        false,
                        true,
                        false,
                        false,
                        LayerFilter.MULTIPLE_OF_16,
                        Map.of(),
                        List.of(),
                        Map.of()));
    }

    private static Program program(String model, PrecisionPolicy policy, Shape shape) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(model));
                Converter converter = Converter.of(source.model())) {
            return FusionsTest.program(converter.canonical(), policy, shape);
        }
    }

    private static long bytes(Program program) {
        Allocating gpu = new Allocating(TestGpus.host());
        try (Device device = new CudaDevice(gpu);
                Memory memory = device.allocate(program.lasting());
                Executable executable = device.load(program, memory)) {
            assertTrue(executable.bytes() < gpu.bytes, "its own, without weights");
            return gpu.bytes;
        }
    }

    /** Linears and Gelus, as the second halves of a transformer's layers have them, of 3072 tokens. */
    private static Program layers(PrecisionPolicy policy) {
        List<Node> nodes = new ArrayList<>();
        List<Initializer> weights = new ArrayList<>();
        Set<String> names = new TreeSet<>();
        String x = "x";
        for (int layer = 0; layer < 6; layer++) {
            String up = "up" + layer;
            String down = "down" + layer;
            weights.add(Initializer.of(
                    Tensor.ofFloats(ARENA, up, Shape.of(WIDTH, 4 * WIDTH), new float[4 * WIDTH * WIDTH])));
            weights.add(Initializer.of(
                    Tensor.ofFloats(ARENA, down, Shape.of(4 * WIDTH, WIDTH), new float[4 * WIDTH * WIDTH])));
            names.addAll(List.of(up, down));
            nodes.add(node("Linear", List.of(x, up), "h" + layer));
            nodes.add(node("Gelu", List.of("h" + layer), "a" + layer));
            nodes.add(node("Linear", List.of("a" + layer, down), "y" + layer));
            x = "y" + layer;
        }
        nodes.add(node("ReduceMean", List.of(x), "loss", Attribute.of("keepdims", 0L)));
        Graph graph = Graph.of(
                "g",
                nodes,
                weights,
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(Dim.of(3072), Dim.of(WIDTH))))),
                List.of(new ValueInfo("loss", new TensorType(DType.F32, List.of()))));
        return Autodiff.program(GraphModel.of(graph, 10, 23), ProgramOptions.training("loss", names, names, policy));
    }

    private static Node node(String type, List<String> inputs, String output, Attribute... attributes) {
        String domain = type.equals("Linear") ? Node.OCTET_DOMAIN : "";
        return Node.of(output, type, domain, inputs, List.of(output), attributes);
    }

    /** Weights, gradients and activations. */
    @Test
    void training_in_fp8_takes_less_memory_than_in_bf16() {
        long fp8 = bytes(layers(fp8()));
        long bf16 = bytes(layers(Autocast.bf16()));
        assertTrue(fp8 < bf16, fp8 + " bytes in FP8, " + bf16 + " in BF16");
    }

    @Test
    void who_looks_on_backward_sees_the_codes_of_which_only_the_transpose_is_there() throws IOException {
        Program program = program("gpt2", fp8(), Shape.of(2, 24));
        Map<Value, byte[]> made = new HashMap<>();
        Map<Value, byte[]> seen = new HashMap<>();
        StepObserver observer = (step, nanos, running) -> {
            if (!step.backward()) {
                step.outputs().stream()
                        .filter(v -> v != null && v.type().dtype().bits() == 8)
                        .forEach(v -> made.put(v, read(requireNonNull(v), running)));
            } else if (step.op() instanceof Fp8Linear) {
                codes(step, running, seen);
            }
        };
        try (Device device = new CudaDevice(TestGpus.host());
                Memory memory = device.allocate(program.lasting());
                Executable executable = device.load(program, memory)) {
            program.inputs().forEach((name, value) -> {
                MemorySegment ones = ARENA.allocate(value.type().byteSize(), 8);
                for (long i = 0; i < value.type().count(); i++) {
                    ones.setAtIndex(ValueLayout.JAVA_LONG, i, 1);
                }
                executable.feed(value, ones);
            });
            executable.observe(observer);
            executable.run(Phase.PREPARE);
            executable.run(Phase.FORWARD);
            executable.run(Phase.BACKWARD);
        }
        assertTrue(seen.size() > 6, seen.keySet().toString());
        seen.forEach((value, bytes) -> assertArrayEquals(made.get(value), bytes, value.name()));
    }

    private static void codes(Step step, Executable running, Map<Value, byte[]> seen) {
        Value codes = step.inputs().get(Fp8Linear.X_CODES);
        if (codes != null) {
            seen.put(codes, read(codes, running));
        }
    }

    private static byte[] read(Value value, Executable running) {
        MemorySegment bytes = ARENA.allocate(value.type().byteSize(), 8);
        running.read(value, bytes);
        return bytes.toArray(ValueLayout.JAVA_BYTE);
    }

    /** Counts what is allocated. */
    private static final class Allocating extends ForwardingGpu {
        private long bytes;

        Allocating(Gpu gpu) {
            super(gpu);
        }

        @Override
        public long allocate(long size, String what) {
            bytes += size;
            return super.allocate(size, what);
        }
    }
}
