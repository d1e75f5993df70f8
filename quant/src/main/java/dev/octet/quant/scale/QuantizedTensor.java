package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * Codes and the scales that give them meaning, with {@code s = Blocks.of(shape, granularity).scaleOf(i)}:
 * {@code value[i] = decode(code[i]) * scale[s]} for floats, {@code (code[i] - zeroPoint[s]) * scale[s]} for integers.
 *
 * @param spec name and shape of the tensor; its type is that of the codes
 * @param codes row-major, one byte each, integers of four bits too; E2M1 two to a byte, the earlier in the low nibble
 * @param scale F32, BF16, F16 or F8_E8M0 of shape {@code granularity.scaleShape(spec.shape())}; dequantisation multipliers
 * @param zeroPoints I8 of the same shape, the codes of zero; null for types without ({@link QuantType#hasZeroPoint})
 * @param granularity which elements share a scale
 * @param type the codes
 */
public record QuantizedTensor(
        TensorSpec spec,
        MemorySegment codes,
        Tensor scale,
        @Nullable Tensor zeroPoints,
        Granularity granularity,
        QuantType type) {
    /** @throws IllegalArgumentException when the parts do not fit each other */
    public QuantizedTensor {
        if (spec.dtype() != type.dtype()) {
            throw new IllegalArgumentException(spec + " does not hold codes of " + type);
        }
        if (codes.byteSize() != spec.byteSize()) {
            throw new IllegalArgumentException(
                    spec + " takes " + spec.byteSize() + " bytes, the segment has " + codes.byteSize());
        }
        Shape scaleShape = granularity.scaleShape(spec.shape());
        if (!StoredScale.isScaleType(scale.dtype()) || !scale.shape().equals(scaleShape)) {
            throw new IllegalArgumentException(
                    spec + " " + granularity.text() + " needs scales of shape " + scaleShape + ", got " + scale.spec());
        }
        if (type.hasZeroPoint() != (zeroPoints != null)) {
            throw new IllegalArgumentException(
                    spec + ": " + type + (zeroPoints == null ? " need" : " have no") + " zero points");
        }
        if (zeroPoints != null
                && (zeroPoints.dtype() != DType.I8 || !zeroPoints.shape().equals(scaleShape))) {
            throw new IllegalArgumentException(
                    spec + " needs zero points I8 of shape " + scaleShape + ", got " + zeroPoints.spec());
        }
    }

    /** Codes without zero points. */
    public QuantizedTensor(
            TensorSpec spec, MemorySegment codes, Tensor scale, Granularity granularity, QuantType type) {
        this(spec, codes, scale, null, granularity, type);
    }

    /**
     * Codes of a float format.
     *
     * @throws IllegalArgumentException for E8M0, which is a format for scales
     */
    public QuantizedTensor(
            TensorSpec spec, MemorySegment codes, Tensor scale, Granularity granularity, Float8Format format) {
        this(
                spec,
                codes,
                scale,
                null,
                granularity,
                QuantType.of(format).orElseThrow(() -> new IllegalArgumentException(format + " is for scales")));
    }

    /**
     * The float format of the codes.
     *
     * @throws IllegalStateException for integers
     */
    public Float8Format format() {
        return type.minifloat().orElseThrow(() -> new IllegalStateException(type + " are integers, not floats"));
    }

    /** The codes as a tensor of their own type, without the scales. */
    public Tensor codesTensor() {
        return new Tensor(spec, codes);
    }

    /** Scale {@code index} (row-major) as a float. */
    public float scaleAt(long index) {
        return StoredScale.get(scale.dtype(), scale.bytes(), index);
    }

    /** Zero point {@code index} (row-major); 0 for types without. */
    public int zeroPointAt(long index) {
        return zeroPoints == null ? 0 : zeroPoints.bytes().get(ValueLayout.JAVA_BYTE, index);
    }
}
