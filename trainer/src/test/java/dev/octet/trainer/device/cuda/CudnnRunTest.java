package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.activation.TinyRun;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Training steps with attention by cuDNN's interface, the third as a graph, beside steps with the kernels. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("kernels")
class CudnnRunTest {
    private static final int STEPS = 4;

    /**
     * Probabilities are rounded beside other maxima: a step of BF16 in some gradients, of codes 16 times as large, and what comes of it in weights after four
     * steps of AdamW. Work that a graph leaves out, or of another step, would be an error of about 1.
     */
    @ParameterizedTest
    @CsvSource({"gpt2, bf16, 0.03", "gpt2, fp8, 0.1", "llama, bf16, 0.03", "vit, bf16, 0.03"})
    void steps_are_near_those_with_the_kernels(String model, String precision, double limit) throws IOException {
        PrecisionPolicy policy = precision.equals("fp8")
                ? new Fp8Policy(Autocast.bf16(), Fp8Settings.of(DelayedScaling.DEFAULT))
                : Autocast.bf16();
        List<CudaAttention> asked = new ArrayList<>();
        try (TinyRun run = TinyRun.open(model);
                Device kernels = TestGpus.hostDevice();
                Device cudnn = new CudaDevice(TestGpus.rememberingAttention(TestGpus.hostWithCudnn(), asked))) {
            Map<String, byte[]> expected = run.steps(STEPS, policy, ActivationSettings.NONE, kernels);
            Map<String, byte[]> actual = run.steps(STEPS, policy, ActivationSettings.NONE, cudnn);
            TinyRun.requireNear(expected, actual, limit);
        }
        // two layers, forward and backward, that of a first micro-batch, too; prepared once
        assertEquals(
                List.of(false, false, true, true, true, true),
                asked.stream().map(CudaAttention::isBackward).toList());
    }
}
