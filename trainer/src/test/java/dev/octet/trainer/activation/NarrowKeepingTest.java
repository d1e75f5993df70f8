package dev.octet.trainer.activation;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Activations kept in fewer bits: the loss of the first step has the same bits, gradients are off by no more than docs/memory.md says. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NarrowKeepingTest {
    private static ActivationSettings with(Kept kept) {
        return new ActivationSettings(Recompute.NONE, kept);
    }

    @ParameterizedTest
    @CsvSource({
        "gpt2, BF16, fp32, 0.002",
        "gpt2, FP8, fp32, 0.03",
        "gpt2, FP8, bf16, 0.03",
        "llama, FP8, fp32, 0.03",
        "vit, BF16, fp32, 0.002",
        "vit, FP8, fp32, 0.03"
    })
    void gradients_are_near_and_the_loss_is_the_same(String model, Kept kept, String precision, double limit)
            throws IOException {
        PrecisionPolicy policy = precision.equals("fp32") ? PrecisionPolicy.FP32 : Autocast.bf16();
        try (TinyRun run = TinyRun.open(model);
                Device device = CpuDevice.of(2)) {
            Map<String, byte[]> expected = run.steps(1, policy, ActivationSettings.NONE, device);
            Map<String, byte[]> actual = run.steps(1, policy, with(kept), device);
            TinyRun.requireNear(expected, actual, limit);
            String loss = "loss=[-0-9.E]+";
            assertTrue(losses(expected, loss).length > 0);
            assertArrayEquals(losses(expected, loss), losses(actual, loss));
        }
    }

    private static String[] losses(Map<String, byte[]> run, String pattern) {
        String text = new String(run.get("step 1 result"), StandardCharsets.UTF_8);
        return Pattern.compile(pattern)
                .matcher(text)
                .results()
                .map(MatchResult::group)
                .toArray(String[]::new);
    }
}
