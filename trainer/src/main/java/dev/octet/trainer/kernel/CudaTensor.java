package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;

/**
 * A tensor in device memory, row-major, little-endian, {@code type.byteSize()} bytes.
 *
 * @param address in the device's address space, a multiple of 64
 */
public record CudaTensor(OperandType type, long address) {
    /** Type of the elements. */
    public DType dtype() {
        return type.dtype();
    }

    /** Its dimensions. */
    public Shape shape() {
        return type.shape();
    }

    /** Number of elements. */
    public long count() {
        return type.count();
    }

    /** Bytes of the elements. */
    public long byteSize() {
        return type.byteSize();
    }

    /** Suffix of kernel names for the element type, as in {@code octet.cuh}: {@code f32}, {@code bf16}, {@code i64}. */
    public String suffix() {
        return CudaSource.suffix(type.dtype());
    }
}
