package dev.octet.pipeline.plan;

import dev.octet.formats.tensor.Shape;
import dev.octet.pipeline.plan.Accelerator.ProductType;
import dev.octet.trainer.config.OptimizerConfig;
import dev.octet.trainer.config.StatesConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;

/**
 * Bytes that each parameter takes from step to step, in the parts that ZeRO deals out one by one.
 *
 * @param weights the copy that products read; in F32 that is the master itself
 * @param masters the parameter as it is updated; 0 where products read it
 * @param gradients the sum of its gradients
 * @param moments of the optimizer, averages of weights included
 */
public record ParameterBytes(double weights, double masters, double gradients, double moments) {
    /** Adam with masters in F32 and weights in BF16, as Megatron keeps it: 18 bytes. */
    public static final ParameterBytes BF16_ADAM = new ParameterBytes(2, 4, 4, 8);

    /** A matrix like those that nearly all parameters are in. */
    private static final Shape MATRIX = Shape.of(4096, 4096);

    /** Adam in F32 with Linears of a type. */
    public static ParameterBytes adam(ProductType type) {
        return switch (type) {
            case FP32 -> new ParameterBytes(4, 0, 4, 8);
            case BF16 -> BF16_ADAM;
            case FP8 -> new ParameterBytes(1, 4, 4, 8);
        };
    }

    /** What a configuration keeps of a large matrix. */
    public static ParameterBytes of(TrainingConfig config) {
        OptimizerConfig optimizer = config.optimizer();
        Optimizer rule = optimizer.optimizer();
        StatesConfig states = optimizer.states();
        StateForms forms = states.forms(rule);
        double gradients = 4;
        if (config.precision().msamp().isPresent()) {
            MsampPolicy policy = config.precision().msamp().get();
            gradients = each(policy.gradients());
        }
        double moments = StatesConfig.buffers(rule).stream()
                .mapToDouble(b -> each(forms.memory(b, MATRIX)))
                .sum();
        double averages = 4.0 * config.averaging().size();
        double masters = each(forms.parameter("", MATRIX));
        ProductType type = productType(config);
        double weights = switch (type) {
            case FP32 -> masters;
            case BF16 -> 2;
            case FP8 -> 1;
        };
        return new ParameterBytes(weights, type == ProductType.FP32 ? 0 : masters, gradients, moments + averages);
    }

    /** The type that a configuration multiplies in. */
    public static ProductType productType(TrainingConfig config) {
        return switch (config.precision().mode()) {
            case "fp32" -> ProductType.FP32;
            case "fp8", "msamp" -> ProductType.FP8;
            default -> ProductType.BF16;
        };
    }

    private static double each(StateForm form) {
        long count = MATRIX.elementCount();
        return (double) form.bytes(count) / count;
    }

    /** All. */
    public double total() {
        return weights + masters + gradients + moments;
    }
}
