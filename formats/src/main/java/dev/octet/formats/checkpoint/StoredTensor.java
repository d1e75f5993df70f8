package dev.octet.formats.checkpoint;

import dev.octet.formats.model.Pieces;
import dev.octet.formats.model.Shard;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.util.Optional;

/**
 * A tensor and the position of its bytes.
 *
 * @param position position of the tensor's first byte in the shard's file
 * @param pieces where its elements lie instead, when they are not one run of the shard's file
 */
public record StoredTensor(TensorSpec spec, Shard shard, long position, Optional<Pieces> pieces) {
    /** Its name in the checkpoint. */
    public String name() {
        return spec.name();
    }

    /** Its element type. */
    public DType dtype() {
        return spec.dtype();
    }

    /** Its shape. */
    public Shape shape() {
        return spec.shape();
    }
}
