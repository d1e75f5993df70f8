package dev.octet.trainer.device.cuda;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.EnumMap;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * Normally distributed numbers as operands of products that are timed: codes of FP8 as a cast with a scale of the largest magnitude makes
 * them. Its length divides no usual row, so that rows of a matrix filled with it differ.
 */
final class NoisePattern {
    private static final int BYTES = 256 * 3907;

    /** Magnitude of the largest of some hundred thousand normal numbers, in standard deviations. */
    private static final float LARGEST = 4.6f;

    private static final Map<DType, MemorySegment> PATTERNS = new EnumMap<>(DType.class);

    private NoisePattern() {}

    /** The pattern of F32, BF16, F16 or an FP8 type. */
    static synchronized MemorySegment of(DType type) {
        return PATTERNS.computeIfAbsent(type, NoisePattern::make);
    }

    private static MemorySegment make(DType type) {
        ByteBuffer bytes = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
        SplittableRandom random = new SplittableRandom(24);
        while (bytes.hasRemaining()) {
            float x = (float) random.nextGaussian();
            switch (type) {
                case F32 -> bytes.putFloat(x);
                case BF16 -> bytes.putShort(BFloat16.fromFloat(x));
                case F16 -> bytes.putShort(Half.fromFloat(x));
                case F8_E4M3FN -> bytes.put(code(Float8Format.E4M3FN, x));
                case F8_E5M2 -> bytes.put(code(Float8Format.E5M2, x));
                default -> throw new IllegalArgumentException(type + " is not an operand of products");
            }
        }
        return MemorySegment.ofArray(bytes.array());
    }

    private static byte code(Float8Format format, float x) {
        return (byte) format.encode(x / LARGEST * format.maxValue(), Overflow.SATURATE);
    }
}
