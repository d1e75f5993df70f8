package dev.octet.trainer.observe;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** A statistic of {@code LogTensorStats}. */
public sealed interface TensorStatistic {
    /** Of all elements, under Transformer Engine's names. */
    enum OfAll implements TensorStatistic {
        /** The smallest element. */
        MIN,
        /** The largest element. */
        MAX,
        /** Σx / n. */
        MEAN,
        /** Square root of the variance; of one micro-batch Σ(x - mean)² / (n - 1). */
        STD,
        /** Σ|x|. */
        L1_NORM,
        /** Square root of Σx². */
        L2_NORM,
        /** Largest magnitude. */
        CUR_AMAX,
        /** log2 of the largest magnitude over the smallest one above 0. */
        DYNAMIC_RANGE;

        @Override
        public String label() {
            return name().toLowerCase(Locale.ROOT);
        }

        /** All by label. */
        public static Map<String, OfAll> byLabel() {
            Map<String, OfAll> all = new LinkedHashMap<>();
            Arrays.stream(values()).forEach(s -> all.put(s.label(), s));
            return all;
        }
    }

    /**
     * {@code max_blockwise_dynamic_range}: the largest {@link OfAll#DYNAMIC_RANGE} of a block, 0 for blocks of zeros.
     *
     * @param blockSize elements of a run, or of a tile's side
     * @param dims 1: runs of consecutive elements, 2: tiles
     * @param bothOrientations whether also of the transpose: of what products read along either axis
     */
    record MaxBlockwiseDynamicRange(int blockSize, int dims, boolean bothOrientations) implements TensorStatistic {
        /** Its key in a list of statistics. */
        public static final String KEY = "max_blockwise_dynamic_range";

        @Override
        public String label() {
            return KEY + "_block_size_" + blockSize + "_dims_" + dims
                    + (bothOrientations ? "_max_over_orientations" : "");
        }
    }

    /** As in logs. */
    String label();
}
