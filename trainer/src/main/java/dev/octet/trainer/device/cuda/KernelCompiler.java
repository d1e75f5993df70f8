package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import java.util.List;
import java.util.Set;

/** Turns CUDA C++ into what a GPU loads. */
interface KernelCompiler {
    /**
     * Options for every source, in addition to its architecture and macros. No fast mathematics: what a kernel computes must not depend on who
     * compiles it.
     */
    List<String> OPTIONS = List.of("-std=c++17");

    /** Name and version: {@code nvrtc 13.0}. */
    String version();

    /** Capabilities it compiles for. */
    Set<Integer> architectures();

    /**
     * Compiles a source.
     *
     * @throws CompileException when the source is refused
     */
    byte[] compile(CudaSource source, ComputeCapability architecture) throws CompileException;

    /** As {@code -DHEAD=64}. */
    static List<String> macros(CudaSource source) {
        return source.defines().entrySet().stream()
                .map(e -> "-D" + e.getKey() + "=" + e.getValue())
                .toList();
    }
}
