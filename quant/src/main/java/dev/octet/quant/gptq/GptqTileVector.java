package dev.octet.quant.gptq;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.VectorSpecies;

/** The twin on the Vector API: 4 rows by two vectors of the tile stay in registers over all steps. */
record GptqTileVector() implements GptqTileKernel {
    private static final VectorSpecies<Double> SPECIES =
            DoubleVector.SPECIES_PREFERRED.length() > DoubleVector.SPECIES_512.length()
                    ? DoubleVector.SPECIES_512
                    : DoubleVector.SPECIES_PREFERRED;
    private static final int LANES = SPECIES.length();
    /**
     * Rows held in registers: with two vectors each, 8 chains of additions, which hide the latency of an addition (2 units of 4 cycles).
     */
    private static final int ROWS = 4;
    /** Steps per chunk: its rows of {@code a} and {@code b}, 8 KiB each, stay in the first-level cache for all parts of the tile. */
    private static final int CHUNK = 64;

    @Override
    public void accumulate(double[] a, int aFrom, double[] b, int bFrom, int steps, double[] out, int outFrom) {
        for (int t = 0; t < steps; t += CHUNK) {
            int count = Math.min(CHUNK, steps - t);
            for (int i = 0; i < TILE; i += ROWS) {
                for (int j = 0; j < TILE; j += 2 * LANES) {
                    int part = outFrom + i * TILE + j;
                    accumulatePart(a, aFrom + t * TILE + i, b, bFrom + t * TILE + j, count, out, part);
                }
            }
        }
    }

    private static void accumulatePart(
            double[] a, int aFrom, double[] b, int bFrom, int steps, double[] out, int outFrom) {
        DoubleVector c00 = load(out, outFrom);
        DoubleVector c01 = load(out, outFrom + LANES);
        DoubleVector c10 = load(out, outFrom + TILE);
        DoubleVector c11 = load(out, outFrom + TILE + LANES);
        DoubleVector c20 = load(out, outFrom + 2 * TILE);
        DoubleVector c21 = load(out, outFrom + 2 * TILE + LANES);
        DoubleVector c30 = load(out, outFrom + 3 * TILE);
        DoubleVector c31 = load(out, outFrom + 3 * TILE + LANES);
        for (int t = 0; t < steps * TILE; t += TILE) {
            DoubleVector b0 = load(b, bFrom + t);
            DoubleVector b1 = load(b, bFrom + t + LANES);
            DoubleVector a0 = DoubleVector.broadcast(SPECIES, a[aFrom + t]);
            c00 = a0.fma(b0, c00);
            c01 = a0.fma(b1, c01);
            DoubleVector a1 = DoubleVector.broadcast(SPECIES, a[aFrom + t + 1]);
            c10 = a1.fma(b0, c10);
            c11 = a1.fma(b1, c11);
            DoubleVector a2 = DoubleVector.broadcast(SPECIES, a[aFrom + t + 2]);
            c20 = a2.fma(b0, c20);
            c21 = a2.fma(b1, c21);
            DoubleVector a3 = DoubleVector.broadcast(SPECIES, a[aFrom + t + 3]);
            c30 = a3.fma(b0, c30);
            c31 = a3.fma(b1, c31);
        }
        c00.intoArray(out, outFrom);
        c01.intoArray(out, outFrom + LANES);
        c10.intoArray(out, outFrom + TILE);
        c11.intoArray(out, outFrom + TILE + LANES);
        c20.intoArray(out, outFrom + 2 * TILE);
        c21.intoArray(out, outFrom + 2 * TILE + LANES);
        c30.intoArray(out, outFrom + 3 * TILE);
        c31.intoArray(out, outFrom + 3 * TILE + LANES);
    }

    private static DoubleVector load(double[] values, int from) {
        return DoubleVector.fromArray(SPECIES, values, from);
    }
}
