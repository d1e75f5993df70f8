package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
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
import dev.octet.quant.recipe.TrainingRecipe.CurrentScaling;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.recipe.TrainingRecipe.Mxfp8;
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
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
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
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Gradients computed again, beside those that a step of backward has just written where it is the only one to. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FreshGradientTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final Arena ARENA = Arena.ofAuto();
    /** Rows are no multiple of what tiles and transposes are padded to. */
    private static final Shape TOKENS = Shape.of(2, 21);

    static Stream<Arguments> models() {
        return Stream.of("gpt2", "llama", "mixtral")
                .flatMap(model -> Stream.of("fp32", "bf16", "delayed", "current", "block", "mxfp8")
                        .map(precision -> Arguments.of(model, precision)));
    }

    private static PrecisionPolicy policy(String precision) {
        return switch (precision) {
            case "fp32" -> PrecisionPolicy.FP32;
            case "bf16" -> Autocast.bf16();
            case "delayed" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(DelayedScaling.DEFAULT));
            case "current" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(CurrentScaling.DEFAULT));
            case "block" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(BlockScaling.DEFAULT));
            case "mxfp8" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(Mxfp8.DEFAULT));
            default -> throw new IllegalArgumentException(precision);
        };
    }

    private static Program program(GraphModel model, PrecisionPolicy policy) {
        Map<String, Shape> shapes =
                new TreeMap<>(Map.of("input_ids", TOKENS, "attention_mask", TOKENS, "labels", TOKENS));
        GraphModel concrete = TrainingGraph.of(model, Programs.sizes(model.graph(), shapes), new PassLog());
        LossConfig config =
                new LossConfig(LossConfig.Type.CAUSAL_LM, Optional.empty(), "labels", -100, Optional.empty());
        LossGraph loss = LossGraph.of(concrete, config, new OperandType(DType.I64, TOKENS));
        TreeSet<String> names = new TreeSet<>();
        Parameters.of(model.graph()).all().forEach(p -> names.add(p.name()));
        return Autodiff.program(loss.model(), ProgramOptions.training(loss.loss(), names, names, policy));
    }

    private static Tensor input(String name) {
        long[] all = new long[(int) TOKENS.elementCount()];
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < all.length; i++) {
            all[i] = name.equals("attention_mask") ? 1 : random.nextInt(2, 100);
        }
        return Tensor.ofLongs(ARENA, name, TOKENS, all);
    }

    /** Compares what each Linear has written with what it writes again. */
    private static final class Comparing implements StepObserver {
        private final FreshGradient fresh;
        private final Map<Value, Integer> writers = new HashMap<>();
        private int compared;

        Comparing(Device device, Program program) {
            fresh = new FreshGradient(device);
            for (Step s : program.steps()) {
                s.results().stream().filter(v -> v != null).forEach(v -> writers.merge(v, 1, Integer::sum));
            }
        }

        @Override
        public void after(Step step, long nanos, Executable running) {
            for (int i = 0;
                    step.backward()
                            && LinearStep.isOne(step)
                            && i < step.gradients().size();
                    i++) {
                Value gradient = step.gradients().get(i);
                // of the bias no one asks
                if (gradient != null && gradient.type().shape().rank() > 1 && isAlone(step, i, gradient)) {
                    try (Arena arena = Arena.ofConfined()) {
                        assertArrayEquals(
                                floats(Readings.of(gradient, running, arena)),
                                floats(fresh.of(step, i, running, arena)),
                                step.node() + " " + step.op().type() + " gradient of input " + i);
                        compared++;
                    }
                }
            }
        }

        /** Whether the value has this step's gradient alone: zeros were there before. */
        private boolean isAlone(Step step, int input, Value gradient) {
            return !step.accumulated().contains(input)
                    || (gradient.role() == ValueRole.GRADIENT && writers.getOrDefault(gradient, 0) == 1);
        }

        /** With one zero: what was added to zeros has no other. */
        private static float[] floats(CpuTensor tensor) {
            float[] all = new float[Math.toIntExact(tensor.count())];
            tensor.read(0, all, 0, all.length);
            for (int i = 0; i < all.length; i++) {
                all[i] += 0f;
            }
            return all;
        }
    }

    private static void check(String model, String precision, Device opened) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(model));
                Converter converter = Converter.of(source.model());
                Device device = opened) {
            Program program = program(converter.canonical(), policy(precision));
            Map<String, Parameter> parameters = new TreeMap<>();
            Parameters.of(converter.canonical().graph()).all().forEach(p -> parameters.put(p.name(), p));
            Comparing comparing = new Comparing(device, program);
            try (Memory memory = device.allocate(program.lasting());
                    Executable running = device.load(program, memory)) {
                for (Value v : program.lasting()) {
                    if (v.role() == ValueRole.PARAMETER) {
                        memory.write(
                                v,
                                Parameters.master(requireNonNull(parameters.get(v.name())), ARENA)
                                        .bytes());
                    } else if (v.name().equals(Program.LOSS_GRADIENT)) {
                        memory.write(
                                v,
                                Tensor.ofFloats(ARENA, v.name(), Shape.of(1), 1024f)
                                        .bytes());
                    }
                }
                program.inputs()
                        .forEach((name, v) -> running.feed(v, input(name).bytes()));
                running.observe(comparing);
                for (Phase phase : List.of(Phase.PREPARE, Phase.FORWARD)) {
                    running.run(phase);
                }
                running.runFirstBackward();
            }
            assertTrue(comparing.compared > 10, comparing.compared + " gradients");
        }
    }

    @ParameterizedTest
    @MethodSource("models")
    void on_a_processor_they_have_the_bits_of_the_step(String model, String precision) throws IOException {
        check(model, precision, CpuDevice.of(2));
    }

    @Tag("kernels")
    @ParameterizedTest
    @MethodSource("models")
    void on_a_GPU_they_have_the_bits_of_the_step(String model, String precision) throws IOException {
        check(model, precision, TestGpus.hostDevice());
    }
}
