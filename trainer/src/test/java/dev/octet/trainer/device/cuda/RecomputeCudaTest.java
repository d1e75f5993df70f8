package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.activation.Kept;
import dev.octet.trainer.activation.Recompute;
import dev.octet.trainer.activation.TinyRun;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.io.IOException;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Repeated steps on a GPU, with its fusions and its transposes of codes; kernels run on this processor. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("kernels")
class RecomputeCudaTest {
    @ParameterizedTest
    @CsvSource({"gpt2, fp8", "llama, fp8", "gpt2, bf16", "vit, bf16"})
    void a_run_has_the_bytes_of_one_that_keeps_everything(String model, String precision) throws IOException {
        PrecisionPolicy policy = precision.equals("fp8")
                ? new Fp8Policy(Autocast.bf16(), Fp8Settings.of(DelayedScaling.DEFAULT))
                : Autocast.bf16();
        ActivationSettings all = new ActivationSettings(new Recompute.Layers(1), Kept.AS_THEY_ARE);
        try (TinyRun run = TinyRun.open(model);
                Device device = TestGpus.hostDevice()) {
            Map<String, byte[]> expected = run.steps(2, policy, ActivationSettings.NONE, device);
            Map<String, byte[]> actual = run.steps(2, policy, all, device);
            assertEquals(expected.keySet(), actual.keySet());
            expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
        }
    }

    @ParameterizedTest
    @CsvSource({"BF16", "FP8"})
    void activations_are_kept_in_fewer_bits(Kept kept) throws IOException {
        ActivationSettings narrow = new ActivationSettings(Recompute.NONE, kept);
        try (TinyRun run = TinyRun.open("gpt2");
                Device device = TestGpus.hostDevice()) {
            Map<String, byte[]> expected = run.steps(1, PrecisionPolicy.FP32, ActivationSettings.NONE, device);
            Map<String, byte[]> actual = run.steps(1, PrecisionPolicy.FP32, narrow, device);
            TinyRun.requireNear(expected, actual, 0.03);
        }
    }
}
