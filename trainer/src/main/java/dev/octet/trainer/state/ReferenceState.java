package dev.octet.trainer.state;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/**
 * A tensor kept in some form on the reference device, which holds the parts as doubles: FP8 codes as the numbers they stand for. F32 is kept in F64; all other forms have
 * the rounding of {@link CpuState}.
 */
public final class ReferenceState {
    private static final int TILE = 2048;

    private ReferenceState() {}

    /** All elements of a tensor whose first part is operand {@code first}. */
    public static double[] read(StateForm form, OperandType tensor, IntFunction<double[]> operands, int first) {
        if (form.isF32()) {
            return operands.apply(first).clone();
        }
        CpuState state = new CpuState(form, parts(form, tensor, operands, first), 0);
        double[] all = new double[Math.toIntExact(tensor.count())];
        float[] tile = new float[TILE];
        for (int from = 0; from < all.length; from += TILE) {
            int n = Math.min(TILE, all.length - from);
            state.read(from, tile, n);
            for (int i = 0; i < n; i++) {
                all[from + i] = tile[i];
            }
        }
        return all;
    }

    /** Replaces all elements. */
    public static void write(
            StateForm form, OperandType tensor, IntFunction<double[]> operands, int first, long key, double[] all) {
        if (form.isF32()) {
            System.arraycopy(all, 0, operands.apply(first), 0, all.length);
            return;
        }
        List<CpuTensor> parts = parts(form, tensor, operands, first);
        CpuState state = new CpuState(form, parts, key);
        if (state.scalesTensor()) {
            float amax = 0;
            for (double x : all) {
                amax = Math.max(amax, Math.abs((float) x));
            }
            state.rescale(amax);
        }
        float[] tile = new float[TILE];
        for (int from = 0; from < all.length; from += TILE) {
            int n = Math.min(TILE, all.length - from);
            for (int i = 0; i < n; i++) {
                tile[i] = (float) all[from + i];
            }
            state.write(from, tile, n);
        }
        for (int k = 0; k < parts.size(); k++) {
            load(parts.get(k), operands.apply(first + k));
        }
    }

    private static List<CpuTensor> parts(
            StateForm form, OperandType tensor, IntFunction<double[]> operands, int first) {
        List<CpuTensor> parts = new ArrayList<>();
        for (StateForm.Part part : form.parts(tensor)) {
            CpuTensor t = new CpuTensor(
                    part.type(),
                    MemorySegment.ofArray(new byte[Math.toIntExact(part.type().byteSize())]));
            store(operands.apply(first + parts.size()), t);
            parts.add(t);
        }
        return parts;
    }

    private static void store(double[] from, CpuTensor to) {
        for (int i = 0; i < from.length; i++) {
            if (isFp8(to.dtype())) {
                int code = Float8Format.of(to.dtype()).orElseThrow().encode((float) from[i], Overflow.SATURATE);
                to.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) code);
            } else {
                to.writeNumber(i, from[i]);
            }
        }
    }

    private static void load(CpuTensor from, double[] to) {
        for (int i = 0; i < to.length; i++) {
            to[i] = isFp8(from.dtype())
                    ? Float8Format.of(from.dtype())
                            .orElseThrow()
                            .decode(from.bytes().get(ValueLayout.JAVA_BYTE, i) & 0xFF)
                    : from.readNumber(i);
        }
    }

    private static boolean isFp8(DType type) {
        return type == DType.F8_E4M3FN || type == DType.F8_E5M2;
    }
}
