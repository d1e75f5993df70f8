package dev.octet.trainer.state;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.function.IntFunction;

/**
 * A tensor kept in some form, in host memory: read and written as tiles of F32. Tiles of forms with blocks begin at a block and end at one.
 *
 * <p>Where one scale belongs to the whole tensor, reading uses the scale of the moment this view was made, and writing the one that {@link #rescale} chose from the
 * largest new magnitude. So the elements of a tensor can be replaced tile by tile. Threads may work on different tiles.
 */
public final class CpuState {
    private static final float HALF_RANGE = 65504f / 2;
    private static final float LEAST_AMAX = 1e-12f;
    private static final float E4M3_MAX = Float8Format.E4M3FN.maxValue();

    private final StateForm form;
    private final List<CpuTensor> parts;
    private final float scale;
    private final long key;
    private float quantScale;

    /** Of the blocks whose scales ranks share, as they were when this view was made; empty for other forms. */
    private final float[] scales;

    /**
     * A view of a tensor.
     *
     * @param parts what {@link StateForm#parts} lists
     * @param key of what is drawn in a stochastic form
     */
    public CpuState(StateForm form, List<CpuTensor> parts, long key) {
        this.form = form;
        this.parts = List.copyOf(parts);
        this.key = key;
        this.scale = form.scalesTensor() ? parts.get(1).bytes().get(Tensor.F32_LE, 0) : 1;
        this.quantScale = scale == 0 ? 0 : 1 / scale;
        this.scales = form.sharesBlocks() ? parts.get(1).bytes().toArray(Tensor.F32_LE) : new float[0];
    }

    /** A view of a tensor whose parts are operands of a step, the first of them being {@code first}. */
    public static CpuState of(
            StateForm form, OperandType tensor, IntFunction<CpuTensor> operands, int first, long key) {
        List<CpuTensor> parts = new ArrayList<>();
        for (int i = 0; i < form.parts(tensor).size(); i++) {
            parts.add(operands.apply(first + i));
        }
        return new CpuState(form, parts, key);
    }

    private MemorySegment codes() {
        return parts.getFirst().bytes();
    }

    /** Reads elements {@code from .. from + n - 1} into the start of {@code to}. */
    public void read(long from, float[] to, int n) {
        switch (form) {
            case StateForm.Plain _, StateForm.Stochastic _ -> parts.getFirst().read(from, to, 0, n);
            case StateForm.PowerOfTwo p -> readScaled(p.type(), from, to, n);
            case StateForm.Fused(DType type) -> readScaled(type, from, to, n);
            case StateForm.Blocked(BlockCodes codes) -> readBlocks(codes, from, to, n);
            case StateForm.BlockedPart b -> readParts(b, from, to, n);
            case StateForm.Split() -> readSplit(from, to, n);
        }
    }

    private void readScaled(DType type, long from, float[] to, int n) {
        if (type == DType.F16) {
            parts.getFirst().read(from, to, 0, n);
            for (int i = 0; i < n; i++) {
                to[i] *= scale;
            }
        } else {
            decode(type, from, scale, to, 0, n);
        }
    }

    private void decode(DType type, long from, float by, float[] to, int at, int n) {
        Float8Format format = Float8Format.of(type).orElseThrow();
        boolean ordinary = by > 0 && by < Float.POSITIVE_INFINITY; // the others are none to ElementCast
        ElementCast.best()
                .decode(
                        format,
                        codes().asSlice(from, n),
                        ordinary ? by : 1,
                        DType.F32,
                        MemorySegment.ofArray(to).asSlice(4L * at, 4L * n));
        for (int i = at; !ordinary && i < at + n; i++) {
            to[i] *= by;
        }
    }

    private void readBlocks(BlockCodes codes, long from, float[] to, int n) {
        int size = codes.block();
        for (int at = 0; at < n; at += size) {
            float by = parts.get(1).bytes().getAtIndex(Tensor.F32_LE, (from + at) / size);
            if (codes == BlockCodes.FP8) {
                decode(DType.F8_E4M3FN, from + at, by, to, at, size);
            } else {
                QuantileMap map = QuantileMap.of(codes);
                for (int i = at; i < at + size; i++) {
                    to[i] = map.value(code(codes, from + i)) * by;
                }
            }
        }
    }

    private void readParts(StateForm.BlockedPart b, long from, float[] to, int n) {
        for (int at = 0; at < n; ) {
            int size = (int) Math.min(n - at, b.together(from + at));
            float by = scales[block(b, from + at)];
            if (b.codes() == BlockCodes.FP8) {
                decode(DType.F8_E4M3FN, from + at, by, to, at, size);
            } else {
                QuantileMap map = QuantileMap.of(b.codes());
                for (int i = at; i < at + size; i++) {
                    to[i] = map.value(code(b.codes(), from + i)) * by;
                }
            }
            at += size;
        }
    }

    private static int block(StateForm.BlockedPart b, long i) {
        return (int) (b.whole(i) / b.codes().block());
    }

    /** The largest magnitudes of new elements so far, as bits of floats, for each block whose scale ranks share; empty for other forms. */
    public AtomicIntegerArray blocks() {
        return new AtomicIntegerArray(form instanceof StateForm.BlockedPart b ? b.blocks() : 0);
    }

    /**
     * Raises these by new elements; threads may do so at the same time.
     *
     * @param from number of the first element
     */
    public void raise(AtomicIntegerArray blocks, long from, float[] values, int n) {
        if (!(form instanceof StateForm.BlockedPart b)) {
            return;
        }
        for (int at = 0; at < n; ) {
            int size = (int) Math.min(n - at, b.together(from + at));
            float amax = 0;
            for (int i = at; i < at + size; i++) {
                amax = Math.max(amax, Math.abs(values[i]));
            }
            // bits of floats that are not negative are in their order, NaN the largest
            blocks.accumulateAndGet(block(b, from + at), Float.floatToIntBits(amax), Math::max);
            at += size;
        }
    }

    /** Stores the scales of all blocks of the whole tensor, from their largest magnitudes: comes before the first {@link #write}. */
    public void rescale(float[] amaxes) {
        boolean fp8 = form instanceof StateForm.BlockedPart b && b.codes() == BlockCodes.FP8;
        for (int k = 0; k < amaxes.length; k++) {
            float amax = Math.max(LEAST_AMAX, amaxes[k]);
            parts.get(1).bytes().setAtIndex(Tensor.F32_LE, k, fp8 ? amax / E4M3_MAX : amax);
        }
    }

    private void writeParts(StateForm.BlockedPart b, long from, float[] values, int n) {
        for (int at = 0; at < n; ) {
            int size = (int) Math.min(n - at, b.together(from + at));
            float by = parts.get(1).bytes().getAtIndex(Tensor.F32_LE, block(b, from + at));
            for (int i = at; i < at + size; i++) {
                values[i] /= by;
            }
            if (b.codes() == BlockCodes.FP8) {
                encode(Float8Format.E4M3FN, from + at, values, at, size);
            } else {
                writeQuantiles(b.codes(), from, values, at, size);
            }
            at += size;
        }
    }

    private int code(BlockCodes codes, long i) {
        if (codes.bits() == 8) {
            return codes().get(ValueLayout.JAVA_BYTE, i) & 0xFF;
        }
        int pair = codes().get(ValueLayout.JAVA_BYTE, i / 2) & 0xFF;
        return i % 2 == 0 ? pair >> 4 : pair & 15;
    }

    private void readSplit(long from, float[] to, int n) {
        MemorySegment remainders = parts.get(1).bytes();
        for (int i = 0; i < n; i++) {
            short low = remainders.getAtIndex(Tensor.I16_LE, from + i);
            int high = codes().getAtIndex(Tensor.I16_LE, from + i) - (low < 0 ? 1 : 0);
            to[i] = Float.intBitsToFloat((high << 16) | (low & 0xFFFF));
        }
    }

    /** Whether the scale follows from all new elements: then {@link #rescale} comes before the first {@link #write}. */
    public boolean scalesTensor() {
        return form.scalesTensor();
    }

    /** Chooses the scale that new elements are written with, and stores it. */
    public void rescale(float amax) {
        float multiplier = switch (form) {
            case StateForm.PowerOfTwo p -> {
                float before = p.zero() == StateForm.OfZeros.ONE ? 1 : quantScale;
                quantScale = p.rule().quantScale(amax, before, largest(p.type()));
                yield 1 / quantScale;
            }
            case StateForm.Fused(DType type) -> {
                float exact = amax / (type == DType.F16 ? HALF_RANGE : E4M3_MAX);
                // an amax that is not finite makes NaN of the tensor, which the next step's loss shows
                quantScale = exact == 0 ? 0 : Math.min(1 / exact, Float.MAX_VALUE);
                // Transformer Engine keeps the reciprocal of the multiplier of FP8 codes, and the scale of F16 itself
                yield type == DType.F16 || quantScale == 0 ? exact : 1 / quantScale;
            }
            case StateForm.Plain _,
                    StateForm.Stochastic _,
                    StateForm.Blocked _,
                    StateForm.BlockedPart _,
                    StateForm.Split _ -> throw new IllegalStateException(form.text() + " has no scale of the tensor");
        };
        parts.get(1).bytes().set(Tensor.F32_LE, 0, multiplier);
    }

    private static float largest(DType type) {
        return type == DType.F16 ? 65504 : Float8Format.of(type).orElseThrow().maxValue();
    }

    /** Replaces elements {@code from .. from + n - 1} by the start of {@code values}, which is overwritten. */
    public void write(long from, float[] values, int n) {
        switch (form) {
            case StateForm.Plain _ -> parts.getFirst().write(from, values, 0, n);
            case StateForm.Stochastic() -> writeStochastic(from, values, n);
            case StateForm.PowerOfTwo p -> writeScaled(p.type(), from, values, n);
            case StateForm.Fused(DType type) -> writeScaled(type, from, values, n);
            case StateForm.Blocked(BlockCodes codes) -> writeBlocks(codes, from, values, n);
            case StateForm.BlockedPart b -> writeParts(b, from, values, n);
            case StateForm.Split() -> writeSplit(from, values, n);
        }
    }

    private void writeStochastic(long from, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            codes().setAtIndex(Tensor.I16_LE, from + i, stochastic(values[i], key, from + i));
        }
    }

    /** The bits of a BF16: the one towards zero, or with the probability of what remains the one away from it. */
    static short stochastic(float x, long key, long element) {
        if (!Float.isFinite(x)) {
            return BFloat16.fromFloat(x);
        }
        int bits = Float.floatToRawIntBits(x);
        boolean away = CounterRandom.bits(key, element, 16) < (bits & 0xFFFF);
        return (short) ((bits >>> 16) + (away ? 1 : 0));
    }

    private void writeScaled(DType type, long from, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            values[i] *= quantScale;
        }
        if (type == DType.F16) {
            parts.getFirst().write(from, values, 0, n);
        } else {
            encode(Float8Format.of(type).orElseThrow(), from, values, 0, n);
        }
    }

    private void encode(Float8Format format, long from, float[] values, int at, int n) {
        ElementCast.best()
                .encode(
                        DType.F32,
                        MemorySegment.ofArray(values).asSlice(4L * at, 4L * n),
                        1,
                        format,
                        Overflow.SATURATE,
                        codes().asSlice(from, n));
    }

    private void writeBlocks(BlockCodes codes, long from, float[] values, int n) {
        int size = codes.block();
        for (int at = 0; at < n; at += size) {
            float amax = LEAST_AMAX;
            for (int i = at; i < at + size; i++) {
                amax = Math.max(amax, Math.abs(values[i]));
            }
            float by = codes == BlockCodes.FP8 ? amax / E4M3_MAX : amax;
            for (int i = at; i < at + size; i++) {
                values[i] /= by;
            }
            parts.get(1).bytes().setAtIndex(Tensor.F32_LE, (from + at) / size, by);
            if (codes == BlockCodes.FP8) {
                encode(Float8Format.E4M3FN, from + at, values, at, size);
            } else {
                writeQuantiles(codes, from, values, at, size);
            }
        }
    }

    private void writeQuantiles(BlockCodes codes, long from, float[] values, int at, int size) {
        QuantileMap map = QuantileMap.of(codes);
        if (codes.bits() == 8) {
            for (int i = at; i < at + size; i++) {
                codes().set(ValueLayout.JAVA_BYTE, from + i, (byte) map.code(values[i]));
            }
        } else {
            for (int i = at; i < at + size; i += 2) {
                int pair = (map.code(values[i]) << 4) | map.code(values[i + 1]);
                codes().set(ValueLayout.JAVA_BYTE, (from + i) / 2, (byte) pair);
            }
        }
    }

    private void writeSplit(long from, float[] values, int n) {
        for (int i = 0; i < n; i++) {
            int bits = Float.floatToRawIntBits(values[i]);
            short low = (short) bits;
            codes().setAtIndex(Tensor.I16_LE, from + i, (short) ((bits >>> 16) + (low < 0 ? 1 : 0)));
            parts.get(1).bytes().setAtIndex(Tensor.I16_LE, from + i, low);
        }
    }

    /** The largest magnitude of some values; NaN if one is. */
    public static float amax(float[] values, int n) {
        float amax = 0;
        for (int i = 0; i < n; i++) {
            amax = Math.max(amax, Math.abs(values[i]));
        }
        return amax;
    }
}
