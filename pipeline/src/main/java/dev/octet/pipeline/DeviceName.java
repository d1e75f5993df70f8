package dev.octet.pipeline;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.CudaDevice;
import dev.octet.trainer.device.cuda.Gpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import java.util.regex.Pattern;

/**
 * Where the trainer computes.
 *
 * @param text {@code cpu}; {@code cuda} or {@code cuda:N}, a GPU by its number; {@code reference}, F64 and slowly
 */
public record DeviceName(String text) {
    private static final Pattern VALID = Pattern.compile("cpu|reference|cuda(:\\d{1,4})?");

    /** All cores of the processor. */
    public static final DeviceName CPU = new DeviceName("cpu");

    public DeviceName {
        if (!isValid(text)) {
            throw new IllegalArgumentException("unknown device '" + text + "'");
        }
    }

    /** Whether a device can have this name. */
    public static boolean isValid(String text) {
        return VALID.matcher(text).matches();
    }

    /** Whether it is a GPU, whose memory is not that of the host. */
    public boolean isGpu() {
        return text.startsWith("cuda");
    }

    /**
     * The device of one of several processes on this machine: {@code cuda} stands for the GPU with the number of the process, any other name for what it says.
     *
     * @param local the number of the process on this machine, from 0
     */
    public DeviceName ofProcess(int local) {
        return text.equals("cuda") ? new DeviceName("cuda:" + local) : this;
    }

    /**
     * The device, to be closed by the caller.
     *
     * @param threads for {@code cpu}
     * @throws dev.octet.formats.error.UnavailableException when there is no such GPU, or it cannot be used
     */
    Device open(int threads) {
        return switch (text) {
            case "cpu" -> CpuDevice.of(threads);
            case "reference" -> new ReferenceDevice();
            default -> {
                int colon = text.indexOf(':');
                int ordinal = colon < 0 ? 0 : Integer.parseInt(text.substring(colon + 1));
                yield new CudaDevice(Gpus.find(ordinal).orThrow());
            }
        };
    }
}
