package dev.octet.trainer.observe;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * A statistic of {@code LogFp8TensorStats}: {@code mxfp8_underflows%_columnwise}.
 *
 * @param recipe what the tensor is cast by; empty for the layer's own recipe
 * @param columnwise whether of the codes for products that sum over the tensor's first axis
 */
public record CastStatistic(Optional<WhatIf> recipe, Measure measure, boolean columnwise) {
    private static final String COLUMNWISE = "_columnwise";

    /** Recipes that a tensor can be cast by, whatever its layer's is. */
    public enum WhatIf {
        /** Only where it is the layer's recipe: other scales have no history. */
        FP8_DELAYED_SCALING,
        FP8_CURRENT_SCALING,
        MXFP8,
        FP8_BLOCK_SCALING;

        /** As in statistics' names. */
        public String label() {
            return name().toLowerCase(Locale.ROOT);
        }

        /** Whether products that sum along different axes take different codes. */
        boolean hasColumnwise() {
            return this == MXFP8 || this == FP8_BLOCK_SCALING;
        }
    }

    /** What is measured of a cast. */
    public enum Measure {
        /** 100 · elements other than 0 whose code is 0 / n. */
        UNDERFLOWS("underflows%"),
        /** 100 · elements beyond the largest number times the scale / n; of delayed scaling only. */
        OVERFLOWS("overflows%"),
        /** The smallest scale (dequantisation multiplier). */
        SCALE_INV_MIN("scale_inv_min"),
        /** The largest scale. */
        SCALE_INV_MAX("scale_inv_max"),
        /** Mean of (code · scale - x)². */
        MSE("mse");

        private final String label;

        Measure(String label) {
            this.label = label;
        }

        /** As in statistics' names. */
        public String label() {
            return label;
        }

        /** All by label. */
        public static Map<String, Measure> byLabel() {
            Map<String, Measure> all = new LinkedHashMap<>();
            Arrays.stream(values()).forEach(m -> all.put(m.label, m));
            return all;
        }
    }

    /** As in files and logs. */
    public String label() {
        return recipe.map(r -> r.label() + "_").orElse("") + measure.label() + (columnwise ? COLUMNWISE : "");
    }

    /** Whether it needs a cast that the layer itself makes. */
    boolean isOfLayer() {
        return recipe.isEmpty() || recipe.get() == WhatIf.FP8_DELAYED_SCALING;
    }

    /** Whether it needs a delayed scale. */
    boolean isOfDelayed() {
        return isOfLayer() && (recipe.isPresent() || measure == Measure.OVERFLOWS);
    }

    /** Every statistic by its label. */
    public static Map<String, CastStatistic> byLabel() {
        Map<String, CastStatistic> all = new LinkedHashMap<>();
        List<Optional<WhatIf>> recipes = List.of(
                Optional.empty(),
                Optional.of(WhatIf.FP8_DELAYED_SCALING),
                Optional.of(WhatIf.FP8_CURRENT_SCALING),
                Optional.of(WhatIf.MXFP8),
                Optional.of(WhatIf.FP8_BLOCK_SCALING));
        for (Optional<WhatIf> recipe : recipes) {
            for (Measure measure : Measure.values()) {
                for (boolean columnwise : new boolean[] {false, true}) {
                    CastStatistic s = new CastStatistic(recipe, measure, columnwise);
                    if (s.exists()) {
                        all.put(s.label(), s);
                    }
                }
            }
        }
        return all;
    }

    private boolean exists() {
        boolean delayed = recipe.isEmpty() || recipe.get() == WhatIf.FP8_DELAYED_SCALING;
        boolean hasMeasure = measure != Measure.OVERFLOWS || (delayed && !columnwise);
        return hasMeasure && (!columnwise || recipe.isEmpty() || recipe.get().hasColumnwise());
    }

    @Override
    public String toString() {
        return label();
    }
}
