package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.ScaleTensor.Direction;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.QuantType;
import dev.octet.trainer.kernel.OperandType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** Matrices in every form they are stored in, and random bytes for them. */
final class StoredForms {
    private StoredForms() {}

    /** One of each kind, by name. */
    static Map<String, StoredMatrix> of(int rows, int cols) {
        Shape shape = Shape.of(rows, cols);
        Map<String, StoredMatrix> all = new TreeMap<>();
        for (DType type : List.of(DType.F32, DType.BF16, DType.F16)) {
            all.put("floats " + type, new StoredMatrix.Floats(new OperandType(type, shape)));
        }
        Granularity whole = new Granularity.PerTensor();
        Granularity channel = new Granularity.PerChannel(-2);
        add(all, shape, "E4M3 per tensor", QuantType.E4M3FN, whole, DType.F32, null, 0, false);
        add(all, shape, "E4M3 per channel", QuantType.E4M3FN, channel, DType.BF16, null, 0, false);
        add(all, shape, "E5M2 per block", QuantType.E5M2, new Granularity.PerBlock(3, 5), DType.F32, null, 0, false);
        add(all, shape, "E4M3 per block", QuantType.E4M3FN, new Granularity.PerBlock(16, 8), DType.F16, null, 0, false);
        add(all, shape, "FNUZ per tensor", QuantType.E4M3FNUZ, whole, DType.F32, null, 0, false);
        add(all, shape, "MXFP8", QuantType.E4M3FN, new Granularity.Mx(32), DType.F8_E8M0, null, 0, false);
        if (cols % 2 == 0) {
            Granularity group = new Granularity.PerGroup(-1, 16);
            WeightForm.Second times = new WeightForm.Second(0.37f, Direction.MULTIPLIER);
            WeightForm.Second by = new WeightForm.Second(2.7f, Direction.DIVISOR);
            add(all, shape, "NVFP4", QuantType.E2M1, group, DType.F8_E4M3FN, times, 0, false);
            add(all, shape, "NVFP4 divided", QuantType.E2M1, group, DType.F8_E4M3FN, by, 0, false);
            add(all, shape, "MXFP4", QuantType.E2M1, new Granularity.Mx(32), DType.U8, null, 0, false);
        }
        add(all, shape, "INT8 per channel", QuantType.INT8, channel, DType.F32, null, 0, false);
        add(all, shape, "INT8 with zero points", QuantType.INT8_ASYMMETRIC, channel, DType.F32, null, 1, false);
        add(all, shape, "INT8 in words", QuantType.INT8, channel, DType.BF16, null, 0, true);
        Granularity group = new Granularity.PerGroup(-1, 8);
        add(all, shape, "INT4 in words", QuantType.INT4, group, DType.BF16, null, 0, true);
        add(all, shape, "INT4 in words with zero points", QuantType.INT4_ASYMMETRIC, group, DType.F32, null, 8, true);
        return all;
    }

    private static void add(
            Map<String, StoredMatrix> all,
            Shape shape,
            String name,
            QuantType codes,
            Granularity granularity,
            DType scale,
            WeightForm.@Nullable Second second,
            int zeroPointRows,
            boolean inWords) {
        all.put(
                name,
                new StoredMatrix.Codes(new WeightForm(
                        shape, codes, granularity, inWords, scale, Direction.MULTIPLIER, second, zeroPointRows)));
    }

    /** Random elements of the operands, as the reference takes them: whole numbers 0 .. 255 for bytes. */
    static List<double[]> random(StoredMatrix matrix, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        List<double[]> all = new ArrayList<>();
        for (OperandType type : matrix.operands()) {
            boolean scales = all.size() == 1;
            double[] x = new double[Math.toIntExact(type.count())];
            for (int i = 0; i < x.length; i++) {
                x[i] = type.dtype().isFloat() ? exact((float) random.nextGaussian()) : random.nextInt(256);
            }
            if (scales && matrix instanceof StoredMatrix.Codes(WeightForm form)) {
                scales(form, x, random);
            } else if (all.isEmpty() && matrix instanceof StoredMatrix.Codes(WeightForm form)) {
                for (int i = 0; i < x.length; i++) {
                    x[i] = finite(form, (int) x[i]);
                }
            }
            all.add(x);
        }
        return all;
    }

    private static double exact(float z) {
        return Float.intBitsToFloat(Float.floatToIntBits(z) & 0xFFFF0000);
    }

    /** Codes of large numbers, infinities and NaN become codes of moderate ones, so that sums stay comparable. */
    private static int finite(WeightForm form, int code) {
        if (form.codes().minifloat().isEmpty() || form.codes() == QuantType.E2M1) {
            return code;
        }
        return code & 0xBF; // the upper half of the exponents cut off
    }

    private static void scales(WeightForm form, double[] bytes, SplittableRandom random) {
        ByteBuffer stored = ByteBuffer.allocate(bytes.length).order(ByteOrder.LITTLE_ENDIAN);
        while (stored.hasRemaining()) {
            float scale = 0.01f + random.nextFloat();
            switch (form.scale()) {
                case F32 -> stored.putFloat(scale);
                case BF16 -> stored.putShort(BFloat16.fromFloat(scale));
                case F16 -> stored.putShort(Float.floatToFloat16(scale));
                case F8_E4M3FN -> stored.put((byte) (0x30 + random.nextInt(16)));
                default -> stored.put((byte) (124 + random.nextInt(6)));
            }
        }
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = stored.get(i) & 0xFF;
        }
    }
}
