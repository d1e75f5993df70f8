package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** Clock of a GPU's multiprocessors, from the driver's management library (NVML API reference); 0 where that is missing or refuses. */
final class GpuClock {
    private static final int SUCCESS = 0;
    private static final int MULTIPROCESSORS = 1; // NVML_CLOCK_SM

    private final Reader reader;

    /** Reads the clock in MHz; 0 when it is not known. */
    private interface Reader {
        int megahertz();
    }

    private GpuClock(Reader reader) {
        this.reader = reader;
    }

    /** The clock of the GPU with this PCI bus id, as {@code cuDeviceGetPCIBusId} gives it. */
    static GpuClock of(CudaLibraries libraries, String busId) {
        if (!(libraries.find(CudaLibrary.NVML) instanceof LibrarySearch.Found found)) {
            return unknown();
        }
        LoadedLibrary nvml = found.loaded();
        try (Arena arena = Arena.ofConfined()) {
            MethodHandle start = nvml.function("nvmlInit_v2");
            MethodHandle find =
                    nvml.function("nvmlDeviceGetHandleByPciBusId_v2", ValueLayout.ADDRESS, ValueLayout.ADDRESS);
            MethodHandle read = nvml.function(
                    "nvmlDeviceGetClockInfo", ValueLayout.ADDRESS, ValueLayout.JAVA_INT, ValueLayout.ADDRESS);
            MemorySegment device = arena.allocate(ValueLayout.ADDRESS);
            if ((int) start.invokeExact() != SUCCESS
                    || (int) find.invokeExact(arena.allocateFrom(busId), device) != SUCCESS) {
                return unknown();
            }
            MemorySegment handle = device.get(ValueLayout.ADDRESS, 0);
            return new GpuClock(() -> megahertz(read, handle));
        } catch (UnavailableException e) {
            return unknown(); // a library of another kind
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** A clock that cannot be read. */
    static GpuClock unknown() {
        return new GpuClock(() -> 0);
    }

    private static int megahertz(MethodHandle read, MemorySegment device) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment clock = arena.allocate(ValueLayout.JAVA_INT);
            int code = (int) read.invokeExact(device, MULTIPROCESSORS, clock);
            return code == SUCCESS ? clock.get(ValueLayout.JAVA_INT, 0) : 0;
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** The clock now, in MHz; 0 when it is not known. */
    int megahertz() {
        return reader.megahertz();
    }
}
