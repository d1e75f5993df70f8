package dev.octet.trainer.kernel;

import dev.octet.formats.graph.Node;
import org.jspecify.annotations.Nullable;

/**
 * A row of the operator table.
 *
 * @param domain of the ONNX operator: empty for the default domain, {@link Node#OCTET_DOMAIN}, or null for operators that only programs
 *     create
 */
public record OpEntry<O extends Op>(
        @Nullable String domain,
        String type,
        Class<O> op,
        OpReader<O> reader,
        ReferenceKernel<O> reference,
        CpuKernel<O> cpu,
        CudaKernel<O> cuda) {
    /** An operator of ONNX's default domain. */
    public static <O extends Op> OpEntry<O> onnx(
            String type,
            Class<O> op,
            OpReader<O> reader,
            ReferenceKernel<O> reference,
            CpuKernel<O> cpu,
            CudaKernel<O> cuda) {
        return new OpEntry<>("", type, op, reader, reference, cpu, cuda);
    }

    /** An operator of Octet's domain. */
    public static <O extends Op> OpEntry<O> octet(
            String type,
            Class<O> op,
            OpReader<O> reader,
            ReferenceKernel<O> reference,
            CpuKernel<O> cpu,
            CudaKernel<O> cuda) {
        return new OpEntry<>(Node.OCTET_DOMAIN, type, op, reader, reference, cpu, cuda);
    }

    /** An operator that only programs create: casts, updates, quantisers. */
    public static <O extends Op> OpEntry<O> made(
            String type, Class<O> op, ReferenceKernel<O> reference, CpuKernel<O> cpu, CudaKernel<O> cuda) {
        return new OpEntry<>(
                null,
                type,
                op,
                s -> {
                    throw new IllegalStateException(type + " is not created from nodes");
                },
                reference,
                cpu,
                cuda);
    }
}
