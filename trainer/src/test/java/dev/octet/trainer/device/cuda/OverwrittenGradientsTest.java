package dev.octet.trainer.device.cuda;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.norm.RowNorm;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Gradients that a step's first micro-batch writes over what is there. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class OverwrittenGradientsTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final Arena ARENA = Arena.ofAuto();
    private static final Shape TOKENS = Shape.of(2, 24);

    static Stream<Arguments> programs() {
        return Stream.of("gpt2", "llama")
                .flatMap(model -> Stream.of("fp8", "bf16").map(precision -> Arguments.of(model, precision)));
    }

    /** @param weights elements, by name */
    private record Made(Program program, Map<String, MemorySegment> weights) {
        static Made of(String model, String precision) throws IOException {
            PrecisionPolicy policy = precision.equals("fp8")
                    ? new Fp8Policy(Autocast.bf16(), Fp8Settings.of(DelayedScaling.DEFAULT))
                    : Autocast.bf16();
            try (ModelSource source = ModelSource.open(MODELS.resolve(model));
                    Converter converter = Converter.of(source.model())) {
                Map<String, MemorySegment> weights = new TreeMap<>();
                for (Parameter p : Parameters.of(converter.canonical().graph()).all()) {
                    MemorySegment master = Parameters.master(p, ARENA).bytes();
                    MemorySegment copy = ARENA.allocate(master.byteSize(), 8);
                    weights.put(p.name(), copy.copyFrom(master));
                }
                return new Made(FusionsTest.program(converter.canonical(), policy, TOKENS), weights);
            }
        }
    }

    /** What is there may be left by a step that did not count: it is not a number here. */
    @ParameterizedTest
    @MethodSource("programs")
    void a_step_of_two_micro_batches_has_the_bits_that_it_has_on_zeros(String model, String precision)
            throws IOException {
        Made made = Made.of(model, precision);
        Map<String, byte[]> expected = new TreeMap<>();
        run(made, (gradients, memory, executable) -> {
            gradients.forEach(memory::zero);
            executable.run(Phase.BACKWARD);
            expected.putAll(read("first", gradients, executable));
            executable.run(Phase.FORWARD);
            executable.run(Phase.BACKWARD);
            expected.putAll(read("both", gradients, executable));
        });
        Map<String, byte[]> actual = new TreeMap<>();
        run(made, (gradients, memory, executable) -> {
            for (Value gradient : gradients) {
                MemorySegment bytes = ARENA.allocate(gradient.type().byteSize(), 8);
                bytes.fill((byte) (executable.overwritten().contains(gradient) ? 0xFF : 0));
                memory.write(gradient, bytes);
            }
            executable.runFirstBackward();
            actual.putAll(read("first", gradients, executable));
            executable.run(Phase.FORWARD);
            executable.run(Phase.BACKWARD);
            actual.putAll(read("both", gradients, executable));
        });
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
    }

    private static Map<String, byte[]> read(String when, Set<Value> gradients, Executable executable) {
        Map<String, byte[]> all = new TreeMap<>();
        for (Value gradient : gradients) {
            MemorySegment bytes = ARENA.allocate(gradient.type().byteSize(), 8);
            executable.read(gradient, bytes);
            all.put(when + " " + gradient.name(), bytes.toArray(ValueLayout.JAVA_BYTE));
        }
        return all;
    }

    /** Two micro-batches, of which one has gone forward. */
    private interface Micro {
        void run(Set<Value> gradients, Memory memory, Executable executable);
    }

    private static void run(Made made, Micro micro) {
        Program program = made.program();
        try (Device device = new CudaDevice(TestGpus.host());
                Memory memory = device.allocate(program.lasting());
                Executable executable = device.load(program, memory)) {
            for (Value v : program.lasting()) {
                if (v.role() == ValueRole.PARAMETER) {
                    memory.write(v, requireNonNull(made.weights().get(v.name())));
                }
            }
            program.inputs().forEach((name, value) -> {
                MemorySegment bytes = ARENA.allocate(value.type().byteSize(), 8);
                for (long i = 0; i < value.type().count(); i++) {
                    bytes.setAtIndex(ValueLayout.JAVA_LONG, i, name.equals("attention_mask") ? 1 : (i * 7 + 3) % 50);
                }
                executable.feed(value, bytes);
            });
            executable.run(Phase.PREPARE);
            executable.run(Phase.FORWARD);
            micro.run(gradients(program), memory, executable);
        }
    }

    private static Set<Value> gradients(Program program) {
        return program.lasting().stream()
                .filter(v -> v.role() == ValueRole.GRADIENT)
                .collect(Collectors.toSet());
    }

    private static OverwrittenGradients overwritten(Program program) {
        return OverwrittenGradients.of(program, MemoryPlan.of(program)::root);
    }

    /** That of GPT-2's head is also the table of its tokens, whose gradient is added behind the head's. */
    @ParameterizedTest
    @MethodSource("programs")
    void weights_of_all_products_are_overwritten_tied_ones_too(String model, String precision) throws IOException {
        Program program = Made.of(model, precision).program();
        Set<String> products = new TreeSet<>();
        Set<String> others = new TreeSet<>();
        for (Step s : program.steps(Phase.BACKWARD)) {
            boolean isOther = !s.backward() || s.op() instanceof Gather || s.op() instanceof RowNorm;
            for (Value v : s.results()) {
                if (v != null && v.role() == ValueRole.GRADIENT) {
                    (isOther ? others : products).add(v.name());
                }
            }
        }
        Set<String> names =
                overwritten(program).values().stream().map(Value::name).collect(Collectors.toSet());
        assertTrue(products.size() > 8, products.toString());
        assertTrue(names.containsAll(products), products + ", but " + names);
        assertFalse(others.isEmpty());
    }

    @Test
    void a_gradient_that_is_read_before_it_is_added_to_is_not_overwritten() throws IOException {
        Program program = Made.of("gpt2", "bf16").program();
        Set<Value> values = overwritten(program).values();
        for (Step s : program.steps(Phase.BACKWARD)) {
            if (!s.backward()) {
                s.inputs().stream()
                        .filter(v -> v != null && v.role() == ValueRole.GRADIENT)
                        .forEach(v -> assertFalse(values.contains(v), () -> String.valueOf(v)));
            }
        }
        assertTrue(values.size() < gradients(program).size());
    }

    @Test
    void of_steps_that_add_to_a_gradient_the_first_alone_overwrites_it() throws IOException {
        Program program = Made.of("gpt2", "bf16").program();
        OverwrittenGradients overwritten = overwritten(program);
        Map<Value, Long> writers = overwritten.steps().entrySet().stream()
                .flatMap(e -> e.getKey().accumulated().stream()
                        .filter(i -> !e.getValue().accumulated().contains(i))
                        .map(i -> requireNonNull(e.getKey().gradients().get(i))))
                .collect(Collectors.groupingBy(v -> v, Collectors.counting()));
        assertEquals(overwritten.values(), writers.keySet());
        assertEquals(Set.of(1L), Set.copyOf(writers.values()));
    }
}
