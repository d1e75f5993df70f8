package dev.octet.spark.table;

import java.io.Serializable;
import java.util.List;
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
 * @param role what it is of that weight: {@code plain}, {@code codes}, {@code scale}, {@code global scale}, {@code zero point}, {@code input
 *     scale} or {@code shape}
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
        String role,
        @Nullable String form,
        @Nullable ScaleSpread scales)
        implements Serializable {
    public TensorRow {
        shape = List.copyOf(shape);
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
