package dev.octet.trainer.device.cuda;

import java.util.List;

/** What Octet loads of an installed CUDA. */
enum CudaLibrary {
    /** The driver; it comes with the kernel module of the system, not with CUDA. */
    DRIVER(
            "libcuda.so",
            List.of(1),
            "install NVIDIA's driver for this GPU (in a container: start it with the GPU, docker run --gpus all), or"
                    + " use --device cpu"),

    /** Matrix products. */
    CUBLAS_LT(
            "libcublasLt.so",
            List.of(13, 12),
            "install CUDA 12 or 13, or pip install nvidia-cublas-cu12 (nvidia-cublas for CUDA 13); set OCTET_CUDA_HOME"
                    + " to the folder that has it"),

    /** The compiler of kernels. */
    NVRTC(
            "libnvrtc.so",
            List.of(13, 12),
            "install CUDA 12 or 13, or pip install nvidia-cuda-nvrtc-cu12 (nvidia-cuda-nvrtc for CUDA 13); set"
                    + " OCTET_CUDA_HOME to the folder that has it");

    private final String stem;
    private final List<Integer> majors;
    private final String remedy;

    CudaLibrary(String stem, List<Integer> majors, String remedy) {
        this.stem = stem;
        this.majors = majors;
        this.remedy = remedy;
    }

    /** Name without the version: {@code libnvrtc.so}. */
    String stem() {
        return stem;
    }

    /** Name of the file of a major version. */
    String file(int major) {
        return stem + "." + major;
    }

    /**
     * Major versions Octet knows, newest first.
     *
     * @param newest the newest that the driver supports
     */
    List<Integer> majors(int newest) {
        return this == DRIVER
                ? majors
                : majors.stream().filter(m -> m <= newest).toList();
    }

    /** What to do where there is none. */
    String remedy() {
        return remedy;
    }
}
