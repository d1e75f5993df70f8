package dev.octet.trainer.kernel;

import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.List;

/**
 * What the table of operators knows of one operator: the nodes it is read from and its three twins. An operator declares its entry behind
 * its other constants, since classes of twins may read those when they are initialised.
 *
 * @param op class of the operator
 * @param names nodes it is read from; none when programs make it themselves (casts, updates, quantisers)
 */
public record OpEntry<O extends Op>(
        Class<O> op, List<Name<O>> names, ReferenceKernel<O> reference, CpuKernel<O> cpu, CudaKernel<O> cuda) {
    /**
     * Nodes that are read as an operator.
     *
     * @param domain empty for ONNX's default one, {@link Node#OCTET_DOMAIN} for Octet's
     * @param type of the node
     */
    public record Name<O extends Op>(String domain, String type, OpReader<O> reader) {}

    public OpEntry {
        names = List.copyOf(names);
    }

    /** An operator that no node is read as, until {@link #onnx} or {@link #octet} name some. */
    public static <O extends Op> OpEntry<O> of(
            Class<O> op, ReferenceKernel<O> reference, CpuKernel<O> cpu, CudaKernel<O> cuda) {
        return new OpEntry<>(op, List.of(), reference, cpu, cuda);
    }

    /** The same, also read from nodes of this type in ONNX's default domain. */
    public OpEntry<O> onnx(String type, OpReader<O> reader) {
        return with(new Name<>("", type, reader));
    }

    /** The same, also read from nodes of this type in Octet's domain. */
    public OpEntry<O> octet(String type, OpReader<O> reader) {
        return with(new Name<>(Node.OCTET_DOMAIN, type, reader));
    }

    private OpEntry<O> with(Name<O> name) {
        List<Name<O>> more = new ArrayList<>(names);
        more.add(name);
        return new OpEntry<>(op, more, reference, cpu, cuda);
    }
}
