package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import java.util.List;
import java.util.Set;

/** Compiles CUDA C++ to machine code or PTX. */
interface KernelCompiler {
    /**
     * Options for every source, in addition to architecture and macros. No fast math and no contraction to fused multiply-adds except where a
     * source says {@code fmaf}: a kernel's results must not depend on the compiler.
     */
    List<String> OPTIONS = List.of("-std=c++17", "--fmad=false");

    /** Name and version: {@code nvrtc 13.0}. */
    String version();

    /** Compute capabilities that it can target. */
    Set<Integer> architectures();

    /**
     * Compiles a source.
     *
     * @throws CompileException when the compiler rejects the source
     */
    byte[] compile(CudaSource source, ComputeCapability architecture) throws CompileException;

    /** Macros as options: {@code -DHEAD=64}. */
    static List<String> macros(CudaSource source) {
        return source.defines().entrySet().stream()
                .map(e -> "-D" + e.getKey() + "=" + e.getValue())
                .toList();
    }
}
