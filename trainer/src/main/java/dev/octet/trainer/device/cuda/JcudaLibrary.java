package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NativeFiles;
import dev.octet.formats.file.Platform;
import java.nio.file.Path;
import java.util.List;
import jcuda.driver.JCudaDriver;

/**
 * jcuda's native library, loaded from the user's own folder.
 *
 * <p>By itself jcuda would unpack it to the folder for temporary files under a name that everybody can guess, and load whatever lies there
 * under that name already.
 */
final class JcudaLibrary {
    /** The version of jcuda; docs/cuda.md. */
    static final String VERSION = "12.6.0";

    private static final String TEMPORARY_FOLDER = "java.io.tmpdir";
    private static boolean loaded;

    private JcudaLibrary() {}

    /**
     * Loads it, once in a process.
     *
     * @throws UnavailableException when it has no build for this platform, or cannot be unpacked
     * @throws LinkageError when it cannot be loaded
     */
    static synchronized void load() {
        if (loaded) {
            return;
        }
        String file = System.mapLibraryName("JCudaDriver-" + VERSION + "-" + Platform.text());
        Path folder = NativeFiles.unpack(JCudaDriver.class.getClassLoader(), "lib/", List.of(file));
        // jcuda has no setting for its folder, and looks at this property when its class is initialised; the JDK itself
        // does not: it
        // has the value from its start
        String before = System.setProperty(TEMPORARY_FOLDER, folder.toString());
        try {
            JCudaDriver.setExceptionsEnabled(false); // codes are checked where calls are made
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
