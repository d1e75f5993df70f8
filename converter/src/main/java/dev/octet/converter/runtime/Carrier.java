package dev.octet.converter.runtime;

import dev.octet.converter.data.Batch;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.util.Map;

/** Carries values from one piece of a model to the next. Called batch by batch in order, on one thread. */
interface Carrier {
    /** For a model in one piece. */
    Carrier NONE = new Carrier() {
        @Override
        public Map<String, Tensor> next() {
            return Map.of();
        }

        @Override
        public void computed(Batch batch, OnnxRuntimeSession.Outputs outputs) {
            // there is no next piece
        }
    };

    /** Inputs of the next batch in addition to the data. */
    Map<String, Tensor> next() throws IOException;

    /** Called after a batch has run. */
    void computed(Batch batch, OnnxRuntimeSession.Outputs outputs) throws IOException;
}
