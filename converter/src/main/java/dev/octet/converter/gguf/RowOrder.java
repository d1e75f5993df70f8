package dev.octet.converter.gguf;

import java.util.function.LongUnaryOperator;

/**
 * Which row of a parameter of transformers each row of a tensor in a file is, where llama.cpp rotates elements 2i and 2i + 1 of a head, and
 * transformers i and i + size/2: rows of q and k are reordered head by head, so that both compute the same. Row 2i + j of a head in the file is row
 * i + j·size/2 of the head in transformers.
 */
final class RowOrder {
    private RowOrder() {}

    /**
     * From a row in the file to the row in transformers.
     *
     * @param headRows rows of a head, even
     */
    static LongUnaryOperator fromFile(long headRows) {
        return row -> {
            long within = row % headRows;
            return row - within + within / 2 + within % 2 * (headRows / 2);
        };
    }

    /**
     * From a row in transformers to the row in the file.
     *
     * @param headRows rows of a head, even
     */
    static LongUnaryOperator toFile(long headRows) {
        return row -> {
            long within = row % headRows;
            long half = headRows / 2;
            return row - within + within % half * 2 + within / half;
        };
    }
}
