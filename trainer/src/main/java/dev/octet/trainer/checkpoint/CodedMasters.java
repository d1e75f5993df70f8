package dev.octet.trainer.checkpoint;

import dev.octet.formats.file.ByteSink;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.util.List;

/** Master weights that a run keeps in few bits: a checkpoint has them in F32, but memory never does. */
public interface CodedMasters {
    /** No such weights. */
    CodedMasters NONE = new CodedMasters() {
        @Override
        public List<TensorSpec> specs() {
            return List.of();
        }

        @Override
        public void write(String name, ByteSink sink) {
            throw new IllegalArgumentException("'" + name + "' is not kept in few bits");
        }
    };

    /** Names and shapes, in F32. */
    List<TensorSpec> specs();

    /**
     * Writes the elements of one of them, little-endian F32, decoded piece by piece.
     *
     * @throws IOException from the sink
     */
    void write(String name, ByteSink sink) throws IOException;
}
