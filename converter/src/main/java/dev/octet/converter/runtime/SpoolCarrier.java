package dev.octet.converter.runtime;

import dev.octet.converter.data.Batch;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads the values of the previous piece from one spill and writes this piece's values to another. */
final class SpoolCarrier implements Carrier {
    private final @Nullable ActivationSpill from;
    private final List<String> in;
    private final @Nullable ActivationSpill to;
    private final List<String> out;

    /**
     * @param from null for the first piece
     * @param to null for the last piece
     */
    SpoolCarrier(@Nullable ActivationSpill from, List<String> in, @Nullable ActivationSpill to, List<String> out) {
        this.from = from;
        this.in = in;
        this.to = to;
        this.out = out;
    }

    /** Element types of the incoming values, from the first batch; rewinds afterwards. */
    static Map<String, DType> types(@Nullable ActivationSpill from, List<String> in) throws IOException {
        Map<String, DType> types = new LinkedHashMap<>();
        if (from != null) {
            from.rewind();
            for (String value : in) {
                types.put(value, from.read(value).dtype());
            }
            from.rewind();
        }
        return types;
    }

    @Override
    public Map<String, Tensor> next() throws IOException {
        Map<String, Tensor> values = new LinkedHashMap<>();
        if (from != null) {
            for (String value : in) {
                values.put(value, from.read(value));
            }
        }
        return values;
    }

    @Override
    public void computed(Batch batch, OnnxRuntimeSession.Outputs outputs) throws IOException {
        if (to != null) {
            for (String value : out) {
                // values that only pass through this piece are not among its outputs
                to.write(in.contains(value) ? batch.tensor(value) : outputs.readAsIs(value));
            }
        }
    }
}
