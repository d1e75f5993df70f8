package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;
import static dev.octet.quant.gptq.GptqTileKernel.TILE_ELEMENTS;

import dev.octet.quant.number.FusedMultiplyAdd;

/**
 * Factorises {@code A = L L^T} in place, for a symmetric positive definite A and lower triangular L.
 *
 * <p>Right-looking: finishes a panel of 16 columns, then subtracts it from the rest of the matrix tile by tile. Each element still
 * accumulates its products in the order of the columns, so the bits equal those of the textbook's three loops with fused multiply-adds.
 */
final class Cholesky {
    private final LowerTriangle layout;
    private final GptqTileKernel kernel;
    /** The finished panel, transposed tile by tile for the kernel: step (column) by step. */
    private final double[] panel;

    private final double[] negated;

    private Cholesky(LowerTriangle layout, GptqTileKernel kernel) {
        this.layout = layout;
        this.kernel = kernel;
        this.panel = new double[layout.paddedSize() * TILE];
        this.negated = new double[panel.length];
    }

    /**
     * Replaces A by L.
     *
     * @param a the lower triangle of A; rows and columns beyond the size must be the identity's
     * @return whether A was positive definite to working precision; if not, the contents of {@code a} are undefined
     */
    static boolean factor(LowerTriangle layout, double[] a, GptqTileKernel kernel) {
        Cholesky cholesky = new Cholesky(layout, kernel);
        for (int p = 0; p < layout.panels(); p++) {
            if (!finishPanel(a, layout.panelStart(p), layout.paddedSize() - p * TILE)) {
                return false;
            }
            cholesky.takeOff(a, p);
        }
        return true;
    }

    /** Factorises the diagonal tile at {@code start} and solves the rows below it. */
    private static boolean finishPanel(double[] a, int start, int rows) {
        for (int row = 0; row < rows; row++) {
            int r = start + row * TILE;
            for (int column = 0; column < Math.min(row, TILE); column++) {
                int d = start + column * TILE;
                a[r + column] = remainder(a, r, d, column) / a[d + column];
            }
            if (row < TILE) {
                double pivot = remainder(a, r, r, row);
                if (!(pivot > 0 && pivot < Double.POSITIVE_INFINITY)) {
                    return false;
                }
                a[r + row] = Math.sqrt(pivot);
            }
        }
        return true;
    }

    /** Element {@code column} of row {@code r} minus the products of both rows' earlier elements. */
    private static double remainder(double[] a, int r, int d, int column) {
        double rest = a[r + column];
        for (int t = 0; t < column; t++) {
            rest = FusedMultiplyAdd.of(-a[r + t], a[d + t], rest);
        }
        return rest;
    }

    private void takeOff(double[] a, int p) {
        for (int i = p + 1; i < layout.panels(); i++) {
            transpose(a, layout.tileStart(i, p), i * TILE_ELEMENTS);
        }
        for (int j = p + 1; j < layout.panels(); j++) {
            for (int i = j; i < layout.panels(); i++) {
                kernel.accumulate(
                        negated, i * TILE_ELEMENTS, panel, j * TILE_ELEMENTS, TILE, a, layout.tileStart(i, j));
            }
        }
    }

    private void transpose(double[] a, int tile, int to) {
        for (int row = 0; row < TILE; row++) {
            for (int column = 0; column < TILE; column++) {
                double value = a[tile + row * TILE + column];
                panel[to + column * TILE + row] = value;
                negated[to + column * TILE + row] = -value;
            }
        }
    }
}
