package dev.octet.converter.runtime;

/**
 * How a model is loaded.
 *
 * @param threads threads that one operator may use; at least 1
 * @param quantisedKernels whether ONNX Runtime may turn dequantise-compute-quantise groups into integer kernels, its default. For FP8
 *     this fails to load on 3-D MatMul (the integer kernels do not take the type), and Relu before QuantizeLinear is dropped, as if
 *     code 0 were the smallest; false computes all groups in FP32 as they are written. Converted models are checked with true, as their
 *     users will run them
 */
public record SessionSettings(int threads, boolean quantisedKernels) {
    public SessionSettings {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
    }

    /** As users of the model will run it: ONNX Runtime's own defaults on all cores. */
    public static SessionSettings defaults() {
        return new SessionSettings(Runtime.getRuntime().availableProcessors(), true);
    }

    /** The same with another threads. */
    public SessionSettings withThreads(int newThreads) {
        return new SessionSettings(newThreads, quantisedKernels);
    }
}
