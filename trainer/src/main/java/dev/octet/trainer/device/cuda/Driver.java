package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.CacheFolder;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.JCudaDriver;

/** The CUDA driver, called through jcuda. It is loaded before jcuda's native library, which depends on it. */
final class Driver {
    /** Oldest CUDA version a driver must support: the first with FP8 and lazy loading. */
    static final int OLDEST = 12000;

    private static final int NAME_BYTES = 256;
    private static final Path MODULE = Path.of("/proc/driver/nvidia/version");
    private static final Pattern MODULE_VERSION = Pattern.compile("Kernel Module.*?\\s(\\d+\\.\\d+(?:\\.\\d+)?)\\s");

    private final LoadedLibrary library;
    private final int version;

    private Driver(LoadedLibrary library, int version) {
        this.library = library;
        this.version = version;
    }

    /**
     * Initialises the driver.
     *
     * @throws UnavailableException when it is missing, does not start, or is too old
     */
    static Driver start(CudaLibraries libraries) {
        LoadedLibrary library = libraries.find(CudaLibrary.DRIVER).orThrow();
        try {
            JcudaLibrary.load();
            check(JCudaDriver.cuInit(0), "cuInit", library.path());
        } catch (LinkageError e) {
            throw new UnavailableException(
                    "jcuda's native library cannot be loaded: "
                            + String.valueOf(e.getMessage()).strip(),
                    library.path() + ", " + CacheFolder.path(),
                    "Octet trains on NVIDIA GPUs under Linux on x86-64; the cache folder must allow execution"
                            + " (XDG_CACHE_HOME names another)",
                    e);
        }
        int[] version = {0};
        check(JCudaDriver.cuDriverGetVersion(version), "cuDriverGetVersion", library.path());
        if (version[0] < OLDEST) {
            throw new UnavailableException(
                    "NVIDIA's driver is too old: it supports CUDA " + text(version[0]) + ", but Octet needs 12.0",
                    library.path(),
                    "install driver 525 or later");
        }
        return new Driver(library, version[0]);
    }

    private static void check(int code, String call, String where) {
        DriverErrors.check(code, call, where);
    }

    private static String text(int version) {
        return version / 1000 + "." + version % 1000 / 10;
    }

    /** Path of the driver library. */
    String path() {
        return library.path();
    }

    /** Newest CUDA major version whose libraries it supports. */
    int major() {
        return version / 1000;
    }

    /** Version as {@code 580.65.06 (CUDA 13.0)}; only the part in parentheses when the system does not report the first. */
    String versionText() {
        String cuda = "CUDA " + text(version);
        try {
            Matcher m = MODULE_VERSION.matcher(Files.readString(MODULE, StandardCharsets.UTF_8));
            return m.find() ? m.group(1) + " (" + cuda + ")" : cuda;
        } catch (IOException e) {
            return cuda;
        }
    }

    /** Number of GPUs visible to this process. */
    int count() {
        int[] count = {0};
        check(JCudaDriver.cuDeviceGetCount(count), "cuDeviceGetCount", path());
        return count[0];
    }

    /** A GPU by ordinal. */
    CUdevice device(int ordinal) {
        CUdevice device = new CUdevice();
        check(JCudaDriver.cuDeviceGet(device, ordinal), "cuDeviceGet", "cuda:" + ordinal);
        return device;
    }

    /** Properties of a GPU, with the given versions. */
    GpuInfo info(int ordinal, String versions) {
        CUdevice device = device(ordinal);
        byte[] name = new byte[NAME_BYTES];
        check(JCudaDriver.cuDeviceGetName(name, NAME_BYTES, device), "cuDeviceGetName", "cuda:" + ordinal);
        long[] bytes = {0};
        check(JCudaDriver.cuDeviceTotalMem(bytes, device), "cuDeviceTotalMem", "cuda:" + ordinal);
        int major = attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        int minor = attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        return new GpuInfo(
                ordinal,
                new String(name, StandardCharsets.UTF_8).replace("\0", "").strip(),
                major * 10 + minor,
                attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                bytes[0],
                versions);
    }

    /** Bus id of a GPU, by which other libraries know it. */
    String busId(CUdevice device) {
        String[] id = {""};
        check(JCudaDriver.cuDeviceGetPCIBusId(id, NAME_BYTES, device), "cuDeviceGetPCIBusId", path());
        return id[0];
    }

    /** An integer attribute of a GPU. */
    int attribute(CUdevice device, int attribute) {
        int[] value = {0};
        check(JCudaDriver.cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute " + attribute, path());
        return value[0];
    }
}
