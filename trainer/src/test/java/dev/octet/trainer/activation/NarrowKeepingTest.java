package dev.octet.trainer.activation;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
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
    @CsvSource({"gpt2, BF16, fp32, 0.002", "gpt2, FP8, fp32, 0.03", "gpt2, FP8, bf16, 0.03", "llama, FP8, fp32, 0.03", "vit, BF16, fp32, 0.002", "vit, FP8, fp32, 0.03"})
    void gradients_are_near_and_the_loss_is_the_same(String model, Kept kept, String precision, double limit)
            throws IOException {
        PrecisionPolicy policy = precision.equals("fp32") ? PrecisionPolicy.FP32 : Autocast.bf16();
        try (TinyRun run = TinyRun.open(model);
                Device device = CpuDevice.of(2)) {
            Map<String, byte[]> expected = run.steps(1, policy, ActivationSettings.NONE, device);
            Map<String, byte[]> actual = run.steps(1, policy, with(kept), device);
            double difference = 0;
            double all = 0;
            for (Map.Entry<String, byte[]> e : expected.entrySet()) {
                if (e.getKey().contains("gradient ")) {
                    float[] wanted = floats(e.getValue());
                    float[] got = floats(actual.get(e.getKey()));
                    for (int i = 0; i < wanted.length; i++) {
                        difference += Math.pow(wanted[i] - got[i], 2);
                        all += Math.pow(wanted[i], 2);
                    }
                }
            }
            double error = Math.sqrt(difference / all);
            assertTrue(error > 0 && error <= limit, "relative error of all gradients: " + error);
            String loss = "loss=[-0-9.E]+";
            assertTrue(losses(expected, loss).length > 0);
            assertArrayEquals(losses(expected, loss), losses(actual, loss));
        }
    }

    private static String[] losses(Map<String, byte[]> run, String pattern) {
        String text = new String(run.get("step 1 result"), java.nio.charset.StandardCharsets.UTF_8);
        return java.util.regex.Pattern.compile(pattern).matcher(text).results().map(r -> r.group()).toArray(String[]::new);
    }

    private static float[] floats(byte[] bytes) {
        float[] all = new float[bytes.length / Float.BYTES];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(all);
        return all;
    }
}
