package dev.octet.converter.transform;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.quant.work.Workers;

/** Floats of a model's tensors by name, read when they are asked for. For use by several threads at once. */
public interface WeightSource {
    /** The shape of a tensor. */
    Shape shape(String name);

    /** Its rows as F32; a vector is one row. */
    WeightDelta.Rows rows(String name);

    /** Rows of a matrix, 1 of a vector. */
    default int rowCount(String name) {
        Shape shape = shape(name);
        return shape.rank() < 2 ? 1 : Math.toIntExact(shape.elementCount() / Math.max(1, shape.dim(shape.rank() - 1)));
    }

    /** Elements of a row. */
    default int cols(String name) {
        Shape shape = shape(name);
        return shape.rank() == 0 ? 1 : Math.toIntExact(shape.dim(shape.rank() - 1));
    }

    /** The largest magnitude of each input channel of a Linear's weight. */
    default float[] inputAmax(GraphLinear linear, int threads) {
        String name = linear.weight();
        int rows = rowCount(name);
        int cols = cols(name);
        WeightDelta.Rows source = rows(name);
        float[] amax = new float[linear.in()];
        int bands = Math.ceilDiv(rows, 64);
        Workers.run(bands, threads, band -> {
            float[] row = new float[cols];
            float[] own = new float[linear.in()];
            for (int r = band * 64; r < Math.min(rows, (band + 1) * 64); r++) {
                source.read(r, row);
                for (int c = 0; c < cols; c++) {
                    int channel = linear.outIn() ? c : r;
                    own[channel] = Math.max(own[channel], Math.abs(row[c]));
                }
            }
            synchronized (amax) { // a maximum, so the order does not matter
                for (int i = 0; i < own.length; i++) {
                    amax[i] = Math.max(amax[i], own[i]);
                }
            }
        });
        return amax;
    }
}
