package dev.octet.converter.runtime;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;

/**
 * Whether ONNX Runtime is there, and models loaded by it. An archive for training leaves it out, so no class but those behind this one may
 * be linked with it.
 */
public final class OnnxRuntime {
    private static final String ENTRY = "ai.onnxruntime.OrtEnvironment";

    private OnnxRuntime() {}

    /**
     * Says at once that there is no ONNX Runtime, before anything long is begun that needs it in the end.
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
     * Loads a model.
     *
     * @throws UnavailableException when ONNX Runtime is not there, or has no native library for this platform
     * @throws UnsupportedModelException when ONNX Runtime refuses the model; the message is its own
     * @throws IOException when the file is not there
     */
    public static OnnxRuntimeSession open(Path model, SessionSettings settings) throws IOException {
        require();
        return OnnxRuntimeSession.open(model, settings);
    }

    /** The same for a model whose weights are inputs, as {@link OnnxRuntimeSession#open(Path, Map, SessionSettings)} says. */
    static OnnxRuntimeSession open(Path model, Map<String, Tensor> weights, SessionSettings settings)
            throws IOException {
        require();
        return OnnxRuntimeSession.open(model, weights, settings);
    }
}
