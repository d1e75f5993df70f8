package dev.octet.trainer.collective;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Numbers of all ranks reduced in the order of ranks. In F32 a sum begins with +0, so that zeros of any sign give +0. Rounded at every hop it begins with the first rank's
 * number, as NCCL's do.
 */
final class RankSum {
    private static final int CHUNK = 2048;

    private final DType type;
    private final RankReduction reduction;
    private final @Nullable Float8Format code;
    private final boolean hops;
    private final float factor;

    /** @throws IllegalArgumentException for a type that is not added */
    RankSum(DType type, RankReduction reduction, int ranks) {
        Optional<Float8Format> format =
                type == DType.F8_E4M3FN || type == DType.F8_E5M2 ? Float8Format.of(type) : Optional.empty();
        if (format.isEmpty() && type != DType.F32 && type != DType.BF16 && type != DType.F16) {
            throw new IllegalArgumentException("ranks add F32, BF16, F16, E4M3 and E5M2, not " + type);
        }
        this.type = type;
        this.reduction = reduction;
        this.code = format.orElse(null);
        this.hops = reduction.rounding() == SumRounding.EVERY_HOP && type != DType.F32;
        this.factor = (float) (1.0 / ranks);
    }

    /** Bytes of a number. */
    int width() {
        return type.bits() / Byte.SIZE;
    }

    void requireWhole(MemorySegment data) {
        if (data.byteSize() % width() != 0) {
            throw new IllegalArgumentException(data.byteSize() + " bytes are no whole number of " + type);
        }
    }

    /**
     * Reduces.
     *
     * @param parts numbers of each rank, as many as of each
     * @param to takes the result; may be one of the parts
     */
    void of(MemorySegment[] parts, MemorySegment to) {
        if (type == DType.F8_E4M3FN && hops && reduction.kind() == RankReduction.Kind.SUM) {
            codes(parts, to);
            return;
        }
        long count = to.byteSize() / width();
        float[] sum = new float[CHUNK];
        float[] next = new float[CHUNK];
        for (long at = 0; at < count; at += CHUNK) {
            int n = (int) Math.min(CHUNK, count - at);
            read(parts[0], at, sum, n);
            begin(sum, n);
            for (int r = 1; r < parts.length; r++) {
                read(parts[r], at, next, n);
                add(sum, next, n);
            }
            write(sum, n, to, at);
        }
    }

    /** The sum that {@link CodeSum} has a table for. */
    private static void codes(MemorySegment[] parts, MemorySegment to) {
        byte[] sum = new byte[CHUNK];
        byte[] next = new byte[CHUNK];
        for (long at = 0; at < to.byteSize(); at += CHUNK) {
            int n = (int) Math.min(CHUNK, to.byteSize() - at);
            MemorySegment.copy(parts[0], at, MemorySegment.ofArray(sum), 0, n);
            for (int r = 1; r < parts.length; r++) {
                MemorySegment.copy(parts[r], at, MemorySegment.ofArray(next), 0, n);
                CodeSum.add(sum, next, n);
            }
            MemorySegment.copy(MemorySegment.ofArray(sum), 0, to, at, n);
        }
    }

    private void begin(float[] x, int n) {
        switch (reduction.kind()) {
            case SUM -> {
                for (int i = 0; i < n && !hops; i++) {
                    x[i] = 0 + x[i];
                }
            }
            case AVERAGE -> {
                for (int i = 0; i < n; i++) {
                    x[i] = hops ? x[i] * factor : 0 + x[i] * factor;
                }
                round(x, n);
            }
            case MAX, MIN -> {}
        }
    }

    private void add(float[] sum, float[] x, int n) {
        switch (reduction.kind()) {
            case SUM -> {
                for (int i = 0; i < n; i++) {
                    sum[i] += x[i];
                }
                round(sum, n);
            }
            case AVERAGE -> {
                for (int i = 0; i < n; i++) {
                    x[i] *= factor;
                }
                round(x, n);
                for (int i = 0; i < n; i++) {
                    sum[i] += x[i];
                }
                round(sum, n);
            }
            case MAX -> {
                for (int i = 0; i < n; i++) {
                    sum[i] = Math.max(sum[i], x[i]);
                }
            }
            case MIN -> {
                for (int i = 0; i < n; i++) {
                    sum[i] = Math.min(sum[i], x[i]);
                }
            }
        }
    }

    /** Rounds to the type where each hop does. F32 has enough digits that rounding to it first changes nothing. */
    private void round(float[] x, int n) {
        if (!hops) {
            return;
        }
        for (int i = 0; i < n; i++) {
            if (code != null) {
                x[i] = code.decode(code.encode(x[i], Overflow.SATURATE));
            } else {
                x[i] = type == DType.BF16
                        ? BFloat16.toFloat(BFloat16.fromFloat(x[i]))
                        : Half.toFloat(Half.fromFloat(x[i]));
            }
        }
    }

    private void read(MemorySegment from, long at, float[] to, int n) {
        if (code != null) {
            for (int i = 0; i < n; i++) {
                to[i] = code.decode(from.get(ValueLayout.JAVA_BYTE, at + i) & 0xFF);
            }
        } else if (type == DType.F32) {
            MemorySegment.copy(from, Tensor.F32_LE, at * Float.BYTES, to, 0, n);
        } else {
            boolean bfloat = type == DType.BF16;
            for (int i = 0; i < n; i++) {
                short bits = from.get(Tensor.I16_LE, (at + i) * Short.BYTES);
                to[i] = bfloat ? BFloat16.toFloat(bits) : Half.toFloat(bits);
            }
        }
    }

    private void write(float[] from, int n, MemorySegment to, long at) {
        if (code != null) {
            ElementCast.best()
                    .encode(
                            DType.F32,
                            MemorySegment.ofArray(from).asSlice(0, (long) n * Float.BYTES),
                            1,
                            code,
                            Overflow.SATURATE,
                            to.asSlice(at, n));
        } else if (type == DType.F32) {
            MemorySegment.copy(from, 0, to, Tensor.F32_LE, at * Float.BYTES, n);
        } else {
            boolean bfloat = type == DType.BF16;
            for (int i = 0; i < n; i++) {
                to.set(
                        Tensor.I16_LE,
                        (at + i) * Short.BYTES,
                        bfloat ? BFloat16.fromFloat(from[i]) : Half.fromFloat(from[i]));
            }
        }
    }
}
