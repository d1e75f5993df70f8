package dev.octet.trainer.device.cuda;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.TrainingRecipe.BlockScaling;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.op.GpuFusions;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Programs of whole models with steps done together against the same ones step by step. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class FusionsTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final Arena ARENA = Arena.ofAuto();
    private static final int SEQUENCE = 24;
    private static final float LOSS_SCALE = 1024;

    static Stream<Arguments> programs() {
        return Stream.of("gpt2", "llama", "gemma")
                .flatMap(model -> Stream.of("fp8", "bf16").map(precision -> Arguments.of(model, precision)));
    }

    /** LayerNorm and RMSNorm, Gelu, SwiGLU and GeGLU; in FP8 and in BF16. */
    @ParameterizedTest
    @MethodSource("programs")
    void steps_that_run_together_give_the_bits_of_steps_that_do_not(String model, String precision) throws IOException {
        check(model, precision, TestGpus::host);
    }

    /** Scales of runs and squares of 128, of which these matrices have parts; observed or not. */
    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama"})
    void casts_in_blocks_that_run_together_give_the_same_bits(String model) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(model));
                Converter converter = Converter.of(source.model())) {
            Program program = program(converter.canonical(), policy("block"), Shape.of(6, 24));
            Parameters parameters = Parameters.of(converter.canonical().graph());
            Map<String, byte[]> seenAlone = new TreeMap<>();
            Map<String, byte[]> alone = run(program, parameters, TestGpus.host(), List.of(), new Observed(seenAlone));
            Counting gpu = new Counting(TestGpus.host());
            Map<String, byte[]> together = run(program, parameters, gpu, GpuFusions.ALL);
            assertEquals(alone.keySet(), together.keySet());
            alone.forEach((name, bytes) -> assertArrayEquals(bytes, together.get(name), name));
            assertTrue(gpu.launches.contains("cast_runs_bf16_e4m3"), gpu.launches.toString());
            assertTrue(gpu.launches.contains("cast_squares_f32_e4m3"), gpu.launches.toString());
            Map<String, byte[]> seenTogether = new TreeMap<>();
            run(program, parameters, TestGpus.host(), GpuFusions.ALL, new Observed(seenTogether));
            assertEquals(seenAlone.keySet(), seenTogether.keySet());
            seenAlone.forEach((name, bytes) -> assertArrayEquals(bytes, seenTogether.get(name), name));
        }
    }

    /** 70 rows: of the tiles that transposes are made of, and of a product's padding, a part. */
    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama"})
    void rows_that_fill_no_tile_give_the_same_bits(String model) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(model));
                Converter converter = Converter.of(source.model())) {
            Program program = program(converter.canonical(), policy("fp8"), Shape.of(2, 35));
            Parameters parameters = Parameters.of(converter.canonical().graph());
            Map<String, byte[]> alone = run(program, parameters, TestGpus.host(), List.of());
            Map<String, byte[]> together = run(program, parameters, TestGpus.host(), GpuFusions.ALL);
            assertEquals(alone.keySet(), together.keySet());
            alone.forEach((name, bytes) -> assertArrayEquals(bytes, together.get(name), name));
        }
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("programs")
    void on_the_gpu_steps_that_run_together_give_the_bits_of_steps_that_do_not(String model, String precision)
            throws IOException {
        check(model, precision, TestGpus::real);
    }

    /** Results that no step reads are not written, except where somebody looks on. */
    @ParameterizedTest
    @MethodSource("programs")
    void an_observer_sees_what_it_sees_step_by_step(String model, String precision) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(model));
                Converter converter = Converter.of(source.model())) {
            Program program = program(converter.canonical(), policy(precision));
            Parameters parameters = Parameters.of(converter.canonical().graph());
            Map<String, byte[]> alone = new TreeMap<>();
            run(program, parameters, TestGpus.host(), List.of(), new Observed(alone));
            Map<String, byte[]> together = new TreeMap<>();
            run(program, parameters, TestGpus.host(), GpuFusions.ALL, new Observed(together));
            assertEquals(alone.keySet(), together.keySet());
            alone.forEach((name, bytes) -> assertArrayEquals(bytes, together.get(name), name));
            assertTrue(alone.size() > 20, alone.keySet().toString());
        }
    }

    /** Remembers the results of forward, upstream gradients, and those of activations. */
    record Observed(Map<String, byte[]> seen) implements StepObserver {
        @Override
        public void after(Step step, long nanos, Executable running) {
            for (int i = 0; !step.backward() && i < step.op().outputs().size(); i++) {
                Value result = requireNonNull(step.outputs().get(i));
                seen.put(
                        result.role() == ValueRole.GRADIENT
                                ? result.name()
                                : step.phase() + " " + step.node() + " "
                                        + step.op().type() + " result " + i,
                        read(result, running));
            }
            for (int i = 0; step.backward() && i < step.gradients().size(); i++) {
                Value gradient = step.gradients().get(i);
                if (gradient != null && gradient.role() != ValueRole.GRADIENT) {
                    seen.put(step.node() + " " + step.op().type() + " gradient " + i, read(gradient, running));
                }
            }
            Value upstream = step.backward() ? step.upstream().getFirst() : null;
            if (upstream != null) {
                seen.put(step.node() + " " + step.op().type() + " upstream", read(upstream, running));
            }
        }
    }

    static PrecisionPolicy policy(String precision) {
        return switch (precision) {
            case "fp8" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(DelayedScaling.DEFAULT));
            case "fp8 in fp32" -> new Fp8Policy(Autocast.fp32(), Fp8Settings.of(DelayedScaling.DEFAULT));
            case "block" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(BlockScaling.DEFAULT));
            default -> Autocast.bf16();
        };
    }

    private static void check(String model, String precision, Supplier<Gpu> gpus) throws IOException {
        PrecisionPolicy policy = policy(precision);
        try (ModelSource source = ModelSource.open(MODELS.resolve(model));
                Converter converter = Converter.of(source.model())) {
            Program program = program(converter.canonical(), policy);
            Parameters parameters = Parameters.of(converter.canonical().graph());
            Counting alone = new Counting(gpus.get());
            Map<String, byte[]> expected = run(program, parameters, alone, List.of());
            Counting together = new Counting(gpus.get());
            Map<String, byte[]> actual = run(program, parameters, together, GpuFusions.ALL);
            assertEquals(expected.keySet(), actual.keySet());
            expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
            assertTrue(
                    together.launches.size() < alone.launches.size(),
                    together.launches.size() + " launches, step by step " + alone.launches.size());
            String norm = precision.equals("fp8") ? "norm_forward_transposed" : "norm_forward_fused";
            assertTrue(together.launches.contains(norm), together.launches.toString());
            String weights = precision.equals("fp8") ? "casts_transpose_f32_e4m3" : "casts_forward";
            assertTrue(together.launches.contains(weights), together.launches.toString());
            if (model.equals("gpt2")) { // whose Linear makes queries, keys and values together
                assertTrue(alone.launches.stream().anyMatch(l -> l.startsWith("box_copy")), alone.launches.toString());
                assertTrue(
                        together.launches.stream().noneMatch(l -> l.startsWith("box_copy")),
                        together.launches.toString());
            }
            String gradient = precision.equals("fp8") ? "norm_backward_transposed" : "norm_backward_fused";
            assertTrue(together.launches.contains(gradient), together.launches.toString());
            if (!model.equals("gpt2")) {
                List<String> others = List.of("unary_backward", "gelu_backward", "accumulate_forward_bf16");
                assertTrue(
                        together.launches.stream()
                                .noneMatch(l -> others.stream().anyMatch(l::startsWith)),
                        together.launches.toString());
                assertEquals(
                        2 * 2, // queries and keys of each layer
                        together.launches.stream().filter("rotary_turn"::equals).count() / 2,
                        "forward and backward");
                assertTrue(
                        together.launches.stream()
                                .anyMatch(l -> l.startsWith(
                                        precision.equals("fp8") ? "gated_gradient_transpose_" : "gated_backward_")),
                        together.launches.toString());
            }
            if (precision.equals("fp8")) {
                String activation = model.equals("gpt2") ? "gelu_" : "gated_";
                assertTrue(
                        together.launches.stream()
                                .anyMatch(l ->
                                        l.startsWith(activation + "amax") || l.startsWith(activation + "transpose")),
                        together.launches.toString());
                if (model.equals("gpt2")) {
                    assertTrue(
                            together.launches.stream().anyMatch(l -> l.startsWith("gelu_gradient_")),
                            together.launches.toString());
                }
                assertTrue(together.products.stream().anyMatch(CudaProduct::isFp8), "products of codes");
                assertTrue(
                        together.launches.stream().anyMatch(l -> l.startsWith("score_gradient_")),
                        together.launches.toString());
            }
        }
    }

    private static Program program(GraphModel model, PrecisionPolicy policy) {
        return program(model, policy, Shape.of(2, SEQUENCE));
    }

    /** A training program of a causal language model on samples and tokens. */
    static Program program(GraphModel model, PrecisionPolicy policy, Shape shape) {
        Map<String, Shape> shapes = new TreeMap<>(Map.of("input_ids", shape, "attention_mask", shape, "labels", shape));
        GraphModel concrete = TrainingGraph.of(model, Programs.sizes(model.graph(), shapes), new PassLog());
        LossConfig config =
                new LossConfig(LossConfig.Type.CAUSAL_LM, Optional.empty(), "labels", -100, Optional.empty());
        LossGraph loss = LossGraph.of(concrete, config, new OperandType(DType.I64, shape));
        TreeSet<String> names = new TreeSet<>();
        Parameters.of(model.graph()).all().forEach(p -> names.add(p.name()));
        return Autodiff.program(loss.model(), ProgramOptions.training(loss.loss(), names, names, policy));
    }

    /** Loss, gradients and states of a step. */
    private static Map<String, byte[]> run(Program program, Parameters parameters, Gpu gpu, List<CudaFusion> fusions) {
        return run(program, parameters, gpu, fusions, null);
    }

    static Map<String, byte[]> run(
            Program program,
            Parameters parameters,
            Gpu gpu,
            List<CudaFusion> fusions,
            @Nullable StepObserver observer) {
        try (Device device = new CudaDevice(gpu, fusions);
                Memory memory = device.allocate(program.lasting());
                Executable executable = device.load(program, memory)) {
            Map<String, Parameter> byName = new TreeMap<>();
            parameters.all().forEach(p -> byName.put(p.name(), p));
            for (Value v : program.lasting()) {
                if (v.role() == ValueRole.PARAMETER) {
                    Tensor master = Parameters.master(requireNonNull(byName.get(v.name())), ARENA);
                    memory.write(v, master.bytes());
                }
            }
            program.initialStates().forEach((v, numbers) -> memory.write(v, state(v, numbers)));
            program.inputs().forEach((name, value) -> executable.feed(value, input(name, value)));
            executable.observe(observer);
            executable.run(Phase.PREPARE);
            executable.run(Phase.FORWARD);
            executable.run(Phase.BACKWARD);
            Map<String, byte[]> results = new TreeMap<>();
            results.put(Program.LOSS, read(requireNonNull(program.outputs().get(Program.LOSS)), executable));
            for (Value v : program.lasting()) {
                if (v.role() == ValueRole.GRADIENT || v.role() == ValueRole.STATE) {
                    results.put(v.name(), read(v, executable));
                }
            }
            assertNumbers(results);
            return results;
        }
    }

    /** Bits of gradients that are zero or NaN would say nothing. */
    private static void assertNumbers(Map<String, byte[]> results) {
        Map<String, Double> sums = new TreeMap<>();
        results.forEach((name, bytes) -> {
            if (name.startsWith("d:")) {
                FloatBuffer numbers =
                        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
                double sum = 0;
                while (numbers.hasRemaining()) {
                    sum += Math.abs(numbers.get());
                }
                sums.put(name, sum);
            }
        });
        assertTrue(sums.values().stream().allMatch(sum -> sum > 0 && sum < Double.MAX_VALUE), sums.toString());
    }

    /** As a session begins, with a loss scale, so that gradients are numbers that E5M2 holds. */
    private static MemorySegment state(Value v, List<Float> numbers) {
        float scale = v.name().equals(Program.LOSS_GRADIENT) ? LOSS_SCALE : 1;
        MemorySegment bytes = ARENA.allocate(v.type().byteSize(), 8);
        for (int i = 0; i < v.type().count(); i++) {
            float number = numbers.get(numbers.size() == 1 ? 0 : i);
            bytes.setAtIndex(ValueLayout.JAVA_FLOAT, i, scale * number);
        }
        return bytes;
    }

    /** Numbers of tokens that the smallest vocabulary has; all positions are there. */
    private static MemorySegment input(String name, Value value) {
        MemorySegment bytes = ARENA.allocate(value.type().byteSize(), 8);
        for (long i = 0; i < value.type().count(); i++) {
            bytes.setAtIndex(ValueLayout.JAVA_LONG, i, name.equals("attention_mask") ? 1 : (i * 7 + 3) % 36);
        }
        return bytes;
    }

    private static byte[] read(Value value, Executable executable) {
        MemorySegment bytes = ARENA.allocate(value.type().byteSize(), 8);
        executable.read(value, bytes);
        return bytes.toArray(ValueLayout.JAVA_BYTE);
    }

    /** Remembers the products that were made ready, and the kernels that ran. */
    static final class Counting extends ForwardingGpu {
        final List<String> launches = new ArrayList<>();
        private final List<CudaProduct> products = new ArrayList<>();

        Counting(Gpu gpu) {
            super(gpu);
        }

        @Override
        public Work product(CudaProduct product) {
            products.add(product);
            return super.product(product);
        }

        @Override
        public Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments) {
            Work work = super.launch(source, kernel, grid, arguments);
            return telling(work, () -> launches.add(kernel));
        }
    }
}
