package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.DeviceLostException;
import dev.octet.formats.error.UnavailableException;
import jcuda.driver.CUresult;

/** Meaning of the driver's error codes ({@code CUresult} in cuda.h) for a run. */
final class DriverErrors {
    static final int OUT_OF_MEMORY = CUresult.CUDA_ERROR_OUT_OF_MEMORY;
    static final int NOT_FOUND = CUresult.CUDA_ERROR_NOT_FOUND;

    private DriverErrors() {}

    /** Name and number: {@code CUDA_ERROR_ILLEGAL_ADDRESS (700)}. */
    static String name(int code) {
        return CUresult.stringFor(code) + " (" + code + ")";
    }

    /**
     * Checks the result of a call.
     *
     * @param call name of the function and its purpose
     * @param gpu the GPU, for the message
     * @throws DeviceLostException when the GPU cannot be used any more in this process
     * @throws UnavailableException for other errors
     */
    static void check(int code, String call, String gpu) {
        if (code == CUresult.CUDA_SUCCESS) {
            return;
        }
        if (isLoss(code)) {
            throw new DeviceLostException(call + " failed: " + name(code) + meaning(code), gpu, lossRemedy(code), null);
        }
        throw new UnavailableException(call + " failed: " + name(code) + meaning(code), gpu, remedy(code));
    }

    /** Whether the context is permanently broken: every later call fails with the same code. */
    static boolean isLoss(int code) {
        return switch (code) {
            case 46, // device unavailable
                    214, // ECC uncorrectable
                    219, // GPU unavailable through a graphics context
                    220, // NVLink uncorrectable
                    226, // contained error
                    700, // illegal address
                    702, // launch timeout
                    709, // context is destroyed
                    710, // assert
                    714, // hardware stack error
                    715, // illegal instruction
                    716, // misaligned address
                    717, // invalid address space
                    718, // invalid program counter
                    719, // launch failed
                    721, // tensor memory leak
                    911, // external device
                    999 // unknown
            -> true;
            default -> false;
        };
    }

    private static String meaning(int code) {
        return switch (code) {
            case 700, 714, 715, 716, 717, 718, 719 -> ", caused by an earlier kernel";
            case 214, 220, 226 -> ", a hardware fault of the GPU's memory or link";
            case 702 -> ", a kernel ran longer than the system allows on a GPU with a display";
            default -> "";
        };
    }

    private static String lossRemedy(int code) {
        return switch (code) {
            case 214, 220, 226, 46 ->
                "check nvidia-smi -q and the system's log (Xid); continue with --resume on a working GPU";
            case 702 -> "use a GPU without a display, or lift its time limit; continue with --resume";
            default ->
                "continue with --resume; if it happens again, find the kernel with compute-sanitizer and report it"
                        + " with the output";
        };
    }

    private static String remedy(int code) {
        return switch (code) {
            case OUT_OF_MEMORY -> "use a smaller batch, or end other processes on the GPU (nvidia-smi)";
            // no kernel image for device, unsupported PTX version, JIT compiler not found, invalid PTX
            case 209, 222, 221, 218 ->
                "update NVIDIA's driver, or install a CUDA that matches it, so that kernels are compiled for this"
                        + " GPU";
            case 803, 804 -> "the driver's library and kernel module have different versions: restart the system";
            case 101, 100 -> "check nvidia-smi and CUDA_VISIBLE_DEVICES";
            case 801 -> "update NVIDIA's driver";
            default -> "check nvidia-smi and the system's log, or use --device cpu";
        };
    }
}
