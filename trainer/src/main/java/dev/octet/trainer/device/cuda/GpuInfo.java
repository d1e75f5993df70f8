package dev.octet.trainer.device.cuda;

/**
 * Properties of a GPU.
 *
 * @param ordinal CUDA device number, from 0
 * @param name as reported by the driver: {@code NVIDIA H200}
 * @param capability compute capability, 10 · major + minor: 89 for Ada, 90 for Hopper, 100 for Blackwell
 * @param totalBytes size of its memory
 * @param versions of driver and libraries, for logs and results: {@code driver 13.0, cublasLt 13.1.1, nvrtc 13.0}
 */
public record GpuInfo(int ordinal, String name, int capability, int multiprocessors, long totalBytes, String versions) {
    /** First capability with FP8 tensor cores and conversions (Ada). */
    public static final int FP8 = 89;

    /** The capability on which cublasLt applies scales of blocks of 128 (Hopper). */
    static final int SCALED_BLOCKS = 90;

    /** Whether the GPU multiplies FP8 codes. */
    public boolean hasFp8() {
        return capability >= FP8;
    }

    /** Compute capability as {@code 9.0}. */
    public String capabilityText() {
        return capability / 10 + "." + capability % 10;
    }
}
