package dev.octet.converter.evaluate;

import dev.octet.converter.data.Batch;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.util.Map;

/** Computes a model's outputs, for example by ONNX Runtime or a trainer. */
@FunctionalInterface
public interface ModelRun {
    /**
     * Computes the outputs of a batch.
     *
     * @return F32 by output name, and what the other model takes as further inputs, by their names and off the heap; read before the next call
     */
    Map<String, Tensor> outputs(Batch batch) throws IOException;
}
