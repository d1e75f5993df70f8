package dev.octet.trainer.device.cuda;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.kernel.CpuTensor;
import java.lang.foreign.ValueLayout;
import java.util.Optional;

/** Elements of tensors of any type as numbers; codes are what they stand for without a scale. */
public final class TestNumbers {
    private TestNumbers() {}

    /** Writes all elements. */
    public static void write(CpuTensor t, double[] values) {
        Optional<Float8Format> codes = Float8Format.of(t.dtype());
        if (codes.isPresent()) {
            for (int i = 0; i < values.length; i++) {
                byte code = (byte) codes.get().encode((float) values[i], Overflow.SATURATE);
                t.bytes().set(ValueLayout.JAVA_BYTE, i, code);
            }
        } else if (CpuTensor.fitsTiles(t.dtype())) {
            float[] floats = new float[values.length];
            for (int i = 0; i < values.length; i++) {
                floats[i] = (float) values[i];
            }
            t.write(0, floats, 0, floats.length);
        } else {
            for (int i = 0; i < values.length; i++) {
                t.writeNumber(i, values[i]);
            }
        }
    }

    /** Reads all elements. */
    public static double[] read(CpuTensor t) {
        Optional<Float8Format> codes = Float8Format.of(t.dtype());
        double[] all = new double[Math.toIntExact(t.count())];
        for (int i = 0; i < all.length; i++) {
            all[i] = codes.isPresent()
                    ? codes.get().decode(Byte.toUnsignedInt(t.bytes().get(ValueLayout.JAVA_BYTE, i)))
                    : t.readNumber(i);
        }
        return all;
    }
}
