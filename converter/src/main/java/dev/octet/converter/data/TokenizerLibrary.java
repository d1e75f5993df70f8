package dev.octet.converter.data;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NativeFiles;
import dev.octet.formats.file.Platform;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Prepares the native library of Hugging Face's tokenizers: sets where it is loaded from, keeps it off the network and its logging library
 * quiet.
 *
 * <p>By default, the library would be unpacked to a folder in the home, or in the temporary folder if the home is not writable, and a file
 * that already exists there would be loaded.
 */
final class TokenizerLibrary {
    /** Path of the library or its folder. */
    private static final String LIBRARY = "RUST_LIBRARY_PATH";

    /** Folder of JNA's library, which the tokenizer library uses to look for a GPU. */
    private static final String JNA_FOLDER = "jna.boot.library.path";

    /** Folder into which JNA would unpack its library; JNA always creates it. */
    private static final String JNA_TEMPORARY = "jna.tmpdir";

    /**
     * Without this setting, the library asks the network for a build for the machine's GPU, and reports its use on EC2.
     */
    private static final Map<String, String> OFFLINE =
            Map.of("ai.djl.offline", "true", "OPT_OUT_TRACKING", "true", "RUST_FLAVOR", "cpu");

    /** What SLF4J, which the library logs through, says about itself: by default, three lines that nothing reads its log. */
    private static final String SLF4J_REPORTS = "slf4j.internal.verbosity";

    /** Lists a logging library that reads SLF4J's log. */
    private static final String SLF4J_PROVIDERS = "META-INF/services/org.slf4j.spi.SLF4JServiceProvider";

    /** Files that the library needs in its folder on Windows. */
    private static final List<String> BESIDE = List.of("libwinpthread-1.dll", "libgcc_s_seh-1.dll", "libstdc++-6.dll");

    private static final List<String> SETTINGS = List.of(
            LIBRARY,
            JNA_FOLDER,
            JNA_TEMPORARY,
            "ai.djl.offline",
            "OPT_OUT_TRACKING",
            "RUST_FLAVOR",
            SLF4J_REPORTS,
            "java.io.tmpdir",
            "user.home");

    private TokenizerLibrary() {}

    /**
     * Sets the library's path before it is loaded. The user's settings take precedence.
     *
     * @throws UnavailableException when there is no build for this platform, or unpacking fails
     */
    static synchronized void prepare() {
        OFFLINE.forEach((name, value) -> {
            if (isNotSet(name)) {
                System.setProperty(name, value);
            }
        });
        ClassLoader loader = HuggingFaceTokenizer.class.getClassLoader();
        if (isNotSet(SLF4J_REPORTS) && loader.getResource(SLF4J_PROVIDERS) == null) {
            System.setProperty(SLF4J_REPORTS, "ERROR"); // that nothing reads the log is no fault of the program
        }
        if (isNotSet(LIBRARY)) {
            String folder =
                    "native/lib/" + Platform.current().map(Platform::tokenizers).orElse("no") + "/cpu/";
            List<String> files = new ArrayList<>(List.of(System.mapLibraryName("tokenizers")));
            BESIDE.stream().filter(f -> NativeFiles.has(loader, folder + f)).forEach(files::add);
            System.setProperty(
                    LIBRARY,
                    NativeFiles.unpack(loader, folder, files)
                            .resolve(files.getFirst())
                            .toString());
        }
        String folder = "com/sun/jna/" + Platform.current().map(Platform::jna).orElse("no") + "/";
        String file = jna();
        if (isNotSet(JNA_FOLDER) && NativeFiles.has(loader, folder + file)) {
            String unpacked = NativeFiles.unpack(loader, folder, List.of(file)).toString();
            System.setProperty(JNA_FOLDER, unpacked);
            if (isNotSet(JNA_TEMPORARY)) {
                System.setProperty(JNA_TEMPORARY, unpacked);
            }
        }
    }

    /** File name of JNA's library, which has the old extension on macOS. */
    private static String jna() {
        return System.mapLibraryName("jnidispatch").replace(".dylib", ".jnilib");
    }

    /** The build of the loaded library: its file, named by its checksum. */
    static String build() {
        String own = System.getProperty(LIBRARY);
        return own == null ? String.valueOf(System.getenv(LIBRARY)) : own;
    }

    /** System properties with which another process loads the same library; it inherits the environment. */
    static Map<String, String> settings() {
        Map<String, String> settings = new TreeMap<>();
        for (String name : SETTINGS) {
            String value = System.getProperty(name);
            if (value != null) {
                settings.put(name, value);
            }
        }
        return settings;
    }

    private static boolean isNotSet(String name) {
        return System.getProperty(name) == null && System.getenv(name) == null;
    }
}
