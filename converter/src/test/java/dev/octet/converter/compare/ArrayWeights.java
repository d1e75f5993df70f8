package dev.octet.converter.compare;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Weights in arrays, as a model. */
final class ArrayWeights implements WeightSource {
    private final Map<String, Weight> weights = new LinkedHashMap<>();

    /** Values that are in memory; with multipliers for quantised ones. */
    private static final class ArrayElements implements Elements {
        private final Shape shape;
        private final float[] values;
        private final float[] multipliers;
        private final int alignment;

        ArrayElements(Shape shape, float[] values, float[] multipliers, int alignment) {
            this.shape = shape;
            this.values = values;
            this.multipliers = multipliers;
            this.alignment = alignment;
        }

        @Override
        public long count() {
            return values.length;
        }

        @Override
        public long cols() {
            return Blocks.cols(shape);
        }

        @Override
        public long rowsOfMatrix() {
            return Blocks.rows(shape);
        }

        @Override
        public int rowAlignment() {
            return alignment;
        }

        @Override
        public void read(long from, long to, MemorySegment target) {
            copy(values, from, to, target);
        }

        @Override
        public void readMultipliers(long from, long to, MemorySegment target) {
            copy(multipliers, from, to, target);
        }

        private void copy(float[] source, long from, long to, MemorySegment target) {
            if (alignment > 0 && from < to) {
                if (from % cols() != 0 || to % cols() != 0 || from / cols() % rowsOfMatrix() % alignment != 0) {
                    throw new IllegalArgumentException("range " + from + " to " + to + " of " + shape);
                }
            }
            MemorySegment.copy(source, (int) from, target, Tensor.F32_LE, 0, (int) (to - from));
        }
    }

    /** A weight that is not quantised; {@code values} must be numbers of {@code type}. */
    static Weight plain(String name, DType type, Shape shape, float... values) {
        ArrayElements elements = new ArrayElements(shape, values, new float[0], 0);
        return new Weight(name, List.of(), shape, type.name(), NumberGrid.plain(type), elements, null, Double.NaN);
    }

    /** A quantised weight: its dequantised values and the multiplier of each. */
    static Weight quantized(
            String name,
            QuantType codes,
            String scheme,
            int alignment,
            Shape shape,
            float[] values,
            float[] multipliers) {
        ArrayElements elements = new ArrayElements(shape, values, multipliers, alignment);
        return new Weight(
                name, List.of(), shape, scheme, NumberGrid.quantized(codes, DType.F32), elements, null, Double.NaN);
    }

    static ArrayWeights of(Weight... weights) {
        ArrayWeights source = new ArrayWeights();
        for (Weight w : weights) {
            source.weights.put(w.name(), w);
        }
        return source;
    }

    @Override
    public String format() {
        return "arrays";
    }

    @Override
    public Map<String, Weight> weights() {
        return weights;
    }

    @Override
    public Map<String, String> problems() {
        return Map.of();
    }

    @Override
    public List<String> notes() {
        return List.of();
    }

    @Override
    public void close() {}
}
