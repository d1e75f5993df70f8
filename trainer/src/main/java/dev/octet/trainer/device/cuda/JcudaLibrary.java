package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NativeFiles;
import dev.octet.formats.file.Platform;
import java.nio.file.Path;
import java.util.List;
import jcuda.driver.JCudaDriver;

/**
 * jcuda's native library, loaded from a folder that only the user can write to.
 *
 * <p>By default jcuda unpacks it to the temporary folder under a predictable name, and loads any file that already exists under that name.
 */
final class JcudaLibrary {
    /** The version of jcuda; docs/cuda.md. */
    static final String VERSION = "12.6.0";

    private static final String TEMPORARY_FOLDER = "java.io.tmpdir";
    private static boolean loaded;

    private JcudaLibrary() {}

    /**
     * Loads the library, once per process.
     *
     * @throws UnavailableException when there is no build for this platform, or it cannot be unpacked
     * @throws LinkageError when the library cannot be loaded
     */
    static synchronized void load() {
        if (loaded) {
            return;
        }
        String file = System.mapLibraryName("JCudaDriver-" + VERSION + "-" + Platform.text());
        Path folder = NativeFiles.unpack(JCudaDriver.class.getClassLoader(), "lib/", List.of(file));
        // jcuda has no setting for its folder; it reads this property when its class is initialised. The JDK itself
        // reads the property only at startup
        String before = System.setProperty(TEMPORARY_FOLDER, folder.toString());
        try {
            JCudaDriver.setExceptionsEnabled(false); // each call checks its code
        } finally {
            if (before == null) {
                System.clearProperty(TEMPORARY_FOLDER);
            } else {
                System.setProperty(TEMPORARY_FOLDER, before);
            }
        }
        loaded = true;
    }
}
