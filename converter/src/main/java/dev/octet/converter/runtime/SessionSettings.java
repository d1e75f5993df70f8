package dev.octet.converter.runtime;

/**
 * Settings for loading a model.
 *
 * @param threads threads of one operator; at least 1
 * @param quantisedKernels whether ONNX Runtime may fuse dequantise-compute-quantise groups into integer kernels, its default. With FP8, a
 *     model with 3-D MatMul then fails to load (the integer kernels do not support the type), and Relu before QuantizeLinear is dropped as
 *     if code 0 were the smallest. False computes all groups in FP32 as written. Converted models are checked with true, as their users
 *     will run them
 */
public record SessionSettings(int threads, boolean quantisedKernels) {
    public SessionSettings {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
    }

    /** The settings of the model's users: ONNX Runtime's defaults on all cores. */
    public static SessionSettings defaults() {
        return new SessionSettings(Runtime.getRuntime().availableProcessors(), true);
    }

    /** A copy with this number of threads. */
    public SessionSettings withThreads(int newThreads) {
        return new SessionSettings(newThreads, quantisedKernels);
    }
}
