package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;
import static dev.octet.quant.gptq.GptqTileKernel.TILE_ELEMENTS;

/**
 * The layout of the lower triangle of a square matrix in one array: panels of 16 columns, each from its diagonal tile down, in rows of 16
 * elements. Tiles are contiguous, and so is the part of a panel below any row. Diagonal tiles are complete; rows and columns are padded to
 * the next multiple of 16.
 *
 * @param size rows and columns of the matrix, at least 1
 */
record LowerTriangle(int size) {
    /** The largest matrix whose triangle fits in an array. */
    static final int MAX_SIZE = 65_504;

    LowerTriangle {
        if (size < 1 || size > MAX_SIZE) {
            throw new IllegalArgumentException(
                    "a square matrix of size " + size + "; 1 to " + MAX_SIZE + " are possible");
        }
    }

    /** Number of panels. */
    int panels() {
        return Math.ceilDiv(size, TILE);
    }

    /** {@link #size} rounded up to whole tiles. */
    int paddedSize() {
        return panels() * TILE;
    }

    /** Number of elements of the array. */
    int length() {
        return panelStart(panels());
    }

    /** The start of panel {@code panel}: after {@code panels + (panels - 1) + ..} tiles. */
    int panelStart(int panel) {
        long tiles = (long) panel * panels() - (long) panel * (panel - 1) / 2;
        return Math.toIntExact(tiles * TILE_ELEMENTS);
    }

    /** The start of the tile of tile row {@code rowTile} in panel {@code panel}; {@code rowTile >= panel}. */
    int tileStart(int rowTile, int panel) {
        return panelStart(panel) + (rowTile - panel) * TILE_ELEMENTS;
    }

    /** The index of element ({@code row}, {@code column}); {@code row / 16 >= column / 16}. */
    int index(int row, int column) {
        int panel = column / TILE;
        return panelStart(panel) + (row - panel * TILE) * TILE + column % TILE;
    }
}
