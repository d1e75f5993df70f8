package dev.octet.pipeline.doctor;

import dev.octet.trainer.config.OptimizerConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.optimizer.Optimizer;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * What helps a run whose spikes are not the fault of its precision: optimizer, clipping, averaging.
 *
 * <p>Sources: spikes follow steps at which Adam's second moment lags behind the gradients; a smaller beta2, clipping, or clipping the update
 * (StableAdamW) prevent them: Wortsman et al., "Stable and low-precision training for large-scale vision-language models" (arXiv:2304.13013)
 * section 3. An epsilon near the size of the gradients shrinks updates: Wortsman et al., "Small-scale proxies for large-scale Transformer
 * training instabilities" (arXiv:2309.14322) section 3.4. Averaged weights: Izmailov et al. (arXiv:1803.05407).
 */
public final class Advice {
    private static final double SLOW_BETA2 = 0.95;

    /** An epsilon above this share of a usual gradient matters. */
    private static final double EPS_SHARE = 0.01;

    private Advice() {}

    /**
     * Advice on a spike, for the configuration that had it.
     *
     * @param run whose gradient norms are looked at
     * @param trained numbers that it trains; 0 when that is not known
     */
    public static List<String> onSpikes(TrainingConfig config, Course run, long trained) {
        List<String> advice = new ArrayList<>();
        double usual = run.usualGradNorm();
        if (config.clipGradNorm().isEmpty()) {
            advice.add("clip the gradients: clip_grad_norm: "
                    + (usual > 0 ? String.format(Locale.ROOT, "%.2g", 2 * usual) + ", twice the usual norm" : "1.0"));
        } else if (usual > 0 && config.clipGradNorm().getAsDouble() > 4 * usual) {
            advice.add(String.format(
                    Locale.ROOT,
                    "clip_grad_norm: %s is far above the usual norm of %.2g; %.2g would catch such a step",
                    config.clipGradNorm().getAsDouble(),
                    usual,
                    2 * usual));
        }
        OptimizerConfig optimizer = config.optimizer();
        if (optimizer.optimizer() instanceof Optimizer.Adam) {
            onAdam(optimizer, usual, trained, advice);
        }
        advice.add("average the weights, so that a spike weighs little in what is exported: averaging: {ema: {decay:"
                + " 0.999}}, then export --weights ema");
        advice.add("look at the samples of the steps of the spike: a spike of every precision comes from the data or"
                + " the learning rate");
        return advice;
    }

    private static void onAdam(OptimizerConfig optimizer, double usual, long trained, List<String> advice) {
        if (optimizer.beta2() > SLOW_BETA2) {
            advice.add(String.format(
                    Locale.ROOT,
                    "optimizer.betas: [%s, 0.95]: with beta2 = %s Adam's second moment is the mean of about %,.0f"
                            + " steps, and lags behind gradients that grow suddenly",
                    optimizer.beta1(),
                    optimizer.beta2(),
                    1 / (1 - optimizer.beta2())));
        }
        if (usual > 0 && trained > 0) {
            double rms = usual / Math.sqrt((double) trained);
            if (optimizer.eps() > EPS_SHARE * rms) {
                advice.add(String.format(
                        Locale.ROOT,
                        "optimizer.eps: %.0e: %.0e is within a hundred of the root mean square of a gradient, %.1e, and"
                                + " shrinks updates",
                        Math.pow(10, Math.floor(Math.log10(EPS_SHARE * rms))),
                        optimizer.eps(),
                        rms));
            }
        }
        if (!optimizer.type().name().startsWith("STABLE")) {
            advice.add("optimizer.type: stableadamw, which clips the update where the second moment lags");
        }
    }
}
