package dev.octet.trainer.activation;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.step.TrainingSession;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Steps that compute parts of forward again against those that keep everything, byte by byte. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RecomputeTest {
    private static final List<Recompute> WAYS = List.of(
            new Recompute.Layers(1),
            new Recompute.Layers(2),
            new Recompute.Matching(Pattern.compile("mlp|act|attn|attention")));

    private static ActivationSettings with(Recompute recompute) {
        return new ActivationSettings(recompute, Kept.AS_THEY_ARE);
    }

    private static void requireSame(Map<String, byte[]> expected, Map<String, byte[]> actual) {
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
    }

    @TestFactory
    Stream<DynamicTest> a_run_has_the_same_bytes_in_every_precision() {
        return TinyRun.policies().entrySet().stream()
                .map(policy -> dynamicTest(policy.getKey(), () -> check("gpt2", policy.getValue(), WAYS)));
    }

    @TestFactory
    Stream<DynamicTest> a_run_has_the_same_bytes_whatever_the_model() {
        return Stream.of("llama", "bert-cls", "vit", "gemma2")
                .flatMap(model -> Stream.of("fp32", "bf16", "delayed", "current")
                        .filter(TinyRun.policies()::containsKey)
                        .map(policy -> dynamicTest(
                                model + ", " + policy,
                                () -> check(
                                        model, requireNonNull(TinyRun.policies().get(policy)), WAYS.subList(0, 1)))));
    }

    private static void check(String model, PrecisionPolicy policy, List<Recompute> ways) throws IOException {
        try (TinyRun run = TinyRun.open(model);
                Device device = CpuDevice.of(2)) {
            Map<String, byte[]> expected = run.steps(3, policy, ActivationSettings.NONE, device);
            for (Recompute way : ways) {
                try (TrainingSession session = new TrainingSession(run.setup(policy, with(way)), device)) {
                    boolean repeats =
                            session.program(run.batch(0)).steps().stream().anyMatch(s -> s.repeats());
                    assertTrue(repeats, way + " repeats nothing");
                }
                requireSame(expected, run.steps(3, policy, with(way), device));
            }
        }
    }

    @Test
    void less_memory_is_needed() throws IOException {
        try (TinyRun run = TinyRun.open("gpt2");
                Device device = CpuDevice.of(1)) {
            long[] bytes = Stream.of(Recompute.NONE, new Recompute.Layers(1))
                    .mapToLong(way -> {
                        try (TrainingSession session =
                                new TrainingSession(run.setup(PrecisionPolicy.FP32, with(way)), device)) {
                            return MemoryPlan.of(session.program(run.batch(0))).arenaBytes();
                        }
                    })
                    .toArray();
            assertTrue(bytes[1] < bytes[0], Arrays.toString(bytes));
        }
    }

    @Test
    void a_pattern_that_no_node_has_is_refused() throws IOException {
        try (TinyRun run = TinyRun.open("gpt2");
                Device device = CpuDevice.of(1);
                TrainingSession session = new TrainingSession(
                        run.setup(PrecisionPolicy.FP32, with(new Recompute.Matching(Pattern.compile("nothing")))),
                        device)) {
            InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> session.prepare(run.batch(0)));
            assertTrue(
                    requireNonNull(e.getMessage()).contains("'nothing' is in the name of none of the"), e.getMessage());
        }
    }
}
