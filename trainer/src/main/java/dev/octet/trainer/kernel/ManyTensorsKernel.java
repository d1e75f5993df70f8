package dev.octet.trainer.kernel;

import java.util.List;

/**
 * A kernel that does the same to many tensors in one launch. Its first arguments are a table with some 64-bit words for each tensor, and a list of the pieces
 * that they are cut into: for each block the number of a tensor and the first element.
 *
 * @param piece elements that a block of 256 threads takes
 * @param arguments behind the table and the list
 */
public record ManyTensorsKernel(CudaSource source, String name, long piece, List<Object> arguments) {
    public ManyTensorsKernel {
        arguments = List.copyOf(arguments);
    }
}
