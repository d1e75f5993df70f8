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
 * The native library of Hugging Face's tokenizers: where it is loaded from, and that it stays off the network.
 *
 * <p>By itself it would be unpacked to a folder in the home, or where that cannot be written to one in the folder for temporary files, and
 * what lies there already would be loaded.
 */
final class TokenizerLibrary {
    /** The library, or the folder it lies in. */
    private static final String LIBRARY = "RUST_LIBRARY_PATH";

    /** Where JNA's library lies, with which the tokenizer's looks for a GPU. */
    private static final String JNA_FOLDER = "jna.boot.library.path";

    /** Where JNA would unpack its library; it makes this folder in any case. */
    private static final String JNA_TEMPORARY = "jna.tmpdir";

    /**
     * The library asks the network for a build of its native code for the GPU at hand, and reports its use on EC2, unless told not
     * to.
     */
    private static final Map<String, String> OFFLINE =
            Map.of("ai.djl.offline", "true", "OPT_OUT_TRACKING", "true", "RUST_FLAVOR", "cpu");

    /** What the library needs next to it on Windows. */
    private static final List<String> BESIDE = List.of("libwinpthread-1.dll", "libgcc_s_seh-1.dll", "libstdc++-6.dll");

    private static final List<String> SETTINGS = List.of(
            LIBRARY,
            JNA_FOLDER,
            JNA_TEMPORARY,
            "ai.djl.offline",
            "OPT_OUT_TRACKING",
            "RUST_FLAVOR",
            "java.io.tmpdir",
            "user.home");

    private TokenizerLibrary() {}

    /**
     * Says where the library lies, before it is loaded. What the user has set stays.
     *
     * @throws UnavailableException when there is no build for this platform, or it cannot be unpacked
     */
    static synchronized void prepare() {
        OFFLINE.forEach((name, value) -> {
            if (isNotSet(name)) {
                System.setProperty(name, value);
            }
        });
        ClassLoader loader = HuggingFaceTokenizer.class.getClassLoader();
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

    /** JNA's own library, which on macOS has the ending of old. */
    private static String jna() {
        return System.mapLibraryName("jnidispatch").replace(".dylib", ".jnilib");
    }

    /** Which build of the library is loaded: its file, named by its checksum. */
    static String build() {
        String own = System.getProperty(LIBRARY);
        return own == null ? String.valueOf(System.getenv(LIBRARY)) : own;
    }

    /** What another process needs to load the same library; the environment it has anyway. */
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
