package dev.octet.spark.table;

import java.io.Serializable;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * A tensor in a file of a checkpoint.
 *
 * @param name in the file
 * @param dtype number type in the file, as {@code F8_E4M3FN}
 * @param shape outermost dimension first
 * @param bytes of its elements
 * @param file within the checkpoint's folder
 * @param weight own name of the weight that it belongs to; of a plain tensor its name
 * @param role what it is of that weight, or that it is plain
 * @param form of codes: how the weight is stored, as {@code E4M3FN per 128 x 128, scale F32}; null elsewhere
 * @param scales of codes, where they were asked for: what their scales are like; null elsewhere, and where the scales cannot be read
 */
public record TensorRow(
        String name,
        String dtype,
        List<Long> shape,
        long bytes,
        String file,
        String weight,
        Role role,
        @Nullable String form,
        @Nullable ScaleSpread scales)
        implements Serializable {
    public TensorRow {
        shape = List.copyOf(shape);
    }

    /** What a tensor is of a weight. */
    public enum Role {
        /** All of it: a tensor that is not quantised. */
        PLAIN,
        /** Its codes. */
        CODES,
        /** One number for each block of codes. */
        SCALE,
        /** The second level of scales. */
        GLOBAL_SCALE,
        /** One zero point for each scale. */
        ZERO_POINT,
        /** The static scale of the activation that it is multiplied with. */
        INPUT_SCALE,
        /** The numbers of its shape. */
        SHAPE;

        /** In lower case, words apart. */
        public String label() {
            return name().toLowerCase(Locale.ROOT).replace('_', ' ');
        }
    }

    /**
     * The scales of a weight, each the multiplier that dequantising a code takes, with those of both levels multiplied.
     *
     * @param count how many
     * @param min the smallest
     * @param max the largest
     * @param mean their arithmetic mean
     */
    public record ScaleSpread(long count, double min, double max, double mean) implements Serializable {}
}
