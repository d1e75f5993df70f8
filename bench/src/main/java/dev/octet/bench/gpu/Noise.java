package dev.octet.bench.gpu;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.device.cuda.Gpu;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.EnumMap;
import java.util.Map;
import java.util.SplittableRandom;

/** Operands on a GPU. Noise, because a product of equal numbers takes less power, and so has more clock, than one of a model's. */
final class Noise {
    /** Noise that is repeated. */
    private static final int PIECE = 1 << 22;

    private static final Map<DType, MemorySegment> PIECES = new EnumMap<>(DType.class);

    private Noise() {}

    /** Address of normal numbers in BF16, or cast to FP8 with scale 1, as the peers' are. */
    static long of(Gpu gpu, DType type, long elements) {
        long bytes = elements * type.bits() / 8;
        long address = gpu.allocate(bytes, "noise");
        MemorySegment piece = PIECES.computeIfAbsent(type, Noise::piece);
        for (long at = 0; at < bytes; at += PIECE) {
            gpu.write(address + at, piece.asSlice(0, Math.min(PIECE, bytes - at)));
        }
        return address;
    }

    private static MemorySegment piece(DType type) {
        MemorySegment piece = Arena.ofAuto().allocate(PIECE, 64);
        SplittableRandom random = new SplittableRandom(5);
        for (long i = 0; i < PIECE * 8L / type.bits(); i++) {
            float x = (float) random.nextGaussian();
            if (type == DType.BF16) {
                piece.set(Tensor.I16_LE, 2 * i, (short) (Float.floatToRawIntBits(x) >>> 16));
            } else {
                piece.set(ValueLayout.JAVA_BYTE, i, (byte) format(type).encode(x, Overflow.SATURATE));
            }
        }
        return piece;
    }

    private static Float8Format format(DType type) {
        return type == DType.F8_E5M2 ? Float8Format.E5M2 : Float8Format.E4M3FN;
    }

    /** Address of the F32 1. */
    static long one(Gpu gpu) {
        long address = gpu.allocate(Float.BYTES, "a scale");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment one = arena.allocate(Float.BYTES, Float.BYTES);
            one.set(Tensor.F32_LE, 0, 1f);
            gpu.write(address, one);
        }
        return address;
    }
}
