package dev.octet.trainer.kernel;

import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * What the host does between work of a device, with copies of operands in its memory.
 *
 * @param name for logs
 * @param read what it reads; a tensor that it changes is among these and those written
 * @param written what it writes
 * @param body does it: gets the copy of each
 */
public record CudaHostCall(
        String name, List<CudaTensor> read, List<CudaTensor> written, Consumer<Function<CudaTensor, CpuTensor>> body) {
    public CudaHostCall {
        read = List.copyOf(read);
        written = List.copyOf(written);
    }
}
