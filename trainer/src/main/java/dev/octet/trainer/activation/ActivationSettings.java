package dev.octet.trainer.activation;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * What a training step keeps between forward and backward.
 *
 * @param recompute what backward computes again; the numbers of the step stay the same, bit for bit
 * @param kept how the rest is kept; anything but {@link Kept#AS_THEY_ARE} changes gradients
 * @param home where the rest lies; the numbers stay the same
 */
public record ActivationSettings(Recompute recompute, Kept kept, Home home) {
    /** Everything is kept as it is. */
    public static final ActivationSettings NONE = new ActivationSettings(Recompute.NONE, Kept.AS_THEY_ARE);

    /** Settings of what is kept on the device. */
    public ActivationSettings(Recompute recompute, Kept kept) {
        this(recompute, kept, Home.DEVICE);
    }

    /** The same, where what is kept lies elsewhere. */
    public ActivationSettings at(Home place) {
        return new ActivationSettings(recompute, kept, place);
    }

    /** Keys of a configuration that say this, with their values; none for what is usual. */
    public Map<String, String> keys() {
        Map<String, String> keys = new LinkedHashMap<>();
        String recomputing = ActivationPlan.KEY;
        switch (recompute) {
            case Recompute.None _ -> {}
            case Recompute.Layers(int count) when count == 1 -> keys.put(recomputing + ".layers", "all");
            case Recompute.Layers(int count) -> keys.put(recomputing + ".every", String.valueOf(count));
            case Recompute.Matching(var pattern) -> keys.put(recomputing + ".match", pattern.pattern());
            case Recompute.Budget(long bytes) -> keys.put(recomputing + ".budget", String.valueOf(bytes));
        }
        if (kept != Kept.AS_THEY_ARE) {
            keys.put("activations", kept.name().toLowerCase(Locale.ROOT));
        }
        if (home != Home.DEVICE) {
            keys.put("offload.activations", home.name().toLowerCase(Locale.ROOT));
        }
        return keys;
    }
}
