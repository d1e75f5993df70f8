package dev.octet.pipeline.plan;

/**
 * How accelerators share the work: {@code data * tensor * pipeline} of them. Neighbours are the tensor-parallel ranks, then the data-parallel ones, then stages.
 *
 * @param data groups that compute different samples
 * @param tensor ranks that share each layer, with sequence parallelism (Korthikanti et al., arXiv:2205.05198)
 * @param pipeline stages that layers are dealt out to
 * @param chunks groups of layers of a stage; above 1 the schedule is interleaved (Narayanan et al., arXiv:2104.04473)
 * @param zero what data-parallel ranks do not all keep (Rajbhandari et al., arXiv:1910.02054): 1 masters and moments, 2 gradients too, 3 weights too (FSDP)
 */
public record Mesh(int data, int tensor, int pipeline, int chunks, int zero) {
    /** One accelerator alone. */
    public static final Mesh ONE = new Mesh(1, 1, 1, 1, 0);

    /** Checks the numbers. */
    public Mesh {
        if (data < 1 || tensor < 1 || pipeline < 1 || chunks < 1 || zero < 0 || zero > 3) {
            throw new IllegalArgumentException("data " + data + ", tensor " + tensor + ", pipeline " + pipeline
                    + ", chunks " + chunks + ", zero " + zero);
        }
    }

    /** Accelerators. */
    public int size() {
        return data * tensor * pipeline;
    }
}
