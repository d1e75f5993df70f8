package dev.octet.quant.gptq;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * Weights of 8 bits whose products with unsigned activations cannot saturate.
 *
 * <p>x86-64 without VNNI multiplies 8 by 8 bits with {@code vpmaddubsw}: the products of two neighbouring inputs, 2i and 2i + 1, are added in 16 bits,
 * which saturate at 32767. With activations up to 255 that cannot happen where the magnitudes of two neighbours of one sign add up to at most
 * {@value #MOST}. Weights of seven bits ({@code reduce_range} of ONNX Runtime) are always so, with steps twice as wide; here only pairs beyond the bound give way,
 * with the scale for which the whole channel loses least.
 */
public final class BoundedPairs {
    /** The largest sum of the magnitudes of two neighbours of one sign: 255 * 128 is below 32767, 255 * 129 above. */
    public static final int MOST = 128;

    /** Scales tried, in parts of amax / 127. At 2 all codes are of seven bits and no pair is beyond the bound. */
    public static final ScaleRule SCALES = new ScaleRule.MseRule(0.5f, 2, 73);

    private BoundedPairs() {}

    /** A code that fits one that is there already. */
    static int bounded(int code, int partner) {
        if ((long) code * partner <= 0) {
            return code;
        }
        int most = MOST - Math.abs(partner);
        return Math.clamp(code, -most, most);
    }

    /** A code that gives way by half of what it and its neighbour would be too large together. */
    static int shared(int code, int partner) {
        int excess = Math.abs(code) + Math.abs(partner) - MOST;
        if ((long) code * partner <= 0 || excess <= 0) {
            return code;
        }
        return code - Integer.signum(code) * Math.ceilDiv(excess, 2);
    }

    /**
     * Brings the codes of one output channel within the bound.
     *
     * @param codes I8, in the order of the inputs; changed
     * @param energies the cost of an error of each input; the one that costs more gives way less
     */
    static void bound(MemorySegment codes, double[] energies) {
        for (int i = 0; i + 1 < energies.length; i += 2) {
            int a = codes.get(ValueLayout.JAVA_BYTE, i);
            int b = codes.get(ValueLayout.JAVA_BYTE, i + 1L);
            int excess = Math.abs(a) + Math.abs(b) - MOST;
            if (a * b <= 0 || excess <= 0) {
                continue;
            }
            double both = energies[i] + energies[i + 1];
            int ofFirst = both > 0 ? (int) Math.rint(excess * energies[i + 1] / both) : excess / 2;
            // neither beyond zero: then the other one alone would be within the bound
            ofFirst = Math.clamp(ofFirst, Math.max(0, excess - Math.abs(b)), Math.min(excess, Math.abs(a)));
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) (a - Integer.signum(a) * ofFirst));
            codes.set(ValueLayout.JAVA_BYTE, i + 1L, (byte) (b - Integer.signum(b) * (excess - ofFirst)));
        }
    }

    /**
     * How many pairs of neighbouring inputs have weights beyond the bound.
     *
     * @param outIn whether the codes lie as [out, in]; else [in, out]
     */
    public static long beyond(QuantizedTensor weight, boolean outIn) {
        long out = weight.spec().shape().dim(outIn ? 0 : 1);
        long in = weight.spec().shape().dim(outIn ? 1 : 0);
        long beyond = 0;
        for (long o = 0; o < out; o++) {
            for (long i = 0; i + 1 < in; i += 2) {
                int a = weight.codes().get(ValueLayout.JAVA_BYTE, outIn ? o * in + i : i * out + o);
                int b = weight.codes().get(ValueLayout.JAVA_BYTE, outIn ? o * in + i + 1 : (i + 1) * out + o);
                beyond += a * b > 0 && Math.abs(a) + Math.abs(b) > MOST ? 1 : 0;
            }
        }
        return beyond;
    }

    /**
     * Rounds a weight to nearest, within the bound, with the scale of each output channel for which it loses least.
     *
     * @param weight F32, BF16 or F16, of rank 2, finite
     * @param transB whether it is {@code [out, in]}; else {@code [in, out]}
     * @param spec {@link QuantType#INT8}, one scale per output channel
     * @param arena owns codes and scales
     * @throws IllegalArgumentException when the arguments do not fit each other
     */
    public static QuantizedTensor nearest(Tensor weight, boolean transB, OperandSpec spec, int threads, Arena arena) {
        if (spec.type() != QuantType.INT8) {
            throw new IllegalArgumentException(spec.type() + " in pairs");
        }
        WeightedScales.requireOutputScales(weight, transB, spec);
        OperandSpec searched = spec.scaledBy(SCALES, spec.scaleType());
        ElementCast cast = ElementCast.best();
        try (Arena scratch = Arena.ofShared()) {
            WeightRows rows = WeightRows.of(weight, transB, scratch);
            double[] energies = new double[rows.in()];
            Arrays.fill(energies, 1);
            float[] scales = WeightedScales.find(rows, energies, searched, cast, threads, true);
            Tensor codes = Tensor.allocate(arena, new TensorSpec(weight.name(), DType.I8, weight.shape()));
            MemorySegment row = scratch.allocate(rows.in());
            for (int o = 0; o < scales.length; o++) {
                cast.encodeIntegers(DType.F32, rows.row(o), scales[o], 0, spec.type(), row);
                bound(row, energies);
                for (long i = 0; i < rows.in(); i++) {
                    long at = transB ? o * (long) rows.in() + i : i * rows.out() + o;
                    codes.bytes().set(ValueLayout.JAVA_BYTE, at, row.get(ValueLayout.JAVA_BYTE, i));
                }
            }
            Tensor scale = WeightedScales.stored(weight, scales, searched, arena);
            return new QuantizedTensor(codes.spec(), codes.bytes(), scale, spec.granularity(), spec.type());
        }
    }
}
