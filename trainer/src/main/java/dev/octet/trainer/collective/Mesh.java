package dev.octet.trainer.collective;

/**
 * How ranks share the work: {@code data * tensor * pipeline} of them. Neighbours are the tensor-parallel ranks, then the data-parallel ones, then stages.
 *
 * @param data groups that compute different samples
 * @param tensor ranks that share each layer (Shoeybi et al., arXiv:1909.08053)
 * @param pipeline stages that layers are dealt out to
 * @param chunks groups of layers of a stage; above 1 the schedule is interleaved (Narayanan et al., arXiv:2104.04473)
 * @param zero what data-parallel ranks do not all keep (Rajbhandari et al., arXiv:1910.02054): 1 masters and moments, 2 gradients too, 3 weights too (FSDP)
 */
public record Mesh(int data, int tensor, int pipeline, int chunks, int zero) {
    /** One rank alone. */
    public static final Mesh ONE = new Mesh(1, 1, 1, 1, 0);

    /** Checks the numbers. */
    public Mesh {
        if (data < 1 || tensor < 1 || pipeline < 1 || chunks < 1 || zero < 0 || zero > 3) {
            throw new IllegalArgumentException("data " + data + ", tensor " + tensor + ", pipeline " + pipeline
                    + ", chunks " + chunks + ", zero " + zero);
        }
    }

    /** Ranks. */
    public int size() {
        return data * tensor * pipeline;
    }

    /** The rank at a place, from 0. */
    int rank(int ofData, int ofTensor, int stage) {
        return ofTensor + tensor * (ofData + data * stage);
    }

    /** For people: {@code data 2 x tensor 4}. */
    public String text() {
        return "data " + data + (tensor > 1 ? " x tensor " + tensor : "")
                + (pipeline > 1 ? " x pipeline " + pipeline : "");
    }
}
