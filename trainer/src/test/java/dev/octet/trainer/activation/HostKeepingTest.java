package dev.octet.trainer.activation;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.host.HostCopy;
import dev.octet.trainer.op.host.HostCopy.Stage;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Roots;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.step.TrainingSession;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Activations that lie in host memory between forward and backward against those that stay, byte by byte. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HostKeepingTest {
    /** Rows from which on hidden states are large enough to leave. */
    private static final int ROWS = 24;

    private static final ActivationSettings AWAY = ActivationSettings.NONE.at(Home.HOST);
    private static final ActivationSettings REPEATED =
            new ActivationSettings(new Recompute.Layers(1), Kept.AS_THEY_ARE);
    private static final ActivationSettings CODED = new ActivationSettings(Recompute.NONE, Kept.FP8);

    private static void requireSame(Map<String, byte[]> expected, Map<String, byte[]> actual) {
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
    }

    private static Program program(TinyRun run, PrecisionPolicy policy, ActivationSettings settings, Device device) {
        try (TrainingSession session = new TrainingSession(run.setup(policy, settings), device)) {
            return session.program(run.batch(0));
        }
    }

    private static List<HostCopy> copies(Program program) {
        return program.steps().stream()
                .filter(s -> s.op() instanceof HostCopy)
                .map(s -> (HostCopy) s.op())
                .toList();
    }

    @ParameterizedTest
    @CsvSource({
        "gpt2, fp32",
        "gpt2, bf16",
        "gpt2, fp16",
        "gpt2, delayed",
        "gpt2, current",
        "llama, fp32",
        "vit, bf16",
        "bert-cls, fp32"
    })
    void a_run_has_the_same_bytes(String model, String precision) throws IOException {
        PrecisionPolicy policy = requireNonNull(TinyRun.policies().get(precision));
        try (TinyRun run = TinyRun.open(model, ROWS);
                Device device = CpuDevice.of(2)) {
            assertFalse(copies(program(run, policy, AWAY, device)).isEmpty());
            requireSame(run.steps(2, policy, ActivationSettings.NONE, device), run.steps(2, policy, AWAY, device));
            requireSame(run.steps(2, policy, CODED, device), run.steps(2, policy, CODED.at(Home.HOST), device));
        }
    }

    @Test
    void the_reference_has_the_same_bytes() throws IOException {
        try (TinyRun run = TinyRun.open("gpt2", ROWS);
                Device device = new ReferenceDevice()) {
            PrecisionPolicy policy = PrecisionPolicy.FP32;
            requireSame(run.steps(1, policy, ActivationSettings.NONE, device), run.steps(1, policy, AWAY, device));
        }
    }

    /** With FP8 the casts of the second step are measured, so that its steps run one by one. */
    @Tag("kernels")
    @Tag("sweep")
    @ParameterizedTest
    @ValueSource(strings = {"fp32", "bf16", "delayed"})
    void lanes_of_a_gpu_wait_for_each_other(String precision) throws IOException {
        PrecisionPolicy policy = requireNonNull(TinyRun.policies().get(precision));
        try (TinyRun run = TinyRun.open("gpt2", ROWS)) {
            for (ActivationSettings settings : List.of(ActivationSettings.NONE, REPEATED, CODED)) {
                Map<String, byte[]> expected;
                try (Device device = TestGpus.hostDevice()) {
                    expected = run.steps(2, policy, settings, device);
                }
                for (long seed = 1; seed <= 3; seed++) {
                    try (Device device = TestGpus.laggingDevice(seed, 1 << 20)) {
                        requireSame(expected, run.steps(2, policy, settings.at(Home.HOST), device));
                    }
                }
            }
        }
    }

    @Test
    void a_copy_back_starts_a_block_before_it_is_needed() throws IOException {
        try (TinyRun run = TinyRun.open("gpt2", ROWS);
                Device device = CpuDevice.of(1)) {
            Program program = program(run, PrecisionPolicy.FP32, AWAY, device);
            Map<Value, Integer> started = new HashMap<>();
            int computed = 0;
            int trips = 0;
            for (Step s : program.steps()) {
                if (s.op() instanceof HostCopy copy) {
                    Value there = copy.stage() == Stage.LEAVE || copy.stage() == Stage.COME_BACK
                            ? (copy.stage() == Stage.LEAVE ? s.outputs() : s.inputs()).getFirst()
                            : s.inputs().get(copy.stage() == Stage.LEFT ? 1 : 0);
                    if (copy.stage() == Stage.LEAVE || copy.stage() == Stage.COME_BACK) {
                        started.put(there, computed);
                    } else {
                        trips++;
                        assertTrue(
                                computed - requireNonNull(started.remove(there)) >= 5,
                                "hardly anything computes meanwhile: " + s);
                    }
                } else if (!s.isView()) {
                    computed++;
                }
            }
            assertTrue(started.isEmpty());
            assertEquals(copies(program).size(), 2 * trips);
        }
    }

    @Test
    void small_values_and_codes_of_linears_stay() throws IOException {
        try (TinyRun run = TinyRun.open("gpt2", ROWS);
                Device device = CpuDevice.of(1)) {
            Program program = program(run, requireNonNull(TinyRun.policies().get("delayed")), AWAY, device);
            assertTrue(copies(program).stream().allMatch(c -> c.value().byteSize() >= Home.LEAST_BYTES));
            Roots roots = Roots.of(program);
            for (Step s : program.steps()) {
                if (s.backward() && s.op() instanceof Fp8Linear) {
                    assertTrue(Tape.reads(s).stream()
                            .filter(v -> v.type().dtype().isFloat8())
                            .noneMatch(v -> roots.of(v).name().startsWith("back:")));
                }
            }
        }
        try (TinyRun run = TinyRun.open("gpt2", 1);
                Device device = CpuDevice.of(1)) {
            assertEquals(List.of(), copies(program(run, PrecisionPolicy.FP32, AWAY, device)));
        }
    }
}
