package dev.octet.trainer.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import java.util.Objects;

/**
 * Which positions a loss is the mean over. Micro-batches have different numbers of them where texts are of different lengths: the mean over
 * all of them together weighs each micro-batch by its number.
 */
public sealed interface CountedPositions {
    /**
     * How many there are in a micro-batch.
     *
     * @param fed what the graph is fed, by name
     */
    long in(Map<String, Tensor> fed);

    /**
     * Those that have a label.
     *
     * @param labels name of the labels, I64 or I32
     * @param ignored label of positions that do not count
     * @param shifted whether each position is scored against the label of the next: then the first label of each row is nobody's
     */
    record Labelled(String labels, long ignored, boolean shifted) implements CountedPositions {
        @Override
        public long in(Map<String, Tensor> fed) {
            Tensor tensor = Objects.requireNonNull(fed.get(labels), labels);
            long row = tensor.shape().rank() == 0 ? 1 : tensor.shape().dim(-1);
            long count = 0;
            for (long i = 0; i < tensor.shape().elementCount(); i++) {
                boolean scored = !shifted || i % row != 0;
                count += scored && element(tensor, i) != ignored ? 1 : 0;
            }
            return count;
        }
    }

    /**
     * Those that are not padding.
     *
     * @param mask name of the mask, 0 for padding
     */
    record Unmasked(String mask) implements CountedPositions {
        @Override
        public long in(Map<String, Tensor> fed) {
            Tensor tensor = Objects.requireNonNull(fed.get(mask), mask);
            long count = 0;
            long width = tensor.dtype().bits() / 8;
            for (long from = 0; from < tensor.bytes().byteSize(); from += width) {
                count += isZero(tensor.bytes().asSlice(from, width)) ? 0 : 1;
            }
            return count;
        }
    }

    /** Of any number type. */
    private static boolean isZero(MemorySegment element) {
        for (long i = 0; i < element.byteSize(); i++) {
            if (element.get(ValueLayout.JAVA_BYTE, i) != 0) {
                return false;
            }
        }
        return true;
    }

    /**
     * All of them.
     *
     * @param rows of the output, whose last axis holds the numbers of a position
     */
    record All(long rows) implements CountedPositions {
        @Override
        public long in(Map<String, Tensor> fed) {
            return rows;
        }
    }

    private static long element(Tensor tensor, long i) {
        return tensor.dtype() == DType.I32
                ? tensor.bytes().get(Tensor.I32_LE, i * Integer.BYTES)
                : tensor.bytes().get(Tensor.I64_LE, i * Long.BYTES);
    }
}
