package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;

/**
 * A tensor in device memory, row-major, little-endian, {@code type.byteSize()} bytes.
 *
 * @param address in the device's address space, a multiple of 64; of a part of another tensor, of 16
 * @param pitch elements from one row of the last axis to the next: as many as a row has, except in operands that a kernel takes as parts of another tensor
 *     ({@link CudaKernel#takesParts}) or with long rows ({@link CudaKernel#takesLongRows})
 */
public record CudaTensor(OperandType type, long address, long pitch) {
    /** A tensor whose rows lie one behind the other. */
    public CudaTensor(OperandType type, long address) {
        this(type, address, type.shape().rank() == 0 ? 1 : type.shape().dim(-1));
    }

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
