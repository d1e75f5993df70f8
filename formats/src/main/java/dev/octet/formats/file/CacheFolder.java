package dev.octet.formats.file;

import java.nio.file.Path;

/**
 * Octet's cache folder for reproducible files: unpacked libraries, compiled kernels, measured choices. Open it with {@link PrivateFolder}.
 */
public final class CacheFolder {
    private CacheFolder() {}

    /**
     * The system property {@code octet.cache}, else {@code octet} in the user's cache folder, {@code $XDG_CACHE_HOME} or {@code ~/.cache}.
     */
    public static Path path() {
        String own = System.getProperty("octet.cache", "");
        if (!own.isEmpty()) {
            return Path.of(own);
        }
        String xdg = System.getenv("XDG_CACHE_HOME");
        return xdg == null || xdg.isEmpty()
                ? Path.of(System.getProperty("user.home"), ".cache", "octet")
                : Path.of(xdg, "octet");
    }
}
