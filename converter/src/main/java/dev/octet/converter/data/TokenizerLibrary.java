package dev.octet.converter.data;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NativeFiles;
import java.util.List;
import java.util.Map;

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

    /**
     * The library asks the network for a build of its native code for the GPU at hand, and reports its use on EC2, unless told not
     * to.
     */
    private static final Map<String, String> OFFLINE =
            Map.of("ai.djl.offline", "true", "OPT_OUT_TRACKING", "true", "RUST_FLAVOR", "cpu");

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
            String file = System.mapLibraryName("tokenizers");
            System.setProperty(
                    LIBRARY,
                    NativeFiles.unpack(loader, "native/lib/" + NativeFiles.platform() + "/cpu/", List.of(file))
                            .resolve(file)
                            .toString());
        }
        String folder = "com/sun/jna/" + NativeFiles.platform().replace('_', '-') + "/";
        String file = System.mapLibraryName("jnidispatch");
        if (isNotSet(JNA_FOLDER) && NativeFiles.has(loader, folder + file)) {
            System.setProperty(
                    JNA_FOLDER,
                    NativeFiles.unpack(loader, folder, List.of(file)).toString());
        }
    }

    private static boolean isNotSet(String name) {
        return System.getProperty(name) == null && System.getenv(name) == null;
    }
}
