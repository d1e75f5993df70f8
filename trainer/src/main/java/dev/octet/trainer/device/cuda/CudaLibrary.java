package dev.octet.trainer.device.cuda;

import java.util.List;
import java.util.stream.IntStream;

/** Libraries of an installed CUDA that Octet loads. */
enum CudaLibrary {
    /** The driver; installed with the system's kernel module, not with CUDA. */
    DRIVER(
            "libcuda.so",
            1,
            1,
            "install NVIDIA's driver for this GPU (in a container: start it with the GPU, docker run --gpus all), or"
                    + " use --device cpu"),

    /** The driver's management library, for the clock; optional. */
    NVML("libnvidia-ml.so", 1, 1, "it comes with NVIDIA's driver"),

    /** Matrix products: cublasLt. */
    CUBLAS_LT(
            "libcublasLt.so",
            13,
            12,
            "install CUDA 12 or 13, or pip install nvidia-cublas-cu12 (nvidia-cublas for CUDA 13); set OCTET_CUDA_HOME"
                    + " to the folder that has it"),

    /** Attention; optional, and numbered apart from CUDA. */
    CUDNN(
            "libcudnn.so",
            9,
            9,
            "pip install nvidia-cudnn-cu13 (nvidia-cudnn-cu12 for CUDA 12), 9.16 or later; set OCTET_CUDA_HOME to the"
                    + " folder that has it; without octet.cuda.attention=cudnn none is needed"),

    /** Sums over several GPUs; optional, and numbered apart from CUDA. */
    NCCL(
            "libnccl.so",
            2,
            2,
            "install NCCL 2 (Debian: libnccl2), or pip install nvidia-nccl-cu12 (nvidia-nccl-cu13 for CUDA 13); set"
                    + " OCTET_CUDA_HOME to the folder that has it; gradient_reduction: f32 needs none"),

    /** Run-time compiler of kernels. */
    NVRTC(
            "libnvrtc.so",
            13,
            12,
            "install CUDA 12 or 13, or pip install nvidia-cuda-nvrtc-cu12 (nvidia-cuda-nvrtc for CUDA 13); set"
                    + " OCTET_CUDA_HOME to the folder that has it");

    private final String stem;
    /** Newest supported major version. */
    private final int newest;

    private final int oldest;
    private final String remedy;

    CudaLibrary(String stem, int newest, int oldest, String remedy) {
        this.stem = stem;
        this.newest = newest;
        this.oldest = oldest;
        this.remedy = remedy;
    }

    /** File name without version: {@code libnvrtc.so}. */
    String stem() {
        return stem;
    }

    /** File name of a major version. */
    String file(int major) {
        return stem + "." + major;
    }

    /**
     * Supported major versions, newest first.
     *
     * @param supported newest major version that the driver supports
     */
    List<Integer> majors(int supported) {
        int first = this == DRIVER ? newest : Math.min(newest, supported);
        return IntStream.iterate(first, m -> m >= oldest, m -> m - 1).boxed().toList();
    }

    /** Advice when the library is missing. */
    String remedy() {
        return remedy;
    }
}
