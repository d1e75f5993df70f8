package dev.octet.converter.runtime;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtLoggingLevel;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NativeFiles;
import dev.octet.formats.file.Platform;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.jspecify.annotations.Nullable;

/** Prepares ONNX Runtime's native library: sets where it is loaded from, and its environment. */
final class OnnxRuntimeLibrary {
    /** ONNX Runtime reads this variable at its start; its API call to disable telemetry is possible only after the first event was sent. */
    private static final String NO_TELEMETRY = "ORT_DISABLE_TELEMETRY";

    private static final String LIBRARY_FOLDER = "onnxruntime.native.path";

    /** Enough for an argument of 128 KiB on the command line, the limit of Linux. */
    private static final long START_STACK_BYTES = 256L << 20;

    private static @Nullable OrtEnvironment environment;

    private OnnxRuntimeLibrary() {}

    /**
     * ONNX Runtime's environment, created once per process, with telemetry disabled.
     *
     * <p>Created on a thread with a large stack, because ONNX Runtime 1.29 matches the process's command line with a recursive regular
     * expression at its start: a class path of 5 kB overflows the usual megabyte, and the process dies without a message.
     *
     * @throws UnavailableException when the library cannot be loaded, or telemetry cannot be disabled
     */
    static synchronized OrtEnvironment environment() {
        OrtEnvironment made = environment;
        if (made == null) {
            turnTelemetryOff();
            unpack();
            made = start();
            environment = made;
        }
        return made;
    }

    /** Sets the variable by a native call, because Java can only read the process environment. */
    private static void turnTelemetryOff() {
        if ("1".equals(System.getenv(NO_TELEMETRY))) {
            return;
        }
        MethodHandle setenv; // int setenv(const char* name, const char* value, int overwrite)
        try {
            Linker linker = Linker.nativeLinker();
            setenv = linker.downcallHandle(
                    linker.defaultLookup().findOrThrow("setenv"),
                    FunctionDescriptor.of(
                            ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
        } catch (IllegalCallerException | NoSuchElementException e) {
            throw telemetryStaysOn(String.valueOf(e.getMessage()), e);
        }
        try (Arena arena = Arena.ofConfined()) {
            int code = (int) setenv.invokeExact(arena.allocateFrom(NO_TELEMETRY), arena.allocateFrom("1"), 1);
            if (code != 0) {
                throw telemetryStaysOn("setenv failed", null);
            }
        } catch (OctetException e) {
            throw e;
        } catch (Throwable e) { // declared by downcalls, which throw only for wrong arguments
            throw new IllegalStateException("setenv cannot be called", e);
        }
    }

    private static UnavailableException telemetryStaysOn(String reason, @Nullable Throwable cause) {
        return new UnavailableException(
                "Octet does not start ONNX Runtime, because its telemetry cannot be disabled: " + reason,
                "module dev.octet.converter, environment variable " + NO_TELEMETRY,
                "start java with --enable-native-access=ALL-UNNAMED (or the module's name), or set " + NO_TELEMETRY
                        + "=1 before",
                cause);
    }

    /**
     * Unpacks the libraries to the user's folder, unless the user sets their path; ONNX Runtime searches for libraries that the jar lacks.
     */
    private static void unpack() {
        Optional<Platform> platform = Platform.current();
        if (System.getProperty(LIBRARY_FOLDER) != null || platform.isEmpty()) {
            return;
        }
        ClassLoader loader = OrtEnvironment.class.getClassLoader();
        String folder = "ai/onnxruntime/native/" + platform.get().onnxRuntime() + "/";
        List<String> names = new ArrayList<>();
        // the last is only in the GPU artifact, and has to lie next to the first
        for (String library : List.of("onnxruntime", "onnxruntime4j_jni", "onnxruntime_providers_shared")) {
            String name = System.mapLibraryName(library);
            if (NativeFiles.has(loader, folder + name)) {
                names.add(name);
            }
        }
        if (names.size() >= 2) {
            System.setProperty(
                    LIBRARY_FOLDER, NativeFiles.unpack(loader, folder, names).toString());
        }
    }

    private static OrtEnvironment start() {
        FutureTask<OrtEnvironment> task = new FutureTask<>(() -> {
            OrtEnvironment made = OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_FATAL);
            made.setTelemetry(false);
            return made;
        });
        Thread starter = new Thread(null, task, "onnxruntime-start", START_STACK_BYTES);
        starter.start();
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return task.get();
                } catch (InterruptedException e) {
                    interrupted = true; // the load continues
                }
            }
        } catch (ExecutionException e) { // wraps a failed load in the static initialiser
            Throwable cause = e.getCause();
            throw new UnavailableException(
                    "ONNX Runtime's native library cannot be loaded: " + (cause == null ? e : cause).getMessage(),
                    "com.microsoft.onnxruntime:onnxruntime on " + System.getProperty("os.name") + " "
                            + System.getProperty("os.arch") + ", " + System.getProperty(LIBRARY_FOLDER),
                    "use a platform that ONNX Runtime has a build for, and make sure that programs may run in the cache"
                            + " folder",
                    e);
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
