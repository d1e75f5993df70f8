package dev.octet.converter.runtime;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;

/**
 * Checks that ONNX Runtime is available, and loads models with it. The training distribution omits it, so only classes reached through this
 * one may link to it.
 */
public final class OnnxRuntime {
    private static final String ENTRY = "ai.onnxruntime.OrtEnvironment";

    private OnnxRuntime() {}

    /**
     * Fails early if ONNX Runtime is missing, before long work that needs it at the end.
     *
     * @throws UnavailableException when its jar is not on the class path
     */
    public static void require() {
        require(OnnxRuntime.class.getClassLoader());
    }

    static void require(ClassLoader classes) {
        try {
            Class.forName(ENTRY, false, classes);
        } catch (ClassNotFoundException e) {
            throw UnavailableException.leftOut("ONNX Runtime", "com.microsoft.onnxruntime:onnxruntime", e);
        }
    }

    /**
     * The version of the native library, as "1.29.0".
     *
     * @throws UnavailableException when ONNX Runtime is missing, or has no native library for this platform
     */
    public static String version() {
        require();
        return OnnxRuntimeSession.version();
    }

    /**
     * Loads a model.
     *
     * @throws UnavailableException when ONNX Runtime is missing, or has no native library for this platform
     * @throws UnsupportedModelException when ONNX Runtime refuses the model; contains its message
     * @throws IOException when the file does not exist
     */
    public static OnnxRuntimeSession open(Path model, SessionSettings settings) throws IOException {
        require();
        return OnnxRuntimeSession.open(model, settings);
    }

    /** The same for a model whose weights are inputs, see {@link OnnxRuntimeSession#open(Path, Map, SessionSettings)}. */
    static OnnxRuntimeSession open(Path model, Map<String, Tensor> weights, SessionSettings settings)
            throws IOException {
        require();
        return OnnxRuntimeSession.open(model, weights, settings);
    }
}
