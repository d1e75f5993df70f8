package dev.octet.quant.scale;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.MemorySegment;

/**
 * Codes and the scales that give them meaning: {@code value[i] = decode(code[i]) * scale[Blocks.of(shape, granularity).scaleOf(i)]}.
 *
 * @param spec name and shape of the tensor; its type is that of the codes
 * @param codes row-major, one byte each; E2M1 two to a byte, the earlier in the low nibble
 * @param scale F32, BF16, F16 or F8_E8M0 of shape {@code granularity.scaleShape(spec.shape())}; dequantisation multipliers
 * @param granularity which elements share a scale
 * @param format the codes
 */
public record QuantizedTensor(
        TensorSpec spec, MemorySegment codes, Tensor scale, Granularity granularity, Float8Format format) {
    /** @throws IllegalArgumentException when the parts do not fit each other */
    public QuantizedTensor {
        if (spec.dtype() != format.dtype()) {
            throw new IllegalArgumentException(spec + " does not hold codes of " + format);
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
    }

    /** The codes as a tensor of their own type, without the scales. */
    public Tensor codesTensor() {
        return new Tensor(spec, codes);
    }

    /** Scale {@code index} (row-major) as a float. */
    public float scaleAt(long index) {
        return StoredScale.get(scale.dtype(), scale.bytes(), index);
    }
}
