package dev.octet.quant.gptq;

import dev.octet.quant.number.FusedMultiplyAdd;

/** The reference twin: three loops. */
record GptqTileReference() implements GptqTileKernel {
    @Override
    public void accumulate(double[] a, int aFrom, double[] b, int bFrom, int steps, double[] out, int outFrom) {
        for (int t = 0; t < steps; t++) {
            for (int i = 0; i < TILE; i++) {
                double ai = a[aFrom + t * TILE + i];
                int row = outFrom + i * TILE;
                for (int j = 0; j < TILE; j++) {
                    out[row + j] = FusedMultiplyAdd.of(ai, b[bFrom + t * TILE + j], out[row + j]);
                }
            }
        }
    }
}
